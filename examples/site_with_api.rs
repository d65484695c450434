//! A static site with an API beside it: `cargo run --example site_with_api [ADDRESS [DIRECTORY]]`.
//!
//! The functions respond below `/api`, and the files of the directory to all other requests.

use std::{
    env,
    error::Error,
    net::TcpListener,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};
use tarpon::{Functions, Response, Route, Server, Settings, Site, VirtualHosts};

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let directory = env::args().nth(2).unwrap_or("example/site".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);

    let visits = AtomicU64::new(0);
    let count = Route::new("/api/visits", move |_| {
        Response::json(format!("{{\"visits\":{}}}", visits.fetch_add(1, Relaxed) + 1))
    });
    // It waits, as for a database, so it runs on a thread.
    let slow = Route::new("/api/slow", |_| {
        thread::sleep(Duration::from_millis(100));
        "done\n"
    });
    let functions = Functions::new().route(count).route(slow.on_threads());
    let sites = VirtualHosts::from(Site::from_dir(directory)?).with_functions(functions);
    Server::start(&Settings::default(), vec![listener.try_into()?], sites)?.join()?;
    Ok(())
}
