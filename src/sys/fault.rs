//! Fault injection in test builds: any single operation on the spool or a socket can fail, be cut
//! short, be delayed, or crash the process.
//!
//! `LANAI_FAULTS` is a list of rules `point:when:what`, separated by commas:
//!
//! * `point`: `spool.commit`, `socket.read`, ...; a `*` at the end matches any rest
//! * `when`: a number, the nth time the point is passed; or `1/n`, each time with that chance
//! * `what`: `fail`, `short`, `delay`, `crash`; `hold` waits as long as the file
//!   `LANAI_FAULTS_HOLD` exists
//!
//! In release builds every function here is empty.

use std::io;

/// Passes a fault point: succeeds or fails.
#[inline]
pub fn point(name: &str) -> io::Result<()> {
    length(name, usize::MAX).map(|_| ())
}

/// Passes a fault point of an operation on `length` bytes. Returns how many to use, at least one.
#[cfg(not(debug_assertions))]
#[inline]
pub fn length(_name: &str, length: usize) -> io::Result<usize> {
    Ok(length)
}

/// Passes a fault point of an operation on `length` bytes. Returns how many to use, at least one.
#[cfg(debug_assertions)]
pub fn length(name: &str, length: usize) -> io::Result<usize> {
    rules::strike(name, length)
}

#[cfg(debug_assertions)]
mod rules {
    use std::io;
    use std::path::Path;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    struct FaultRule {
        point: String,
        when: When,
        what: String,
        passed: AtomicU64,
    }

    enum When {
        Nth(u64),
        OneIn(u64),
    }

    pub fn strike(name: &str, length: usize) -> io::Result<usize> {
        static RULES: OnceLock<Vec<FaultRule>> = OnceLock::new();
        let rules = RULES.get_or_init(|| {
            let text = crate::sys::env::text("LANAI_FAULTS").unwrap_or_default();
            text.split(',').filter_map(parse).collect()
        });
        rules
            .iter()
            .filter(|rule| rule.strikes(name))
            .try_fold(length, |length, rule| act(rule, name, length))
    }

    fn parse(rule: &str) -> Option<FaultRule> {
        let mut fields = rule.split(':');
        let (point, when, what) = (
            fields.next()?.to_string(),
            fields.next()?,
            fields.next()?.to_string(),
        );
        let when = match when.strip_prefix("1/") {
            Some(n) => When::OneIn(n.parse().ok()?),
            None => When::Nth(when.parse().ok()?),
        };
        Some(FaultRule {
            point,
            when,
            what,
            passed: AtomicU64::new(0),
        })
    }

    impl FaultRule {
        fn strikes(&self, name: &str) -> bool {
            let here = match self.point.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == self.point,
            };
            here && {
                let count = self.passed.fetch_add(1, Relaxed) + 1;
                match self.when {
                    When::Nth(n) => count == n,
                    When::OneIn(n) => chance(count).is_multiple_of(n),
                }
            }
        }
    }

    /// Hashes process and count (SplitMix64).
    fn chance(count: u64) -> u64 {
        let mut z = count
            .wrapping_add(u64::from(std::process::id()) << 32)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn is_held() -> bool {
        crate::sys::env::var("LANAI_FAULTS_HOLD").is_some_and(|file| Path::new(&file).exists())
    }

    fn act(rule: &FaultRule, name: &str, length: usize) -> io::Result<usize> {
        match rule.what.as_str() {
            "short" => return Ok(length.min(1)),
            "delay" => crate::sys::clock::sleep(Duration::from_millis(30)),
            "hold" => {
                while is_held() {
                    crate::sys::clock::sleep(Duration::from_millis(10));
                }
            }
            "crash" => nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL)?,
            _ => return Err(io::Error::other(format!("injected fault at {name}"))),
        }
        Ok(length)
    }
}
