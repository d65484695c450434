//! The running program as a file: the file that has its name now.

use std::{env, fs::File, io};

pub(crate) fn open() -> io::Result<File> {
    File::open(env::current_exe()?)
}
