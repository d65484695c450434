//! Mounts beside nginx (`location` with `alias`) and Caddy (`handle_path`): the same paths, and the site that answers each.

use crate::common::{
    client::TestClient,
    other_server::OtherServer,
    port::ReservedPort,
    program::{RunningProgram, serve_config},
    site,
};

/// What a server answers: the first line of the content, a redirect, or a status.
#[rustfmt::skip]
const PATHS: &[(&str, &str, &str, &str)] = &[
    // path                  tarpon             nginx                Caddy
    ("/",                    "main",            "main",              "main"),
    ("/a.txt",               "a of main",       "a of main",         "a of main"),
    ("/docs/",               "docs",            "docs",              "docs"),
    ("/docs/a.txt",          "a of docs",       "a of docs",         "a of docs"),
    ("/docs/a.txt?q",        "a of docs",       "a of docs",         "a of docs"),
    ("/docs/none",           "404",             "404",               "404"),
    ("/docs/../a.txt",       "a of main",       "a of main",         "a of main"),
    ("/x/../docs/a.txt",     "a of docs",       "a of docs",         "a of docs"),
    ("/%64ocs/a.txt",        "a of docs",       "a of docs",         "a of docs"),
    ("/docs/%2e%2e/a.txt",   "a of main",       "a of main",         "a of main"),
    ("/docsx/a.txt",         "404",             "404",               "404"),
    // The differences.
    ("/docs",                "to /docs/",       "404",               "404"),
    ("/DOCS/a.txt",          "404",             "404",               "a of docs"),
    ("/docs%2fa.txt",        "404",             "a of docs",         "a of docs"),
    ("//docs/a.txt",         "404",             "a of docs",         "a of docs"),
    ("/docs//a.txt",         "404",             "a of docs",         "a of docs"),
];

#[test]
fn mounts_answer_as_those_of_other_servers_but_for_the_listed_paths() {
    let main = site(&[("index.html", "main"), ("a.txt", "a of main")]);
    let docs = site(&[("index.html", "docs"), ("a.txt", "a of docs")]);
    let work = crate::common::readable_dir();
    let path = |dir: &tempfile::TempDir| dir.path().to_str().expect("UTF-8").to_owned();
    let (main_path, docs_path) = (path(&main), path(&docs));

    let config = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = {main_path:?}\n[[site]]\npath = {docs_path:?}\nmount = \"/docs\"\n"
    );
    let program = RunningProgram::start_ready(serve_config(&config, work.path(), &[]));

    let [nginx_port, caddy_port] = [(); 2].map(|()| ReservedPort::new());
    let nginx = format!(
        "events {{}}\nhttp {{\nserver {{\nlisten {};\nabsolute_redirect off;\nroot {main_path};\n\
         location /docs/ {{ alias {docs_path}/; }}\n}}\n}}\n",
        nginx_port.address
    );
    let caddy = format!(
        "http://:{} {{\nbind 127.0.0.1\nhandle_path /docs/* {{\nroot * {docs_path}\nfile_server\n}}\n\
         handle {{\nroot * {main_path}\nfile_server\n}}\n}}\n",
        caddy_port.address.port()
    );
    let mut nginx = OtherServer::start("nginx", &nginx, work.path());
    let mut caddy = OtherServer::start("caddy", &caddy, work.path());
    let mut clients = [
        TestClient::connect(program.address()),
        nginx.connect("127.0.0.1:0", nginx_port.address, "nginx"),
        caddy.connect("127.0.0.1:0", caddy_port.address, "Caddy"),
    ];
    let mut differences = Vec::new();
    for &(path, tarpon, nginx, caddy) in PATHS {
        let got = clients.each_mut().map(|client| answer(client, path));
        if got != [tarpon, nginx, caddy] {
            differences.push(format!("{path}: {got:?}, not {:?}", [tarpon, nginx, caddy]));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn answer(client: &mut TestClient, path: &str) -> String {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
    let response = client.response();
    match (response.status, response.field("Location")) {
        (200, _) => String::from_utf8_lossy(&response.content).trim().to_owned(),
        (_, Some(location)) => format!("to {location}"),
        (status, None) => status.to_string(),
    }
}
