//! A mailer that stores the mails it receives.

use super::sandbox::Sandbox;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// A mailer program that stores each mail in a file.
pub struct Mailbox {
    folder: tempfile::TempDir,
    pub program: std::path::PathBuf,
}

impl Mailbox {
    pub fn new() -> Mailbox {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("mailer");
        let script = "#!/bin/sh\nd=$(dirname $0)/$(date +%s%N)\n{ echo \"args: $*\"; cat; } > $d.tmp && mv $d.tmp $d.mail\n";
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Mailbox { folder, program }
    }

    pub fn sandbox(&self) -> Sandbox {
        Sandbox::configured(&format!(
            "[server]\nmailer = \"{}\"\nmail_from = \"adm\"\n",
            self.program.display()
        ))
    }

    /// All mails so far, in order of arrival.
    pub fn all(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .filter(|path| path.extension().is_some_and(|end| end == "mail"))
            .collect();
        files.sort();
        files
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect()
    }

    /// Waits until `count` mails have arrived.
    #[track_caller]
    pub fn mails(&self, sandbox: &Sandbox, count: usize) -> Vec<String> {
        sandbox.until(&format!("{count} mails"), || {
            Some(self.all()).filter(|mails| mails.len() >= count)
        })
    }
}
