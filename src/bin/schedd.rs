//! Decides which job runs where and when.

fn main() -> std::process::ExitCode {
    lanai::schedd::main()
}
