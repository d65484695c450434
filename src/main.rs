//! The program `tarpon`. The plane `program` of the library contains all of it.

fn main() -> std::process::ExitCode {
    tarpon::run_program()
}
