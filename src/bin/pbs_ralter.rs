//! pbs_ralter: see [`lanai::cli::pbs_ralter`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbs_ralter::main()
}
