//! A function that answers "Hello world", embedded with hyper: `hello_hyper ADDRESS`.
//!
//! One thread, as in the other programs of this race. No timeouts and no limits: hyper sets none by default.

use std::convert::Infallible;
use std::env;
use std::error::Error;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"Hello world\n")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(env::args().nth(1).ok_or("usage: hello_hyper ADDRESS")?).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            // A client that leaves early ends its own connection alone.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello)).await;
        });
    }
}
