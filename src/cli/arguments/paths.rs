//! Output paths: the values of `-o` and `-e`. A path without a host is made absolute on the host of
//! qsub.

use crate::model::text::Text;
use std::ffi::OsStr;
use std::net::ToSocketAddrs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Converts a path without a host, relative to `workdir`, to `host:/absolute/path`; a directory
/// ends in `/`. A path with a host is kept, if the host is `host` or `localhost` or if
/// `host_exists` returns true for it. None for another host or a malformed value.
pub fn resolve(
    value: &OsStr,
    workdir: &Path,
    host: &str,
    host_exists: fn(&str) -> bool,
) -> Option<Text> {
    let mut parts = value.as_bytes().split(|&b| b == b':');
    let (first, second) = (parts.next()?, parts.next());
    match (second, parts.next()) {
        (_, Some(_)) => None,
        (None, None) if first.is_empty() => None,
        (None, None) => Some(on_host(host, &absolute(OsStr::from_bytes(first), workdir))),
        (Some(path), None) => {
            let known = std::str::from_utf8(first)
                .ok()
                .filter(|name| !path.is_empty() && is_host(name, host, host_exists))?;
            Some(on_host(known, path))
        }
    }
}

/// True for `host:` without a path, where `host` is this host. PBS then uses the default file name.
pub fn is_default(value: &OsStr, host: &str) -> bool {
    value.as_bytes().strip_suffix(b":") == Some(host.as_bytes())
}

fn on_host(host: &str, path: &[u8]) -> Text {
    Text([host.as_bytes(), b":", path].concat())
}

fn absolute(path: &OsStr, workdir: &Path) -> Vec<u8> {
    let whole = workdir.join(path);
    let folder = path.as_bytes().ends_with(b"/") || whole.is_dir();
    let mut bytes = whole
        .components()
        .collect::<PathBuf>()
        .into_os_string()
        .into_vec();
    if folder && !bytes.ends_with(b"/") {
        bytes.push(b'/');
    }
    bytes
}

fn is_host(name: &str, own: &str, host_exists: fn(&str) -> bool) -> bool {
    !name.is_empty() && (name == own || name == "localhost" || host_exists(name))
}

/// True if the system can resolve this host name.
pub fn host_exists(name: &str) -> bool {
    (name, 0).to_socket_addrs().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_without_a_host_become_absolute_and_directories_end_in_a_slash() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("od")).unwrap();
        let root = folder.path().to_str().unwrap();
        let shown = |value: &str| {
            resolve(OsStr::new(value), folder.path(), "head", |name| {
                name == "far"
            })
            .map(|text| text.to_string())
        };
        for (value, expected) in [
            ("f", format!("head:{root}/f")),
            ("od", format!("head:{root}/od/")),
            ("od/", format!("head:{root}/od/")),
            ("nodir/", format!("head:{root}/nodir/")),
            ("nodir/f", format!("head:{root}/nodir/f")),
            (".", format!("head:{root}/")),
            ("/dev/null", "head:/dev/null".into()),
            ("head:f", "head:f".into()),
            ("head:/x/y", "head:/x/y".into()),
            ("far:/x", "far:/x".into()),
        ] {
            assert_eq!(shown(value), Some(expected), "{value}");
        }
        assert!(is_default("head:".as_ref(), "head") && !is_default("head".as_ref(), "head"));
        for bad in ["", "host:", "a:b:c", ":x", "unknown:/x"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }
}
