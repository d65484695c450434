//! The program on prefork, seen from outside. What is tested is in `serve/`.

mod common;
mod serve;

const ENGINE: tarpon::Engine = tarpon::Engine::Prefork;
