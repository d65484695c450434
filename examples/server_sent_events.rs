//! A page that counts, by server-sent events: `cargo run --example server_sent_events [ADDRESS]`, and then open it in a browser.

use std::{env, error::Error, net::TcpListener, thread, time::Duration};
use tarpon::{Functions, Response, Route, Server, Settings};

const PAGE: &str = "<!doctype html><title>Count</title><p id=count></p>
<script>new EventSource('/events').onmessage = event => count.textContent = event.data</script>
";

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);
    // The function returns at once, so it runs on the worker. A thread sends the events until the client leaves.
    let events = Route::new("/events", |_| {
        Response::events(|events| {
            for count in 1.. {
                events.send(&format!("count {count}"))?;
                thread::sleep(Duration::from_millis(500));
            }
            Ok(())
        })
    });
    let functions = Functions::new().route(Route::new("/", |_| Response::html(PAGE))).route(events);
    Server::start(&Settings::default(), vec![listener.try_into()?], functions)?.join()?;
    Ok(())
}
