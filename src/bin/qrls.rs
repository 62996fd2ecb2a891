//! qrls: see [`lanai::cli::qrls`].

fn main() -> std::process::ExitCode {
    lanai::cli::qrls::main()
}
