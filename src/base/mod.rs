//! Values that all planes name: errors, settings, and the configuration of sites and logs.
//!
//! | module | what |
//! |---|---|
//! | `error` | an error for the user: what, why, and a hint |
//! | `settings` | how a server runs: engine, workers, timeouts, limits |
//! | `site_config` | what a site is made of and how it answers |
//! | `log_config` | what is logged, in which format and where |
//! | `engine`, `address` | the engines by name; where a server listens |
//! | `size` | how a number of bytes is written |

pub(crate) mod address;
pub(crate) mod engine;
pub(crate) mod error;
pub(crate) mod log_config;
pub(crate) mod settings;
pub(crate) mod site_config;
pub(crate) mod size;
