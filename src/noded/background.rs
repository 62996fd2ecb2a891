//! Runs noded in the background. The calling process waits until noded listens at its socket or
//! fails.

use crate::sys::process::{self, Fork};
use anyhow::{Context, Result, bail};
use nix::fcntl::OFlag;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The text that noded writes to the calling process once noded listens. Any other text is an
/// error.
const LISTENING: &[u8] = b"listening";

/// Forks. The parent exits when the child has called [`announce`] or has ended. The child returns
/// in its own session, without inherited descriptors, and logs to `noded.log` in `state`. Returns
/// the argument `ready` of `announce`.
pub fn enter(state: &Path) -> Result<OwnedFd> {
    let (near, far) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
    if let Fork::Parent(_) = process::fork().context("fork")? {
        drop(far);
        wait(File::from(near));
    }
    drop(near);
    if let Err(e) = detach(state, &far) {
        announce::<()>(Some(far), Err(e))?;
        process::leave(1);
    }
    Ok(far)
}

fn detach(state: &Path, far: &OwnedFd) -> Result<()> {
    nix::unistd::setsid()?;
    process::close_all_but(&[far.as_fd()]);
    process::silence()?;
    std::fs::DirBuilder::new()
        .recursive(true)
        .create(state)
        .with_context(|| state.display().to_string())?;
    let path = state.join("noded.log");
    let log = File::options()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path);
    Ok(process::as_standard(
        log.with_context(|| path.display().to_string())?,
        true,
    )?)
}

fn wait(mut near: File) -> ! {
    let mut report = Vec::new();
    let _ = near.read_to_end(&mut report);
    if report == LISTENING {
        process::leave(0);
    }
    let why = if report.is_empty() {
        "exited before it listened; see noded.log in the state directory".into()
    } else {
        String::from_utf8_lossy(&report)
    };
    eprintln!("noded: {why}");
    process::leave(1)
}

/// Reports to the waiting process whether noded has started. Without `ready`, no process waits.
pub fn announce<T>(ready: Option<OwnedFd>, begun: Result<T>) -> Result<T> {
    let Some(ready) = ready else { return begun };
    let mut ready = File::from(ready);
    match begun {
        Ok(begun) => {
            ready.write_all(LISTENING)?;
            Ok(begun)
        }
        Err(e) => {
            let _ = ready.write_all(format!("{e:#}").as_bytes());
            bail!(e)
        }
    }
}
