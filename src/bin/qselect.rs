//! `qselect`: see [`lanai::cli::qselect`].

fn main() -> std::process::ExitCode {
    lanai::cli::qselect::main()
}
