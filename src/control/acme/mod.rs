//! Certificates by ACME: RFC 8555, RFC 8737 (tls-alpn-01), RFC 9773 (renewal information).
//!
//! ```text
//! names of the sites ─▶ AcmeMachine ── Order ─▶ tarpon-net ── RFC 8555 ─▶ directory
//!                            ▲                      │                        │
//!                            └─ Issued, Failed ─────┤ Present                │ checks the name
//!                                                   ▼                        ▼
//!                            state directory     challenges in shared memory ◀─ workers
//! ```
//!
//! The supervisor decides and stores; it speaks to no stranger. The helper `tarpon-net` speaks to the directory, and stores nothing.
//!
//! | file | what |
//! |---|---|
//! | `vocabulary` | the events and the actions of the machine |
//! | `driver` | carries out what the machine decides |
//! | `machine` | decides when to order which certificate |
//! | `message` | what supervisor and helper say to each other, and the checks of it |
//! | `certificate` | a chain with its key: parsed and checked |
//! | `net/` | the process `tarpon-net` |
//! | `store` | the files of the state directory |

pub(crate) mod certificate;
pub(crate) mod driver;
pub(crate) mod machine;
pub(crate) mod message;
pub(crate) mod net;
pub(crate) mod store;
pub(crate) mod vocabulary;
