//! qacct: see [`lanai::cli::qacct`].

fn main() -> std::process::ExitCode {
    lanai::cli::qacct::main()
}
