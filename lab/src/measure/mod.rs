//! Measurement: reads the counters of the kernel, and limits the disk.
//!
//! | file | content |
//! |---|---|
//! | `cpu.rs` | CPU time of server, client and cores; pinning to a core |
//! | `syscalls.rs` | system calls, counted at a tracepoint |
//! | `instructions.rs` | instructions, counted by callgrind |
//! | `memory.rs` | memory of a server |
//! | `control_group.rs` | processes whose use of a resource the kernel limits |
//! | `cpu_quota.rs` | a control group that gets a share of a processor |
//! | `disk_throttle.rs` | a control group that limits reads from a disk; bytes that a process read from disk |
//! | `machine.rs` | kernel, processor, date |

mod control_group;
pub(crate) mod cpu;
pub(crate) mod cpu_quota;
pub(crate) mod disk_throttle;
pub(crate) mod instructions;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod syscalls;
