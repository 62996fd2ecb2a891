//! qrerun: see [`lanai::cli::qrerun`].

fn main() -> std::process::ExitCode {
    lanai::cli::qrerun::main()
}
