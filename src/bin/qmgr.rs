//! qmgr: see [`lanai::cli::qmgr`].

fn main() -> std::process::ExitCode {
    lanai::cli::qmgr::main()
}
