//! The test bed: a site in all forms, the programs, and a directory for files of the servers.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::certificate::{CertificateKey, LabCertificate};
use super::cgi_programs;
use super::check::{check, check_http2, check_tls};
use super::port::unused_address;
use super::process::ServerProcess;
use super::programs::{StartValues, TarponBuilds, run_command, tarpon_version};
use super::proxy_setup::{ProxySetup, ServerSwitches};
use crate::client::closed_loop::{ClosedLoopClient, OnClose, RequestBatch};
use crate::client::tls::TlsOffer;
use crate::error::LabError;
use crate::generated_site;
use crate::null_server;
use crate::records::round::MeasuredServer;
use crate::records::server::{PeerServer, SiteForm};

/// A site, and everything that servers need to serve it. Dropping the value deletes its directory.
pub(crate) struct TestBed {
    directory: TempDir,
    /// The page that the lab requests from every server, and its content.
    page: String,
    content: Vec<u8>,
    builds: TarponBuilds,
    /// Bytes of the head that the null servers send.
    null_head_len: usize,
    /// What the client sends to the null servers.
    batch: RequestBatch,
    /// Servers speak TLS with this certificate.
    certificate: Option<LabCertificate>,
    /// Servers speak HTTP/2.
    has_http2: bool,
    /// Servers send files in gzip that lie beside the others.
    has_gzip: bool,
    /// The directory of CGI programs.
    programs: Option<PathBuf>,
    proxy: Option<ProxySetup>,
    switches: ServerSwitches,
}

impl TestBed {
    /// Creates a site with one page, given by name and content, in a new directory below `place`.
    pub(crate) fn new(
        place: &Path,
        (page, content): (&str, Vec<u8>),
        tarpon: Option<&Path>,
        before: Option<&Path>,
    ) -> Result<TestBed, LabError> {
        let directory = tempfile::Builder::new()
            .prefix("tarpon-lab-")
            .tempdir_in(place)
            .map_err(|error| format!("{}: {error}", place.display()))?;
        // tarpon drops root privileges, and must still be able to read the site.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let current = match tarpon {
            Some(path) => path.to_owned(),
            None => std::env::current_exe()?.with_file_name("tarpon"),
        };
        let embedding = std::env::current_exe()?.with_file_name("hello");
        let builds = TarponBuilds { current, before: before.map(Path::to_owned), embedding, other: None };
        let bed = TestBed {
            directory,
            page: page.to_owned(),
            content,
            builds,
            null_head_len: null_server::HEAD_SIZE,
            batch: RequestBatch::ONE,
            certificate: None,
            has_http2: false,
            has_gzip: false,
            programs: None,
            proxy: None,
            switches: ServerSwitches::default(),
        };
        let file = bed.site().join(page);
        fs::create_dir_all(file.parent().expect("a file of the site"))?;
        fs::write(file, &bed.content)?;
        Ok(bed)
    }

    /// Returns the directory of the site. An experiment may add files before it calls [`prepare`](TestBed::prepare).
    pub(crate) fn site(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    /// Lets the servers that are started from now on speak TLS.
    pub(crate) fn use_certificate(&mut self, kind: CertificateKey) -> Result<(), LabError> {
        self.certificate = Some(LabCertificate::create(self.directory.path(), kind)?);
        Ok(())
    }

    /// Lets the servers that are started from now on speak no TLS.
    pub(crate) fn use_no_certificate(&mut self) {
        self.certificate = None;
    }

    /// Lets the servers that are started from now on speak HTTP/2.
    pub(crate) fn use_http2(&mut self) {
        self.has_http2 = true;
    }

    /// Lets the servers that are started from now on have CGI programs, and returns their directory. The program `hello` answers with the
    /// content of the page.
    pub(crate) fn use_cgi_programs(&mut self) -> Result<PathBuf, LabError> {
        let programs = cgi_programs::build(self.directory.path(), &self.content)?;
        self.programs = Some(programs.clone());
        Ok(programs)
    }

    /// Lets the servers that are started from now on forward requests.
    pub(crate) fn use_proxy(&mut self, proxy: ProxySetup) {
        self.proxy = Some(proxy);
    }

    /// Starts servers with these switches from now on.
    pub(crate) fn use_switches(&mut self, switches: ServerSwitches) {
        self.switches = switches;
    }

    /// Requests this path from now on, which has this content.
    pub(crate) fn use_content(&mut self, path: String, content: Vec<u8>) {
        (self.page, self.content) = (path, content);
    }

    /// Takes the programs that embed a server from this directory.
    pub(crate) fn use_embedding_programs(&mut self, directory: &Path) {
        self.builds.embedding = directory.to_owned();
    }

    /// Starts the other server with this command line.
    pub(crate) fn use_other(&mut self, command: &str) {
        self.builds.other = Some(command.to_owned());
    }

    /// Adds a copy of the files of a directory to the site. Call it before [`prepare`](TestBed::prepare).
    pub(crate) fn add_site(&self, site: &Path) -> Result<(), LabError> {
        run_command(
            Command::new("cp")
                .args(["--recursive", "--dereference", "--no-target-directory"])
                .arg(site)
                .arg(self.site()),
        )
    }

    /// Puts a copy of each file of text in gzip beside it, which servers send instead. Call it before [`prepare`](TestBed::prepare).
    pub(crate) fn use_gzip(&mut self) -> Result<(), LabError> {
        self.has_gzip = true;
        let mut find = Command::new("find");
        find.arg(self.site()).args(["-regex", r".*\.\(html\|css\|js\|svg\|json\|txt\)", "-type", "f"]);
        run_command(find.args(["-exec", "gzip", "-9", "--keep", "{}", "+"]))
    }

    /// Requests this path from now on.
    pub(crate) fn use_path(&mut self, path: &str) {
        path.clone_into(&mut self.page);
    }

    /// Returns what a client offers to a server with TLS.
    pub(crate) fn tls_offer(&self, resumes: bool) -> Result<TlsOffer, LabError> {
        let certificate = self.certificate.as_ref().ok_or("no certificate")?;
        Ok(TlsOffer::new(&certificate.der, resumes)?)
    }

    /// Returns what a client of HTTP/2 offers, if servers speak TLS.
    pub(crate) fn http2_offer(&self) -> Result<Option<TlsOffer>, LabError> {
        self.certificate.as_ref().map(|_| Ok(self.tls_offer(false)?.for_http2())).transpose()
    }

    /// Removes servers beside tarpon that are not installed, and tarpon with an allocator that is not, and names them.
    pub(crate) fn installed(&self, mut servers: Vec<PeerServer>) -> Vec<PeerServer> {
        servers.retain(|server| match self.builds.version(*server) {
            Err(error) if !server.is_tarpon() || server.has_jemalloc() => {
                eprintln!("left out: {error}");
                false
            }
            _ => true,
        });
        servers
    }

    /// Returns the path of the site in this form.
    pub(crate) fn site_as(&self, form: SiteForm) -> PathBuf {
        match form {
            SiteForm::Directory => self.site(),
            SiteForm::Tar => self.directory.path().join("site.tar"),
            SiteForm::Packed => self.directory.path().join("packed.tar"),
        }
    }

    /// Removes servers that this host cannot run, reads the versions of the others, and creates the archives that they need.
    pub(crate) fn prepare(&self, mut servers: Vec<PeerServer>) -> Result<Vec<MeasuredServer>, LabError> {
        if let Err(error) = null_server::probe() {
            eprintln!(
                "skipped: null io_uring and tarpon on io_uring; this host does not support io_uring ({error})"
            );
            servers.retain(|server| server.engine() != Some("io_uring"));
        }
        if servers.is_empty() {
            return Err("no server left to measure; change `--only`, `--peers` or `--servers`".into());
        }
        let mut measured = Vec::new();
        for server in servers {
            measured.push(MeasuredServer { server, name: self.builds.version(server)? });
        }
        let needs = |form| measured.iter().any(|measured| measured.server.site_form() == form);
        if needs(SiteForm::Tar) {
            let mut tar = Command::new("tar");
            run_command(tar.arg("-cf").arg(self.site_as(SiteForm::Tar)).arg("-C").arg(self.site()).arg("."))?;
        }
        if needs(SiteForm::Packed) {
            run_command(&mut self.pack_command("fast"))?;
        }
        Ok(measured)
    }

    /// Returns the command that packs the site.
    pub(crate) fn pack_command(&self, effort: &str) -> Command {
        self.builds.pack_command(&self.site(), &self.site_as(SiteForm::Packed), effort)
    }

    /// Returns the path of the page that the lab requests from every server.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.page)
    }

    /// Returns the name and version of tarpon.
    pub(crate) fn tarpon_version(&self) -> Result<String, LabError> {
        tarpon_version(&self.builds.current)
    }

    /// Makes the response of the null servers as long as that of this server, one for each request of a batch. A shorter response would cost less, and no server
    /// could reach the limit.
    pub(crate) fn match_null_response(
        &mut self,
        server: PeerServer,
        batch: RequestBatch,
    ) -> Result<(), LabError> {
        let process = self.start(server)?;
        let client = ClosedLoopClient::connect(
            process.address(),
            &self.path(),
            RequestBatch { count: 1, ..batch },
            1,
            OnClose::Fail,
        )?;
        self.batch = batch;
        self.null_head_len = client.response_len() - self.content.len();
        Ok(())
    }

    /// Starts a server, waits until it listens, and checks its responses.
    pub(crate) fn start(&self, server: PeerServer) -> Result<ServerProcess, LabError> {
        let mut process = self.spawn(server)?;
        let address = process.connect().map(|_| process.address());
        address
            .and_then(|address| match self.certificate {
                _ if self.has_http2 => {
                    check_http2(address, self.http2_offer()?.as_ref(), &self.path(), &self.content)
                }
                Some(_) => check_tls(address, &self.tls_offer(false)?, &self.path(), &self.content),
                None if server.is_null() => {
                    let content = generated_site::lines(self.content.len());
                    check(address, &self.path(), &content, false)
                }
                None => check(address, &self.path(), &self.content, true),
            })
            .map_err(|error| format!("{error}\n{}", self.server_output()))?;
        process.unpin_log_thread()?;
        Ok(process)
    }

    /// Starts a server, and returns at once.
    pub(crate) fn spawn(&self, server: PeerServer) -> Result<ServerProcess, LabError> {
        let address = unused_address()?;
        let access_log = self.directory.path().join("access.log");
        let values = StartValues {
            address,
            site: self.site_as(server.site_form()),
            work_dir: self.directory.path().to_owned(),
            access_log: access_log.clone(),
            certificate: self.certificate.as_ref().map(|files| (files.chain.clone(), files.key.clone())),
            has_http2: self.has_http2,
            has_gzip: self.has_gzip,
            programs: self.programs.clone(),
            proxy: self.proxy.clone(),
            switches: self.switches,
            null_response: (self.null_head_len, self.content.len()),
            null_request_len: (self.batch.count > 1)
                .then(|| self.batch.form.request(&address.to_string(), &self.path()).len()),
        };
        let mut command = self.builds.start_command(server, &values)?;
        let output = self.output_path();
        command
            .stdin(Stdio::null())
            .stdout(File::create(&output)?)
            .stderr(File::options().append(true).open(&output)?);
        // Each server starts with an empty access log.
        let _ = fs::remove_file(access_log);
        ServerProcess::spawn(server, &mut command, address)
    }

    /// Returns the output of the server that was started last.
    pub(crate) fn server_output(&self) -> String {
        fs::read_to_string(self.output_path()).unwrap_or_default()
    }

    fn output_path(&self) -> PathBuf {
        self.directory.path().join("server.log")
    }
}
