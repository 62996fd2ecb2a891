//! qorder: see [`lanai::cli::qorder`].

fn main() -> std::process::ExitCode {
    lanai::cli::qorder::main()
}
