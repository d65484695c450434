//! Black-box tests of upstream servers: tarpon as a proxy before servers that follow scripts, and before real ones.
//!
//! | module | subject |
//! |---|---|
//! | `wire` | a strict reader of requests and responses |
//! | `scripted` | a server that follows a script |
//! | `proxied` | tarpon before scripted servers, and its client |
//! | `forwarded` | what a server gets: target, host, fields |
//! | `provenance` | what a server learns of the client: Forwarded, X-Forwarded-*, Via |
//! | `contents` | content and trailers, in both directions; Expect |
//! | `responses` | what a client gets |
//! | `lies` | invalid responses, which become 502 |
//! | `cuts` | responses that are cut, clients that leave |
//! | `limits` | 503 and 504 |
//! | `retries` | requests that are repeated, or not |
//! | `pool` | connections that are used again |
//! | `streams` | long contents, server-sent events, stalled servers |
//! | `tunnels` | Upgrade |
//! | `balance` | the choice of a server |
//! | `failures` | what the log says about exchanges that fail |
//! | `health` | servers that are taken out, and come back |
//! | `http2` | clients that speak HTTP/2 |
//! | `http2_wire` | a client of HTTP/2 that sends any fields |
//! | `http2_gadgets` | requests over HTTP/2 that a server of HTTP/1 understands in another way |
//! | `addresses` | names, Unix sockets, TLS |
//! | `gadgets` | requests that two servers understand in two ways |
//! | `real_servers` | Python, Node and Go |
//! | `websocket` | WebSocket in a browser |
//! | `php` | DokuWiki with PHP-FPM, in a browser |

mod addresses;
mod balance;
mod contents;
mod cuts;
mod failures;
mod forwarded;
mod gadgets;
mod health;
mod http2;
mod http2_gadgets;
mod http2_wire;
mod lies;
mod limits;
mod php;
mod pool;
mod provenance;
mod proxied;
mod real_servers;
mod responses;
mod retries;
mod scripted;
mod streams;
mod tunnels;
mod websocket;
mod wire;
