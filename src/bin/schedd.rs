//! `schedd`: see [`lanai::schedd`].

fn main() -> std::process::ExitCode {
    lanai::schedd::main()
}
