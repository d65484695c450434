//! The running program as a file, even if another file has taken its name. proc_pid_exe(5).

use std::{fs::File, io};

pub(crate) fn open() -> io::Result<File> {
    File::open("/proc/self/exe")
}
