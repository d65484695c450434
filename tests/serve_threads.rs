//! Black-box tests of `tarpon serve` on threads; the tests are in `serve/`.

mod common;
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Threads;
