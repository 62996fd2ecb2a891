//! Shared installations: one schedd, run by root, for all users.

use super::sandbox::Sandbox;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Creates a shared installation and starts its schedd as root.
pub fn shared(more: &str) -> Sandbox {
    let sandbox = installed(more);
    sandbox.run("schedd", &[]).ok();
    sandbox
}

/// Creates a shared installation without starting its daemons.
pub fn installed(more: &str) -> Sandbox {
    let sandbox = Sandbox::configured(&format!("[server]\nshared = true\n{more}"));
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox
}
