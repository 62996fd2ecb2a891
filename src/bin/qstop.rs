//! qstop: see [`lanai::cli::gates`].

fn main() -> std::process::ExitCode {
    lanai::cli::gates::qstop()
}
