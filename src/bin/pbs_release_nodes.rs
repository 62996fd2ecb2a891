//! pbs_release_nodes: see [`lanai::cli::pbs_release_nodes`].

fn main() -> std::process::ExitCode {
    lanai::cli::pbs_release_nodes::main()
}
