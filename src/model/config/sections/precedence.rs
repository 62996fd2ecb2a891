//! `[priority]`: who goes first.

use super::keys;
use super::scheduling::{expression, named};
use crate::model::config::ConfigError;
use crate::model::config::table::{Section, nearest};
use crate::model::expression::Expression;
use crate::model::policy::{Order, Precedence};
use crate::model::resource::Resources;

/// What a formula may ask for besides resources, by PBS's names.
const KNOWN: &[&str] = &["eligible_time", "job_priority", "queue_priority", "walltime", "nodect"];

/// `[priority]`.
pub fn precedence(section: &Section, preset: &Precedence, resources: &Resources) -> Result<Precedence, ConfigError> {
    section.only(keys("priority"))?;
    let preset = preset.clone();
    let order = named(section, "order", Order::ALL, Order::named)?.unwrap_or(preset.order);
    let formula = expression(section, "formula", "an expression over what is known of a job")?.or(preset.formula);
    if let Some(unknown) = formula.as_deref().and_then(|text| unknown_name(text, resources)) {
        return Err(section.wrong_at("formula", unknown));
    }
    if order == Order::Formula && formula.is_none() {
        return Err(section.wrong_at("order", "`order = \"formula\"` needs a `formula`".to_string()));
    }
    Ok(Precedence { order, formula })
}

/// Says of the first name that means nothing which known one is nearest.
fn unknown_name(text: &str, resources: &Resources) -> Option<String> {
    let expression = Expression::parse(text).ok()?;
    let known: Vec<&str> = KNOWN.iter().copied().chain(resources.iter().map(|(name, _)| name)).collect();
    let mut names = expression.names().into_iter().chain(expression.words());
    let unknown = names.find(|name| !known.contains(name))?;
    let near = nearest(unknown, &known).unwrap_or_default();
    Some(format!("`{unknown}` is nothing known of a job; the nearest known name is `{near}`"))
}

#[cfg(test)]
mod tests {
    use crate::model::config::Config;
    use crate::model::policy::{Order, Precedence};

    fn said(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn who_goes_first_is_said_by_name() {
        let config =
            Config::parse("[priority]\norder = \"formula\"\nformula = \"ncpus * 10 + job_priority\"\n").unwrap();
        assert_eq!(config.policy().precedence, Precedence::by_formula("ncpus * 10 + job_priority"));
        assert_eq!(
            Config::parse("[priority]\norder = \"priority\"\n").unwrap().policy().precedence.order,
            Order::Priority
        );
        assert_eq!(Config::default().policy().precedence, Precedence::default());
    }

    /// I15.
    #[test]
    fn a_formula_that_cannot_be_read_is_refused_with_its_place() {
        let said_of = |formula: &str| said(&format!("[priority]\norder = \"formula\"\nformula = \"{formula}\"\n"));
        let syntax = said_of("ncpus * * 2");
        assert!(syntax.contains("line 3") && syntax.contains("column 9"), "{syntax}");
        let unknown = said_of("elegible_time");
        assert!(
            unknown.contains("`elegible_time` is nothing known") && unknown.contains("`eligible_time`"),
            "{unknown}"
        );
        let none = said("[priority]\norder = \"formula\"\n");
        assert!(none.contains("needs a `formula`"), "{none}");
        let name = said("[priority]\norder = \"formulae\"\n");
        assert!(name.contains("formula"), "{name}");
    }
}
