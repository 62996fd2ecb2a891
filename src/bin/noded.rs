//! `noded`: see [`lanai::noded`].

fn main() -> std::process::ExitCode {
    lanai::noded::main()
}
