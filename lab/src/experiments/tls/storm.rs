//! Storms: response times at a fixed rate, quiet and beside full handshakes.
//!
//! ```text
//! server ◀─ open-loop client: a page of 1 KiB on kept-alive TLS connections, at fixed times      first alone,
//!        ◀─ storm: handshake, request, close, at a fixed rate                                    then together with it
//! ```

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::set_current_timer_slack;

use super::TlsArgs;
use crate::client::open_loop::OpenLoopClient;
use crate::client::tls_storm::TlsStorm;
use crate::error::LabError;
use crate::experiments::cores::TwoCores;
use crate::experiments::rounds::WARM_UP_TIME;
use crate::measure::machine::this_machine;
use crate::records::server::PeerServer;
use crate::records::tls::{StormPart, StormRecord, StormWindow, TlsOperation, TlsSettings};
use crate::servers::certificate::CertificateKey;
use crate::servers::test_bed::TestBed;

/// Rates of a storm, in handshakes and requests per second, and the connections for the requests.
#[derive(Clone, Copy)]
struct StormLoad {
    handshakes: u32,
    requests: u32,
    connections: u32,
}

/// Measures storms of this many handshakes per second.
pub(super) fn measure(args: &TlsArgs, storm_rate: u32) -> Result<StormRecord, LabError> {
    let machine = this_machine();
    let cores = TwoCores::choose(&args.cores)?;
    // The default timer slack delays scheduled requests by up to 50 µs. Threads inherit the setting.
    set_current_timer_slack(NonZeroU64::new(1))?;

    // Each test bed has its own certificate.
    let mut beds = [args.test_bed()?, args.test_bed()?];
    beds[0].use_certificate(CertificateKey::EcdsaP256)?;
    beds[1].use_certificate(CertificateKey::Rsa2048)?;
    let servers = beds[0].prepare(beds[0].installed(args.servers()))?;
    let (settings, connections) = (args.settings(&cores), args.connections() as u32);
    let load = StormLoad { handshakes: storm_rate, requests: args.rate, connections };
    let rounds = args.plan(&servers, &cores).run(
        |server| {
            let part = |bed| measure_part(bed, &settings, &cores, load, server);
            Ok(StormWindow { server, ecdsa: part(&beds[0])?, rsa: part(&beds[1])? })
        },
        |window| settings.dirty_share(window.other_share()),
    )?;
    let (command, rate) = (args.command(), args.rate);
    Ok(StormRecord { command, machine, settings, rate, connections, storm_rate, servers, rounds })
}

/// Starts, measures and stops one server with one certificate.
fn measure_part(
    bed: &TestBed,
    settings: &TlsSettings,
    cores: &TwoCores,
    load: StormLoad,
    server: PeerServer,
) -> Result<StormPart, LabError> {
    let process = bed.start(server)?;
    process.threads()?.expect_pinned_to(cores.server)?;
    let (address, path, time) = (process.address(), bed.path(), Duration::from_secs_f64(settings.seconds));
    let offer = bed.tls_offer(false)?;
    cores.on_client_core(|| {
        let mut client =
            OpenLoopClient::connect_tls(address, &offer, &path, load.connections, load.requests)?;
        let storm =
            TlsStorm::new(address, offer.clone(), (&path, TlsOperation::Full.content_len()), load.handshakes);
        storm.run(WARM_UP_TIME, || Ok(client.run(WARM_UP_TIME)?))?;
        let mut measure = || {
            cores.measure(
                || process.threads(),
                || {
                    let times = client.run(time)?;
                    Ok((times.len(), times))
                },
            )
        };
        let quiet = measure()?;
        let (handshakes, storm) = storm.run(time, measure)?;
        Ok(StormPart { quiet, storm, handshakes })
    })
}
