//! qmsg: see [`lanai::cli::qmsg`].

fn main() -> std::process::ExitCode {
    lanai::cli::qmsg::main()
}
