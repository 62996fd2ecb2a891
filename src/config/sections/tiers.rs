//! What of `[order]` goes before the worth of jobs.

use super::scheduling::named;
use super::span_above_zero;
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::policy::{Tiers, Turns};

/// Whether queues take turns, and who starves.
pub fn tiers(section: &Section, preset: Tiers) -> Result<Tiers, ConfigError> {
    let starve = section.read("max_starve", "a time above 0, as \"24h\"", span_above_zero)?;
    Ok(Tiers {
        turns: named(section, "turns", Turns::ALL, Turns::named)?.unwrap_or(preset.turns),
        max_starve: starve.or(preset.max_starve),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::policy::{Tiers, Turns};
    use crate::model::time::Span;

    #[test]
    fn what_goes_before_the_worth_is_said_by_name() {
        let text = "[order]\nturns = \"round_robin\"\nmax_starve = \"24h\"\n";
        let tiers = Config::parse(text).unwrap().policy().precedence.tiers;
        let day = Some(Span::seconds(86_400));
        assert_eq!(
            tiers,
            Tiers {
                turns: Turns::RoundRobin,
                max_starve: day
            }
        );
        for wrong in ["turns = \"robin\"", "max_starve = \"0s\""] {
            let said = Config::parse(&format!("[order]\n{wrong}\n"))
                .unwrap_err()
                .to_string();
            assert!(said.contains("line 2"), "{wrong}: {said}");
        }
    }
}
