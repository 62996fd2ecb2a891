//! Shared installations: one schedd of root for all users.

use super::sandbox::Sandbox;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A shared installation with a running schedd of root.
pub fn shared(more: &str) -> Sandbox {
    let sandbox = installed(more);
    sandbox.run("schedd", &[]).ok();
    sandbox
}

/// A shared installation before its daemons are started.
pub fn installed(more: &str) -> Sandbox {
    let sandbox = Sandbox::configured(&format!("[server]\nshared = true\n{more}"));
    for folder in [sandbox.home().parent().unwrap(), &sandbox.home()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    sandbox
}
