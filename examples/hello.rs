//! The smallest server: `cargo run --example hello [ADDRESS]`, and then `curl http://127.0.0.1:8080/`.

use std::{env, error::Error, net::TcpListener};
use tarpon::{Functions, Route, Server, Settings};

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("http://{}/", listener.local_addr()?);
    let functions = Functions::new().route(Route::new("/", |_| "Hello world\n"));
    Server::start(&Settings::default(), vec![listener.try_into()?], functions)?.join()?;
    Ok(())
}
