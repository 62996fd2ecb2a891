//! qdel: see [`lanai::cli::qdel`].

fn main() -> std::process::ExitCode {
    lanai::cli::qdel::main()
}
