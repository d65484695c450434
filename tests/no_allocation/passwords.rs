//! A worker allocates nothing for requests with a password that was verified before, nor for those without one.

use super::{
    common::{
        EMBEDDED,
        client::{TestClient, get},
        server::{EmbeddedServer, settings},
    },
    counting::allocation_count,
    wait_for_sleep,
};
use std::{num::NonZeroU32, path::Path};
use tarpon::{LimitChoice, PasswordLimit, PathLimit, Settings, Site, UnknownHost, VirtualHost, VirtualHosts};

/// Made by htpasswd with the least cost: "open sesame".
const ANN: &str = "ann:$2y$04$zLWgRi5P4yFNnkDHB4v7buXQt.c8HCfFGrbjrO3WLGXpdk0zgwi0K";

/// These credentials.
const RIGHT: &str = "Authorization: Basic YW5uOm9wZW4gc2VzYW1l\r\n";

pub(crate) fn known_passwords_allocate_nothing(dir: &Path) {
    for &engine in EMBEDDED {
        let users = vec![ANN.parse().expect("a user")];
        let passwords = Some(LimitChoice::At(PasswordLimit { users, ..PasswordLimit::default() }));
        let path = Some("/dir".parse().expect("a prefix"));
        let limit = PathLimit { path, passwords, ..PathLimit::default() };
        let host = VirtualHost { path_limits: vec![limit], ..Site::from_dir(dir).expect("a site").into() };
        let hosts = VirtualHosts::new(vec![host], UnknownHost::Site(0)).expect("a site");
        let settings = Settings { keepalive_requests: NonZeroU32::MAX, ..settings(engine, 1) };
        let served = EmbeddedServer::sites(&settings, hosts);
        let mut client = TestClient::connect(served.address);
        let mut requests = |count: usize| {
            for _ in 0..count {
                for (path, fields, want) in
                    [("/dir/", RIGHT, 200), ("/dir/", "", 401), ("/", "", 200), ("/dir/none", RIGHT, 404)]
                {
                    client.send(get(path).replace("\r\n\r\n", &format!("\r\n{fields}\r\n")));
                    assert_eq!(client.response().status, want, "{engine}: {path}");
                }
            }
        };
        requests(20);
        wait_for_sleep();
        let before = allocation_count();
        requests(500);
        wait_for_sleep();
        assert_eq!(allocation_count() - before, 0, "{engine}");
    }
}
