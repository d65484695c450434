//! A full disk while a certificate is written: the new one serves, the former one stays whole, and the new one is stored once there is room.

use crate::common::{
    acme::{SimulatedClock, files, wait_for_certificate, wait_for_warning},
    directory::{AcmeDirectory, DirectoryOptions},
    port::ReservedPort,
    program::{RunningProgram, serve_config, wrap_command},
    site,
    tls::TlsConnector,
    wait_for,
};
use rustix::process::geteuid;
use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    net::SocketAddr,
    path::Path,
    time::Duration,
};

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn certificate_that_finds_no_space_serves_and_is_stored_later() {
    if !geteuid().is_root() {
        return eprintln!("not run: only root may mount a small file system");
    }
    let dir = site(&[("www/index.html", "home")]);
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let [plain, tls] = [(); 2].map(|()| ReservedPort::new());
    let options = DirectoryOptions {
        http_port: plain.address.port(),
        tls_port: 1,
        validity_s: 90 * DAY.as_secs(),
        needs_external_account: false,
    };
    let directory = AcmeDirectory::start(dir.path(), &options);
    let config = format!(
        "[[site]]\npath = \"www\"\ndomain = [\"a.example\"]\nredirect-to-https = false\n\n\
         [[listener]]\naddress = \"{}\"\n\n[[listener]]\naddress = \"tls:{}\"\n\n\
         [server]\nacme-directory = \"{}\"\nacme-ca = \"{}\"\nstate-directory = \"state\"\n",
        plain.address,
        tls.address,
        directory.url(),
        directory.root(),
    );
    let mut command = serve_config(&config, dir.path(), &["--log-format", "human"]);
    let clock = SimulatedClock::new(dir.path(), &mut command);
    let mount = format!("mount -t tmpfs -o size=256k,mode=755 none {} && exec \"$@\"", state.display());
    let wrapper = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
    let served = RunningProgram::start_ready(wrap_command(&wrapper, &command));
    // The state directory as the program sees it.
    let inside = Path::new("/proc").join(served.pid().as_raw_nonzero().to_string()).join("root");
    let inside = inside.join(state.strip_prefix("/").unwrap());

    let (first, _) = wait_for_certificate(&inside, "");
    assert_eq!(serial_after(tls.address, ""), first);
    let stored = || fs::read_to_string(files(&inside, "certificate.pem").pop().expect("a file")).unwrap();
    let before = stored();
    fill(&inside.join("other"));
    let now = clock.unix_s();
    directory.recommend_renewal(&before[before.find("-----BEGIN CERTIFICATE").unwrap()..], [now, now + 3600]);
    clock.pass(DAY + Duration::from_secs(3600), served.pid());
    let second = serial_after(tls.address, &first);
    let warning = "warning: the new certificate for a.example is used, but cannot be stored: no space left on device; make room in \
                   the state directory, or make it writable; tarpon tries again each minute\n";
    wait_for_warning(&served, warning);
    assert_eq!(stored(), before, "the former certificate is whole");
    assert!(files(&inside, ".new").is_empty(), "no partial file is left");

    fs::remove_file(inside.join("other")).unwrap();
    clock.pass(Duration::from_secs(60), served.pid());
    let (serial, names) = wait_for_certificate(&inside, &first);
    assert_eq!((serial, names), (second, vec!["a.example".to_owned()]));
    served.wait_for_err(&format!("{warning}warning: the new certificate for a.example is stored now\n"));
}

/// Waits until clients get a certificate that is not the one of before. Returns its serial number.
fn serial_after(address: SocketAddr, before: &str) -> String {
    wait_for("handshakes with another certificate", || {
        TlsConnector::serial(address, "a.example").ok().filter(|serial| serial != before)
    })
}

/// Writes a file that takes all the space that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    loop {
        match file.write(&[0; 4_096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return,
            Err(error) => panic!("{error}"),
        }
    }
}
