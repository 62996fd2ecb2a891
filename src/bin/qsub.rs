//! qsub: see [`lanai::cli::qsub`].

fn main() -> std::process::ExitCode {
    lanai::cli::qsub::main()
}
