//! The two tables beside this file: what the recorder did between blocks, and which blocks differ
//! and why.

use std::collections::BTreeMap;

/// A block: its file's number and its line.
pub type Place = (u8, usize);

/// What happens before a block, or in its stead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A user runs a command whose output nobody compares.
    Run { who: String, command: String },
    /// The block's command stands for this one.
    Instead(String),
    /// A text in any command of the file stands for a command.
    Means(String, String),
    /// So many milliseconds pass.
    Wait(u64),
}

/// The directions of `directions.txt`, by the block before which they are followed. Line 0 of file
/// 0 is before every file, line 0 of another before this one.
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
            who => Direction::Run {
                who: who.into(),
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

/// Why a block is not as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// `decision N`, `difference`, `setting`, `timing` or `BUG`.
    pub category: String,
    pub text: String,
}

impl Reason {
    /// Whether the block may also be as recorded: which of both depends on the moment.
    pub fn is_of_the_moment(&self) -> bool {
        self.category == "timing"
    }
}

/// The blocks of `differences.txt`, each with its reason.
pub fn differences() -> BTreeMap<Place, Reason> {
    let mut found = BTreeMap::new();
    let mut reason = None;
    for line in include_str!("differences.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (before, behind) = line.split_once(':').expect(line);
        if !line.starts_with(' ') {
            reason = Some(Reason {
                category: before.into(),
                text: behind.trim().into(),
            });
            continue;
        }
        let file: u8 = before.trim().parse().expect(line);
        for at in behind.split_whitespace() {
            let known = found.insert((file, at.parse().expect(line)), reason.clone().expect(line));
            assert_eq!(known, None, "{file:02}:{at} is listed twice");
        }
    }
    found
}
