//! The tests of the program and of its library, all in one test program: it builds and links once.
//!
//! Each module is what its first lines say, and runs by its name: `cargo test --test all listings::`.

#![allow(clippy::disallowed_methods, reason = "tests name their own files")]
#![allow(clippy::duplicate_mod, reason = "the tests in `serve` run once for each engine")]

mod common;

mod access_log;
mod acme;
mod acme_directories;
mod admin;
mod blocking_engines;
mod browser;
mod cases;
mod cgi;
mod check;
mod clients;
mod closed;
mod cold;
mod compression;
mod config;
mod curl;
mod deltas;
mod events;
mod examples;
mod executable;
mod forged;
mod functions;
mod handover;
mod handshake_storm;
mod health;
mod hosts;
mod http2;
mod http2_proxies;
mod https;
mod idle_memory;
mod include;
mod ktls;
mod leaks;
mod library;
mod links;
mod lint;
mod listeners;
mod listings;
mod many;
mod metrics;
mod migrating;
mod mounts;
mod mounts_of_others;
mod names;
mod packaging;
mod packed;
mod pages;
mod prefork;
mod processes;
mod proxies;
mod ranges;
mod readme;
mod real_proxies;
mod real_site;
mod release;
mod releases;
mod reload;
mod rules;
mod sandbox;
mod scanners;
mod scripts;
mod serve_epoll;
mod serve_fork;
mod serve_io_uring;
mod serve_poll;
mod serve_prefork;
mod serve_threads;
mod shortages;
mod site_listeners;
mod site_parts;
mod slow;
mod slow_readers;
mod staleness;
mod stress;
mod systemd;
mod tar;
mod tls_attacks;
mod upgrade;
mod upstreams;
mod user_directories;
