//! `qstat`: see [`lanai::cli::qstat`].

fn main() -> std::process::ExitCode {
    lanai::cli::qstat::main()
}
