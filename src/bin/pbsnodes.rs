//! `pbsnodes`: see [`lanai::cli::pbsnodes`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbsnodes::main()
}
