//! Black-box tests of `tarpon serve` on io_uring; the tests are in `serve/`.

mod common;
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::IoUring;
