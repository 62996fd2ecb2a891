//! The environment of this process.

#![allow(
    clippy::disallowed_methods,
    reason = "only this module reads the environment"
)]

use std::ffi::OsString;

/// The value of the variable `name`, if it is set.
pub fn var(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The value of the variable `name`, if it is set and valid UTF-8.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All variables.
pub fn vars() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// Sets a variable for this process and its children. Call this before any thread starts.
pub fn set(name: &str, value: impl AsRef<std::ffi::OsStr>) {
    // SAFETY: callers have no other thread that could read the environment.
    unsafe { std::env::set_var(name, value) }
}

/// The command line, which begins with the program name.
pub fn args() -> impl Iterator<Item = OsString> {
    std::env::args_os()
}

/// The path of the running program's file.
pub fn program() -> std::io::Result<std::path::PathBuf> {
    std::env::current_exe()
}

/// The working directory: `$PWD` if that is an absolute path to the working directory, else the
/// path that the kernel returns.
pub fn workdir() -> std::io::Result<std::path::PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let kernel = std::env::current_dir()?;
    let Some(named) = var("PWD").map(std::path::PathBuf::from) else {
        return Ok(kernel);
    };
    if named.is_absolute()
        && let (Ok(one), Ok(other)) = (std::fs::metadata(&named), std::fs::metadata(&kernel))
        && (one.dev(), one.ino()) == (other.dev(), other.ino())
    {
        return Ok(named);
    }
    Ok(kernel)
}
