//! docs/guides/first-site.md: the configuration of the page gets a certificate.

use super::{block, replaced};
use crate::common::{
    acme::wait_for_certificate,
    client::TestClient,
    directory::{AcmeDirectory, DirectoryOptions},
    port::ReservedPort,
    program::{RunningProgram, serve_config, tarpon},
    site,
    tls::TlsConnector,
    wait_for,
};

#[test]
fn first_site_gets_its_certificate() {
    let dir = site(&[("www/index.html", "home"), ("state/none", ""), ("log/none", "")]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let ports = [(); 2].map(|()| ReservedPort::new());
    let [plain, tls] = ports.each_ref().map(|port| port.address);
    let options = DirectoryOptions {
        http_port: plain.port(),
        tls_port: 1,
        validity_s: 90 * 86_400,
        needs_external_account: false,
    };
    let directory = AcmeDirectory::start(dir.path(), &options);
    let own = format!(
        "[server]\nacme-directory = \"{}\"\nacme-ca = \"{}\"\nstate-directory = \"{}\"\n",
        directory.url(),
        directory.root(),
        path("state")
    );
    let mut config = block("first-site", "toml");
    for (from, to) in [
        ("\"80\"", &*format!("\"{plain}\"")),
        ("\"tls:443\"", &format!("\"tls:{tls}\"")),
        ("/srv/www/example.org", &path("www")),
        ("/var/log/tarpon", &path("log")),
        ("[server]\n", &own),
    ] {
        config = replaced(&config, from, to);
    }
    let admin = format!("unix:{}", path("admin"));
    let served = RunningProgram::start_ready(serve_config(&config, dir.path(), &["--admin", &admin]));
    let (serial, names) = wait_for_certificate(&dir.path().join("state"), "");
    assert_eq!(names, ["example.org", "www.example.org"]);
    for name in &names {
        wait_for("handshakes with the certificate", || {
            TlsConnector::serial(tls, name).is_ok_and(|served| served == serial).then_some(())
        });
    }
    let mut client = TestClient::connect(plain);
    client.send("GET /page HTTP/1.1\r\nHost: example.org\r\n\r\n");
    let response = client.response();
    let location = response.field("Location").unwrap_or_default();
    assert_eq!(response.status, 308);
    assert!(location.starts_with("https://example.org") && location.ends_with("/page"), "{location}");
    let status = tarpon(["status", "--admin", &admin].map(AsRef::as_ref)).output().expect("it runs");
    let status = String::from_utf8(status.stdout).expect("UTF-8");
    assert!(status.contains("certificate example.org, www.example.org  valid for "), "{status}");
    drop(served);
}
