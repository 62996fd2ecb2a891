//! pbsdsh: see [`lanai::cli::pbsdsh`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbsdsh::main()
}
