//! Fault injection in debug builds. An operation at a fault point, such as a commit to the spool,
//! can fail, handle only a part of its data, be delayed, or crash the process.
//!
//! The environment variable `LANAI_FAULTS` is a list of rules `point:when:what`, separated by
//! commas:
//!
//! * `point`: the name of a fault point, such as `spool.commit`. A `*` at the end matches any text.
//! * `when`: a number n for the nth time that the point is passed, or `1/n` for each time with a
//!   chance of 1 in n.
//! * `what`: `fail`, `short` (only one byte is handled), `delay` or `crash`. `hold` waits as long
//!   as a file exists; the variable `LANAI_FAULTS_HOLD` contains the path of the file.
//!
//! In release builds, fault points do nothing.

use std::io;

/// Passes a fault point. Fails if a rule requests that.
#[inline]
pub fn point(name: &str) -> io::Result<()> {
    length(name, usize::MAX).map(|_| ())
}

/// Passes a fault point of an operation on `length` bytes. Returns the number of bytes to handle:
/// `length`, or 1 if a rule shortens the operation.
#[cfg(not(debug_assertions))]
#[inline]
pub fn length(_name: &str, length: usize) -> io::Result<usize> {
    Ok(length)
}

/// Passes a fault point of an operation on `length` bytes. Returns the number of bytes to handle:
/// `length`, or 1 if a rule shortens the operation.
#[cfg(debug_assertions)]
pub fn length(name: &str, length: usize) -> io::Result<usize> {
    rules::apply_rules(name, length)
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

    pub fn apply_rules(name: &str, length: usize) -> io::Result<usize> {
        static RULES: OnceLock<Vec<FaultRule>> = OnceLock::new();
        let rules = RULES.get_or_init(|| {
            let text = crate::sys::env::text("LANAI_FAULTS").unwrap_or_default();
            text.split(',').filter_map(parse).collect()
        });
        rules
            .iter()
            .filter(|rule| rule.applies(name))
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
        fn applies(&self, name: &str) -> bool {
            let is_at_point = match self.point.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == self.point,
            };
            is_at_point && {
                let count = self.passed.fetch_add(1, Relaxed) + 1;
                match self.when {
                    When::Nth(n) => count == n,
                    When::OneIn(n) => chance(count).is_multiple_of(n),
                }
            }
        }
    }

    /// A pseudo-random number from the pid and `count` (SplitMix64).
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
