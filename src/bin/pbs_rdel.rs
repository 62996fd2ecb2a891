//! pbs_rdel: see [`lanai::cli::pbs_rdel`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbs_rdel::main()
}
