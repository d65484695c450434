//! The program on fork, seen from outside. What is tested is in `serve/`.

mod common;
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Fork;
