//! Signals by name and number.

/// SIGKILL: ends a process immediately. A process cannot trap this signal.
pub const KILL: i32 = 9;
/// SIGTERM: requests a process to end.
pub const TERM: i32 = 15;

/// Parses a signal name, with or without `SIG`, or a signal number; None for unknown signals. The
/// numbers are those of Linux and equal on all supported architectures.
pub fn parse(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (0..=64).contains(&number).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(text);
    if name == "NULL" {
        return Some(0);
    }
    NAMES
        .iter()
        .position(|&known| known == name)
        .map(|index| index as i32 + 1)
}

/// Formats a signal as in `10 (USR1)`.
pub fn shown(number: i32) -> String {
    let name = usize::try_from(number - 1)
        .ok()
        .and_then(|index| NAMES.get(index));
    name.map_or(number.to_string(), |name| format!("{number} ({name})"))
}

/// Names of the signals from number 1.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_signals_are_parsed() {
        for (text, number) in [
            ("SIGTERM", 15),
            ("TERM", 15),
            ("9", 9),
            ("USR1", 10),
            ("NULL", 0),
            ("SIGSYS", 31),
        ] {
            assert_eq!(parse(text), Some(number), "{text}");
        }
        for bad in ["", "SIG", "term", "65", "-1", "NOSUCH"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
