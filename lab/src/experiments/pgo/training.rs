//! The training: the loads that a profile-guided build is for.
//!
//! ```text
//! each engine ─┬─ HTTP/1.1: lengths, forms of requests, pipelined, new connections     directory, packed site
//!              ├─ HTTPS: requests, handshakes
//!              └─ HTTP/2: with TLS, in clear text
//! tarpon pack ─── each effort
//! ```

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{PgoFiles, file_count};
use crate::client::closed_loop::{ClosedLoopClient, OnClose, RequestBatch};
use crate::client::h2load;
use crate::client::request::RequestForm;
use crate::client::tls_load::TlsLoadClient;
use crate::error::LabError;
use crate::generated_site;
use crate::records::http2::Http2Load;
use crate::records::round::MeasuredServer;
use crate::records::server::{PeerServer, SiteForm};
use crate::servers::certificate::CertificateKey;
use crate::servers::process::ServerProcess;
use crate::servers::programs::run_command;
use crate::servers::proxy_setup::ServerSwitches;
use crate::servers::test_bed::TestBed;

/// Runs all loads with a program that counts, each for `seconds`.
pub(super) fn train(program: &Path, files: &PgoFiles, seconds: f64) -> Result<(), LabError> {
    h2load::version()?;
    let mut bed = test_bed(program)?;
    let servers = bed.prepare(SERVERS.to_vec())?;
    let time = Duration::from_secs_f64(seconds);
    let directories = || servers.iter().filter(|measured| !PACKED.contains(&measured.server));
    for measured in &servers {
        serve(&bed, files, measured, "HTTP/1.1", |process| requests(process, time))?;
    }
    bed.use_certificate(CertificateKey::EcdsaP256)?;
    for measured in directories() {
        serve(&bed, files, measured, "HTTPS", |process| tls_operations(&bed, process, time))?;
    }
    bed.use_http2();
    for measured in directories() {
        serve(&bed, files, measured, "HTTP/2 with TLS", |process| http2_requests(process, true, time))?;
    }
    bed.use_no_certificate();
    for measured in directories() {
        serve(&bed, files, measured, "HTTP/2", |process| http2_requests(process, false, time))?;
    }
    for effort in PACK_EFFORTS {
        eprintln!("training: tarpon pack, {effort}");
        // Contents of an earlier archive would not be compressed again.
        fs::remove_file(bed.site_as(SiteForm::Packed))?;
        run_command(&mut bed.pack_command(effort))?;
    }
    Ok(())
}

/// Creates a site with a page of each length, and some that differ, for the site builder and the packer.
fn test_bed(program: &Path) -> Result<TestBed, LabError> {
    let first = (&*page_of(SMALL), generated_site::lines(SMALL));
    let mut bed = TestBed::new(&env::temp_dir(), first, Some(program), None)?;
    for len in LOADS.iter().map(|(len, _)| *len) {
        fs::write(bed.site().join(page_of(len)), generated_site::lines(len))?;
    }
    generated_site::write(&bed.site(), GENERATED_PAGES)?;
    bed.use_gzip()?;
    bed.use_switches(ServerSwitches { writes_profile: true, ..ServerSwitches::default() });
    Ok(bed)
}

/// Starts a server, lets clients send requests, and stops the server. Fails unless its processes wrote their counters.
fn serve(
    bed: &TestBed,
    files: &PgoFiles,
    measured: &MeasuredServer,
    what: &str,
    load: impl FnOnce(&ServerProcess) -> Result<u64, LabError>,
) -> Result<(), LabError> {
    let (name, before) = (&measured.name, file_count(&files.serving())?);
    let process = bed.start(measured.server)?;
    let requests = load(&process).map_err(|error| format!("{name}, {what}: {error}"))?;
    drop(process);
    eprintln!("training: {name}, {what}: {requests} requests");
    match file_count(&files.serving())? > before {
        true => Ok(()),
        false => Err(format!("{name}: no process wrote its counters\n{}", bed.server_output()).into()),
    }
}

/// Sends each form of request over HTTP/1.1. Returns how many were answered.
fn requests(process: &ServerProcess, time: Duration) -> Result<u64, LabError> {
    let mut requests = 0;
    for (len, batch) in LOADS {
        let (path, on_close) = (path_of(*len), if batch.closes { OnClose::Reconnect } else { OnClose::Fail });
        let mut client = ClosedLoopClient::connect(process.address(), &path, *batch, CONNECTIONS, on_close)?;
        requests += client.run(time)?.requests;
    }
    Ok(requests)
}

/// Sends requests over HTTPS: on connections that stay open, then each with a full or a resumed handshake.
fn tls_operations(bed: &TestBed, process: &ServerProcess, time: Duration) -> Result<u64, LabError> {
    let mut requests = 0;
    for (len, reconnects, resumes) in
        [(SMALL, false, false), (LARGE, false, false), (SMALL, true, false), (SMALL, true, true)]
    {
        let (path, offer) = (path_of(len), bed.tls_offer(resumes)?);
        let page = (path.as_str(), len);
        let mut client = TlsLoadClient::connect(process.address(), offer, page, CONNECTIONS, reconnects)?;
        requests += client.run(time)?.operations;
    }
    Ok(requests)
}

/// Sends requests over HTTP/2.
fn http2_requests(process: &ServerProcess, has_tls: bool, time: Duration) -> Result<u64, LabError> {
    let mut requests = 0;
    for len in [SMALL, LARGE] {
        let load = Http2Load { connections: 8, streams: 16 };
        let counts = h2load::run(process.address(), has_tls, (&path_of(len), len), load, time)?;
        requests += counts.requests as u64;
    }
    Ok(requests)
}

/// Returns the name of the page with this length.
fn page_of(len: usize) -> String {
    format!("page-{len}.html")
}

fn path_of(len: usize) -> String {
    format!("/{}", page_of(len))
}

const SERVERS: [PeerServer; 4] = [PeerServer::TarponUring, PeerServer::TarponEpoll, PACKED[0], PACKED[1]];
const PACKED: [PeerServer; 2] = [PeerServer::TarponUringPacked, PeerServer::TarponEpollPacked];

/// The requests over HTTP/1.1, by the length of the page.
const LOADS: &[(usize, RequestBatch)] = &[
    (SMALL, RequestBatch::ONE),
    (SMALL, of_form(RequestForm::Browser)),
    (137, RequestBatch::ONE),
    (10_240, of_form(RequestForm::Browser)),
    (LARGE, RequestBatch::ONE),
    (1 << 20, RequestBatch::ONE),
    (10_240, of_form(RequestForm::Gzip)),
    (10_240, of_form(RequestForm::Range)),
    (10_240, of_form(RequestForm::Conditional)),
    (SMALL, RequestBatch { count: 16, ..RequestBatch::ONE }),
    (SMALL, RequestBatch { closes: true, ..RequestBatch::ONE }),
];

const fn of_form(form: RequestForm) -> RequestBatch {
    RequestBatch { form, ..RequestBatch::ONE }
}

/// Bytes of the usual page, and of one that leaves in several records of TLS.
const SMALL: usize = 1 << 10;
const LARGE: usize = 64 << 10;

const CONNECTIONS: usize = 32;

/// Pages that differ: enough for some of each length, and packed within seconds.
const GENERATED_PAGES: usize = 100;

/// The site is packed with the effort `fast` before.
const PACK_EFFORTS: [&str; 2] = ["balanced", "best"];
