//! pbs_rsub: see [`lanai::cli::pbs_rsub`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbs_rsub::main()
}
