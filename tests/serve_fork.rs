//! Black-box tests of `tarpon serve` on fork; the tests are in `serve/`.

mod common;
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Fork;
