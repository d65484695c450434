//! The program: all of it is `program/` of the library.

fn main() -> std::process::ExitCode {
    tarpon::run_program()
}
