//! Faults of the machine: full disks, no memory, stopped processes, clocks that jump. Responses stay right, and service returns.
//!
//! | module | fault |
//! |---|---|
//! | `disk` | no space for a new certificate |
//! | `memory` | no memory for a site, in each process that holds one |
//! | `stopped` | a process that is stopped, and continues |
//! | `system` | a clock that jumps, and no file left in the system: in a virtual machine, as both concern all programs |
//!
//! `docs/hardening.md` lists the other faults, and the tests that check them.

#![cfg(target_os = "linux")]

mod disk;
mod memory;
mod stopped;
mod system;
