//! Any text is an error with its place, or nginx.conf from which an import makes a valid configuration.

#![no_main]

mod imported;

use libfuzzer_sys::fuzz_target;
use tarpon::import::ImportSyntax;

fuzz_target!(|text: &str| imported::check(ImportSyntax::Nginx, text));
