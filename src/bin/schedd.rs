//! `schedd`: see [`lanai::schedd`].

fn main() -> std::process::ExitCode {
    lanai::schedd::main(lanai::cli::output::job_json::of_job)
}
