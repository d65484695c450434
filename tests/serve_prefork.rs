//! Black-box tests of `tarpon serve` on prefork; the tests are in `serve/`.

#[path = "serve/mod.rs"]
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Prefork;
