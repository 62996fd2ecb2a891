//! pbs_rstat: see [`lanai::cli::pbs_rstat`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbs_rstat::main()
}
