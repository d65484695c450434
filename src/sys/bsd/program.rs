//! The program that runs, as a file: what lies under its name by now.

use std::{env, fs::File, io};

pub(crate) fn open() -> io::Result<File> {
    File::open(env::current_exe()?)
}
