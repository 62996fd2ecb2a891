//! qalter: see [`lanai::cli::qalter`].

fn main() -> std::process::ExitCode {
    lanai::cli::qalter::main()
}
