//! qterm: see [`lanai::cli::qterm`].

fn main() -> std::process::ExitCode {
    lanai::cli::qterm::main()
}
