//! qrun: see [`lanai::cli::qrun`].

fn main() -> std::process::ExitCode {
    lanai::cli::qrun::main()
}
