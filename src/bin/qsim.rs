//! qsim: see [`lanai::cli::qsim`].

fn main() -> std::process::ExitCode {
    lanai::cli::qsim::main()
}
