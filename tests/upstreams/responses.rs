//! Responses of servers as clients get them: statuses, one response for each request, and pipelining.

use super::{
    proxied::{get, on_every_engine, request},
    scripted::{AfterResponse, ScriptGate, ScriptedServer, ok},
};

#[test]
fn statuses_are_passed_on() {
    let server = ScriptedServer::responding(|request| {
        let status = &request.target()["/app/".len()..];
        let text = format!("HTTP/1.1 {status} Of The Server\r\nContent-Length: 4\r\n\r\npage");
        (text.into_bytes(), AfterResponse::Keep)
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        // An error of the server has the page of the server.
        for status in [200, 201, 206, 299, 301, 302, 400, 401, 404, 416, 418, 500, 502, 503, 504, 599] {
            let response = client.ask(get(&format!("/app/{status}"))).response;
            assert_eq!((response.status(), &*response.text()), (status, "page"), "{engine}: {response}");
        }
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = ScriptedServer::naming_targets();
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        let targets: Vec<String> = (0..20).map(|number| format!("/app/{number}")).collect();
        client.send(targets.iter().map(|target| get(target) + &get("/")).collect::<String>());
        for target in &targets {
            assert_eq!(client.answered("GET").response.text(), *target, "{engine}");
            assert_eq!(client.answered("GET").response.text(), "home", "{engine}");
        }
    });
}

#[test]
fn second_response_reaches_no_request() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        while let Some(request) = connection.request() {
            let twice = [ok(request.target()), ok("of nothing")].concat();
            match request.target() {
                "/app/twice" => drop(connection.send(twice)),
                "/app/later" => {
                    connection.send(ok(request.target()));
                    // The client has the response: the connection is idle, or will be soon.
                    passed.pass();
                    connection.send(ok("of nothing"));
                }
                target => drop(connection.send(ok(target))),
            }
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        for target in ["/app/twice", "/app/later"] {
            assert_eq!(client.ask(get(target)).response.text(), target, "{engine}");
            let connection = server.next().connection;
            if target == "/app/later" {
                gate.open();
            }
            // A connection with bytes that no request asked for is not used again.
            server.wait_for_end(connection);
            assert_eq!(client.ask(get("/app/next")).response.text(), "/app/next", "{engine}, {target}");
            assert_ne!(server.next().connection, connection, "{engine}, {target}");
        }
    });
}

#[test]
fn response_before_the_request_is_complete_is_passed_on() {
    let server = ScriptedServer::start(|connection| {
        if connection.head().is_some() {
            // As much as a server sends that refuses an upload.
            connection.send("HTTP/1.1 413 Too Much\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno");
            connection.wait_for_end();
        }
    });
    on_every_engine(&server, |proxied, engine| {
        let mut client = proxied.connect();
        client.send(request("POST", "/app/", "Content-Length: 1000000\r\n") + "start");
        let response = client.answered("POST").response;
        assert_eq!((response.status(), &*response.text()), (413, "no"), "{engine}: {response}");
        server.next();
    });
}
