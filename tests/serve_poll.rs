//! Black-box tests of `tarpon serve` on poll; the tests are in `serve/`.

#[path = "serve/mod.rs"]
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Poll;
