//! User accounts of this host, and changing the user of this process.

use super::keyring;
use nix::libc;
use nix::sys::prctl;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist, setgid, setgroups, setuid};
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// The expiry day in the shadow entry of an account that does not expire.
const NEVER: i64 = -1;
/// Maximum size of a shadow entry, in bytes.
const LARGEST_ENTRY: usize = 1 << 20;

/// A user account of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccount {
    /// The login name.
    pub name: String,
    /// The uid.
    pub uid: u32,
    /// The gid of the primary group.
    pub gid: u32,
    /// The home directory.
    pub home: PathBuf,
    /// The login shell.
    pub shell: PathBuf,
}

impl UserAccount {
    fn of(user: User) -> UserAccount {
        let shell = if user.shell.as_os_str().is_empty() {
            "/bin/sh".into()
        } else {
            user.shell
        };
        UserAccount {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            home: user.dir,
            shell,
        }
    }
}

/// The account with this name, if there is one.
pub fn named(name: &str) -> io::Result<Option<UserAccount>> {
    Ok(User::from_name(name)?.map(UserAccount::of))
}

/// The account of this process. If its uid has no account, as in some containers, the account is
/// built from environment variables.
pub fn own() -> UserAccount {
    let uid = Uid::effective();
    if let Ok(Some(user)) = User::from_uid(uid) {
        return UserAccount::of(user);
    }
    let name = super::env::text("USER").unwrap_or_else(|| uid.to_string());
    let gid = Gid::effective().as_raw();
    UserAccount {
        name,
        uid: uid.as_raw(),
        gid,
        home: super::env::var("HOME").unwrap_or_else(|| "/".into()).into(),
        shell: super::env::var("SHELL")
            .unwrap_or_else(|| "/bin/sh".into())
            .into(),
    }
}

/// The day on which an account expires, in days since 1970. None if the account does not expire or
/// has no shadow entry. A locked password is ignored. Fails unless this process runs as root.
pub fn expiry(name: &str) -> io::Result<Option<i64>> {
    let name = CString::new(name)?;
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: zero bytes are a valid value of this C struct.
        let mut entry: libc::spwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (space, size) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: every pointer refers to memory that outlives the call, and `size` is the size of
        // `space`.
        match unsafe {
            libc::getspnam_r(name.as_ptr(), &raw mut entry, space, size, &raw mut found)
        } {
            0 if found.is_null() => return Ok(None),
            0 => return Ok(Some(entry.sp_expire).filter(|&day| day != NEVER)),
            libc::ERANGE if size < LARGEST_ENTRY => buffer.resize(size * 2, 0),
            // There is no shadow file, or no entry for this account.
            libc::ENOENT => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Why a login shell does not permit logins: it is a program that refuses logins, or `/etc/shells`
/// exists and does not contain it. None if the shell permits logins.
pub fn login_shell_fault(shell: &Path) -> Option<&'static str> {
    let listed = std::fs::read_to_string("/etc/shells").ok();
    fault_of(shell, listed.as_deref())
}

fn fault_of(shell: &Path, listed: Option<&str>) -> Option<&'static str> {
    if shell
        .file_name()
        .is_some_and(|name| name == "nologin" || name == "false")
    {
        return Some("does not permit logins");
    }
    // The shell can be listed with another path, for example because /bin is often a link to
    // /usr/bin.
    let shell = real(shell);
    let mut shells = listed?
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('/'));
    if shells.any(|line| real(Path::new(line)) == shell) {
        None
    } else {
        Some("is not in /etc/shells")
    }
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The effective uid of this process.
pub fn effective() -> u32 {
    Uid::effective().as_raw()
}

/// All groups of an account.
pub fn groups(account: &UserAccount) -> io::Result<Vec<Gid>> {
    let name = CString::new(account.name.as_str())?;
    Ok(getgrouplist(&name, Gid::from_raw(account.gid))?)
}

/// The gid of the group with this name. None if the group does not exist or the account is not a
/// member.
pub fn group_of(account: &UserAccount, name: &str) -> io::Result<Option<u32>> {
    let Some(group) = Group::from_name(name)? else {
        return Ok(None);
    };
    let member = group.gid.as_raw() == account.gid || groups(account)?.contains(&group.gid);
    Ok(member.then_some(group.gid.as_raw()))
}

/// The gid of the group with this name, if it exists.
pub fn group_number(name: &str) -> Option<u32> {
    Group::from_name(name)
        .ok()
        .flatten()
        .map(|group| group.gid.as_raw())
}

/// The name of the group with this gid, or the gid as text if there is no such group.
pub fn group_name(gid: u32) -> String {
    Group::from_gid(Gid::from_raw(gid))
        .ok()
        .flatten()
        .map_or_else(|| gid.to_string(), |group| group.name)
}

/// Whether this process may set this group as its group: root may set any group, other users only
/// their current group.
pub fn may_set_group(gid: u32) -> bool {
    effective() == 0 || Gid::effective().as_raw() == gid
}

/// Sets the group of this process. Does not change the user.
pub fn set_group(gid: u32) -> io::Result<()> {
    let gid = Gid::from_raw(gid);
    if Gid::effective() == gid {
        Ok(())
    } else {
        Ok(setgid(gid)?)
    }
}

/// Changes this process from root to a user permanently. Also joins a new session keyring, and
/// prevents new privileges, for instance by setuid programs. Every process that noded starts for
/// another user calls this. This function does not allocate memory, unless root privileges could
/// not be dropped.
pub fn become_user(account: &UserAccount, groups: &[Gid]) -> io::Result<()> {
    // Join a keyring while still root. The keyring counts toward root's key quota, so this works
    // even if the user's quota is used up.
    keyring::join_session()?;
    setgroups(groups)?;
    setgid(Gid::from_raw(account.gid))?;
    setuid(Uid::from_raw(account.uid))?;
    if setuid(Uid::from_raw(0)).is_ok() {
        return Err(io::Error::other("root privileges could not be dropped"));
    }
    own_session_keyring();
    Ok(prctl::set_no_new_privs()?)
}

/// Gives this process a session keyring that its user owns, and links the user's keyring to it, as
/// at a login. If the user's key quota is used up, the process keeps its current keyring.
fn own_session_keyring() {
    let _ = keyring::join_session();
    let _ = keyring::link_user();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_the_own_account_by_uid() {
        assert_eq!(named("root").unwrap().unwrap().uid, 0);
        assert_eq!(named("no-such-user-here").unwrap(), None);
        assert_eq!(own().uid, effective());
    }

    #[test]
    fn a_login_shell_must_be_listed_and_must_permit_logins() {
        let fault = |shell: &str| {
            fault_of(
                Path::new(shell),
                Some("# shells\n/bin/sh\n /no/such\n/sbin/nologin\n"),
            )
        };
        assert_eq!((fault("/bin/sh"), fault("/no/such")), (None, None));
        for shell in ["/sbin/nologin", "/usr/sbin/nologin", "/bin/false"] {
            assert_eq!(fault(shell), Some("does not permit logins"), "{shell}");
        }
        assert_eq!(fault("/usr/bin/env"), Some("is not in /etc/shells"));
        assert_eq!(
            fault_of(Path::new("/usr/bin/env"), None),
            None,
            "if /etc/shells does not exist, a shell need not be listed"
        );
    }

    #[test]
    fn root_and_an_account_without_a_shadow_entry_do_not_expire() {
        if effective() == 0 {
            assert_eq!(expiry("no-such-user-here").unwrap(), None);
            assert_eq!(expiry("root").unwrap(), None);
        }
    }

    #[test]
    fn only_members_get_the_gid_of_a_group() {
        let root = named("root").unwrap().unwrap();
        let own = Group::from_gid(Gid::from_raw(root.gid)).unwrap().unwrap();
        assert_eq!(group_of(&root, &own.name).unwrap(), Some(root.gid));
        assert_eq!(group_of(&root, "no-such-group-here").unwrap(), None);
        let stranger = UserAccount {
            name: "nobody".into(),
            uid: 65534,
            gid: 65534,
            home: "/".into(),
            shell: "/".into(),
        };
        assert_eq!(group_of(&stranger, &own.name).unwrap(), None);
    }
}
