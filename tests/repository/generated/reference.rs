//! Lists in hand-written pages that are generated from tables of the program: the keys in
//! lanai.toml(5) and the reasons in lanai-scheduling(7).
//!
//! A list is between the lines `.\" Begin generated: NAME` and `.\" End generated`.

use clap_mangen::roff::{Roff, roman};
use lanai::config::sections::listed;
use lanai::model::reason::CODES;

/// The page with its generated list replaced by the current one. Panics if the page has no such
/// list.
pub fn with_list(page: &str, name: &str, list: &Roff) -> String {
    let begin = format!(".\\\" Begin generated: {name}\n");
    let end = ".\\\" End generated\n";
    let (head, rest) = page
        .split_once(&begin)
        .unwrap_or_else(|| panic!("the page lacks the line {begin}"));
    let (_, tail) = rest
        .split_once(end)
        .unwrap_or_else(|| panic!("the page lacks the line {end}"));
    let list = list.to_roff().replace(super::man::PREAMBLE, "");
    format!("{head}{begin}{list}{end}{tail}")
}

/// Every key with its one-line description, by section.
pub fn keys() -> Roff {
    let mut roff = Roff::new();
    for section in listed() {
        roff.control("SS", [section.title().as_str()]);
        for key in &section.keys {
            entry(&mut roff, key.name, key.text);
        }
    }
    roff
}

/// Every reason code with its meaning, by stage.
pub fn reasons() -> Roff {
    let mut roff = Roff::new();
    let mut stage = None;
    for code in CODES {
        if stage != Some(code.stage) {
            stage = Some(code.stage);
            roff.control("SS", [capitalized(code.stage.name()).as_str()]);
        }
        let name = if code.name.ends_with('.') {
            format!("{}RESOURCE", code.name)
        } else {
            code.name.to_string()
        };
        entry(&mut roff, &name, &format!("{}.", capitalized(code.means)));
    }
    roff
}

fn entry(roff: &mut Roff, name: &str, text: &str) {
    roff.control("TP", [])
        .control("B", [name])
        .text([roman(text)]);
}

fn capitalized(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}
