//! qsig: see [`lanai::cli::qsig`].

fn main() -> std::process::ExitCode {
    lanai::cli::qsig::main()
}
