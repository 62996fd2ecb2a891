//! What of `[order]` says which waiting counts.

use super::{keys, scheduling::named};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::job::eligible_time::Accrual;

/// Which of a job's waiting counts as eligible time, if the section says so (I13, M17).
pub fn accrual(section: &Section) -> Result<Option<Accrual>, ConfigError> {
    section.only(keys("order"))?;
    named(section, "accrual", Accrual::ALL, Accrual::named)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::job::eligible_time::Accrual;

    fn accrual(text: &str) -> Accrual {
        Config::parse(text).unwrap().policy().accrual
    }

    /// X9: the preset says it where the file does not.
    #[test]
    fn what_counts_as_eligible_time_is_said_by_name() {
        assert_eq!(accrual(""), Accrual::Pbs);
        assert_eq!(accrual("preset = \"maui\""), Accrual::QueuePolicy);
        assert_eq!(accrual("preset = \"flux\""), Accrual::Always);
        assert_eq!(
            accrual("preset = \"maui\"\n[order]\naccrual = \"full_policy\""),
            Accrual::FullPolicy
        );
        let refused = Config::parse("[order]\naccrual = \"sometimes\"")
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("line 2") && refused.contains("queue_policy"),
            "{refused}"
        );
    }
}
