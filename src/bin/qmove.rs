//! qmove: see [`lanai::cli::qmove`].

fn main() -> std::process::ExitCode {
    lanai::cli::qmove::main()
}
