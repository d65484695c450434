//! Black-box tests of `tarpon serve` on epoll; the tests are in `serve/`.

#[path = "serve/mod.rs"]
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Epoll;
