//! Runs jobs on this host, as schedd orders.

fn main() -> std::process::ExitCode {
    lanai::noded::main()
}
