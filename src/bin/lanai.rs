//! `lanai` contains all client commands: see [`lanai::cli::multicall`].

fn main() -> std::process::ExitCode {
    lanai::cli::multicall::main()
}
