//! The two tables beside this file: actions of the recorder between blocks, and blocks that differ,
//! with the reasons.

use std::collections::BTreeMap;

/// A block: number of its file and its line.
pub type Place = (u8, usize);

/// An action before a block or instead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A user runs a command; its output is not compared.
    Run { user: String, command: String },
    /// This command replaces the block's command.
    Instead(String),
    /// A text in any command of the file is replaced by a command.
    Means(String, String),
    /// Sleeps for this many milliseconds.
    Wait(u64),
}

/// Actions from `directions.txt`, by the block that they precede. Line 0 of file 0 precedes every
/// file; line 0 of any other file precedes that file.
pub fn directions() -> BTreeMap<Place, Vec<Direction>> {
    let mut found: BTreeMap<Place, Vec<Direction>> = BTreeMap::new();
    for line in include_str!("directions.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (place, rest) = line.split_once(' ').expect(line);
        let (file, at) = place.split_once(':').unwrap_or((place, "0"));
        let (verb, rest) = rest.split_once(' ').expect(line);
        let direction = match verb {
            "instead" => Direction::Instead(rest.replace("\\n", "\n")),
            "means" => {
                let (text, command) = rest.split_once(" => ").expect(line);
                Direction::Means(text.into(), command.into())
            }
            "wait" => Direction::Wait(rest.parse().expect(line)),
            user => Direction::Run {
                user: user.into(),
                command: rest.into(),
            },
        };
        found
            .entry((file.parse().expect(line), at.parse().expect(line)))
            .or_default()
            .push(direction);
    }
    found
}

/// Reason for the difference of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// `decision N`, `difference`, `setting`, `timing` or `BUG`.
    pub category: String,
    pub text: String,
}

impl Reason {
    /// True if the block may also be as recorded, depending on timing.
    pub fn depends_on_timing(&self) -> bool {
        self.category == "timing"
    }
}

/// Blocks in `differences.txt` with their reasons.
pub fn differences() -> BTreeMap<Place, Reason> {
    let mut found = BTreeMap::new();
    let mut reason = None;
    for line in include_str!("differences.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (before, rest) = line.split_once(':').expect(line);
        if !line.starts_with(' ') {
            reason = Some(Reason {
                category: before.into(),
                text: rest.trim().into(),
            });
            continue;
        }
        let file: u8 = before.trim().parse().expect(line);
        for at in rest.split_whitespace() {
            let known = found.insert((file, at.parse().expect(line)), reason.clone().expect(line));
            assert_eq!(known, None, "{file:02}:{at} is listed twice");
        }
    }
    found
}
