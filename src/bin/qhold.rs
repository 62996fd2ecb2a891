//! qhold: see [`lanai::cli::qhold`].

fn main() -> std::process::ExitCode {
    lanai::cli::qhold::main()
}
