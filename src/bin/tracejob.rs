//! tracejob: see [`lanai::cli::tracejob`].

fn main() -> std::process::ExitCode {
    lanai::cli::tracejob::main()
}
