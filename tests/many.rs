//! Ten thousand clients at once, on every engine whose workers serve many connections: most connections are idle, and each gets responses.

use crate::common::{
    ENGINES,
    client::{TestClient, get},
    program::{RunningProgram, serve},
    site, wait_for,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CLIENT_COUNT: usize = 10_000;

#[test]
fn ten_thousand_connections_stay_open_and_each_gets_responses() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the maximum");
    let room = limit.maximum.and_then(|maximum| usize::try_from(maximum).ok()).unwrap_or(usize::MAX);
    assert!(room > CLIENT_COUNT + 500, "a limit on open files of {room}: raise it with ulimit -Hn");
    let dir = site(&[("index.html", "home")]);
    for &engine in ENGINES.iter().filter(|engine| !engine.is_blocking()) {
        let program =
            RunningProgram::start_ready(serve(dir.path(), &["--engine", engine.name(), "--workers", "1"]));
        let mut clients: Vec<_> = (0..CLIENT_COUNT).map(|_| TestClient::connect(program.address())).collect();
        wait_for("all connections", || (program.connection_count() == CLIENT_COUNT).then_some(()));
        // One in a hundred clients sends a request, the others stay idle.
        for client in clients.iter_mut().step_by(100) {
            assert_eq!(client.get("/").content, b"home", "{engine}");
        }
        // All clients send a request at once.
        for client in &mut clients {
            client.send(get("/"));
        }
        for client in &mut clients {
            assert_eq!(client.response().content, b"home", "{engine}");
        }
        // Half of the clients close, and the others stay.
        let mut others = clients.split_off(CLIENT_COUNT / 2);
        drop(clients);
        wait_for("half of the connections", || {
            (program.connection_count() == CLIENT_COUNT / 2).then_some(())
        });
        for client in others.iter_mut().step_by(100) {
            assert_eq!(client.get("/").content, b"home", "{engine}");
        }
        assert_eq!(program.err(), "", "{engine}");
    }
}
