//! Values that all planes use: errors, settings, and the configuration of sites and logs. Imports nothing from the planes above.
//!
//! ```text
//! command line, tarpon.toml ─ program ─▶ Settings, SiteConfig, LogConfig ─▶ control, data, site
//!                                        UserError: what, why, hint      ◀─ any of them fails
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `error` | an error for the user: what failed, why, and a hint |
//! | `settings` | how a server runs: engine, workers, timeouts, limits |
//! | `site_config` | the configuration of a site: source, hosts, user directories |
//! | `acme_config` | how certificates are obtained by ACME |
//! | `cgi_config` | how CGI programs run, and those of a site |
//! | `client_limits` | the limits of clients for some paths of a site |
//! | `listener_options` | what a listener asks of the kernel and of the addresses of clients |
//! | `log_config` | the access log and the event log: format, content, targets, rotation |
//! | `engine` | the engines by name |
//! | `functions/` | functions of the embedding program: routes, requests, responses |
//! | `address` | the address of a listening socket |
//! | `admin_access` | which clients may use the admin listener |
//! | `socket_access` | which users may connect to a Unix socket |
//! | `tls_config` | the TLS of a service: files of certificates, and what listeners ask of clients |
//! | `upstream_config` | upstream servers, and the paths of sites that they answer |
//! | `password` | hashes of passwords, and users with such a hash |
//! | `size` | reads and writes sizes such as `64KiB` |

pub(crate) mod acme_config;
pub(crate) mod address;
pub(crate) mod admin_access;
pub(crate) mod cgi_config;
pub(crate) mod client_limits;
#[cfg(test)]
mod documented_defaults;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod functions;
pub(crate) mod listener_options;
pub(crate) mod log_config;
#[cfg(feature = "program")]
pub(crate) mod password;
pub(crate) mod settings;
pub(crate) mod site_config;
pub(crate) mod size;
pub(crate) mod socket_access;
pub(crate) mod tls_config;
pub(crate) mod upstream_config;
