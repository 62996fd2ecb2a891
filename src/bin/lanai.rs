//! The client commands, in one program: see [`lanai::cli::multicall`].

fn main() -> std::process::ExitCode {
    lanai::cli::multicall::main()
}
