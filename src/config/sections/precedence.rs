//! `[order]`: who goes first.

use super::components::components;
use super::quality;
use super::scheduling::{expression, named};
use super::tiers::tiers;
use super::{A_SECOND_OR_MORE, BOOLEAN, boolean, keys, span, span_from_a_second, text, whole};
use crate::config::ConfigError;
use crate::config::document::Section;
use crate::model::expression::Expression;
use crate::model::policy::formula::NAMES;
use crate::model::policy::{FACTORS, Favor, Order, Precedence};
use crate::model::resource::Resources;
use crate::model::spelling::nearest;
use toml::de::DeValue;

/// `[order]`.
pub fn precedence(
    section: &Section,
    preset: &Precedence,
    resources: &Resources,
) -> Result<Precedence, ConfigError> {
    section.only(keys("order"))?;
    let preset = preset.clone();
    let order = named(section, "by", Order::ALL, Order::named)?.unwrap_or(preset.order);
    let formula = expression(
        section,
        "formula",
        "an expression over what is known of a job",
    )?
    .or(preset.formula);
    if let Some(unknown) = formula
        .as_ref()
        .and_then(|formula| unknown_name(formula, resources))
    {
        return Err(section.wrong_at("formula", unknown));
    }
    if order == Order::Formula && formula.is_none() {
        return Err(section.wrong_at("by", "`by = \"formula\"` needs a `formula`".to_string()));
    }
    let precedence = Precedence {
        order,
        formula,
        threshold: section
            .read("formula_threshold", "a number", number)?
            .or(preset.threshold),
        update_period: section
            .read("update_period", A_TIME, span)?
            .unwrap_or(preset.update_period),
        lexicographic: section
            .read("lexicographic", BOOLEAN, boolean)?
            .unwrap_or(preset.lexicographic),
        tiers: tiers(section, preset.tiers.clone())?,
        own_say: quality::own_say(section, preset.own_say)?,
        components: match section.section("components")? {
            Some(section) => Box::new(components(&section, *preset.components)?),
            None => preset.components,
        },
        ..preset
    };
    section
        .section("weights")?
        .map_or(Ok(precedence.clone()), |weights| {
            weighed(&weights, precedence)
        })
}

/// `[order.weights]`: what the factors count for, and how they are measured.
fn weighed(section: &Section, preset: Precedence) -> Result<Precedence, ConfigError> {
    section.only(keys("order.weights"))?;
    let mut weights = preset.weights;
    for row in FACTORS {
        if let Some(weight) = section.read(row.name, "a number", number)? {
            weights[row.factor] = weight;
        }
    }
    Ok(Precedence {
        weights,
        max_wait: section
            .read("max_wait", A_SECOND_OR_MORE, span_from_a_second)?
            .unwrap_or(preset.max_wait),
        favor: named(section, "favor", Favor::ALL, Favor::named)?.unwrap_or(preset.favor),
        slowdown_cap: section
            .read("slowdown_cap", "a number above 1", above_one)?
            .unwrap_or(preset.slowdown_cap),
        ..preset
    })
}

/// `factor` of a `[[queue]]` (F5), if it says so, with the name of the queue.
pub fn factor(section: &Section) -> Result<Option<(String, f64)>, ConfigError> {
    let factor = section.read("factor", "a number from 0 to 1", from_0_to_1)?;
    Ok(section.read("name", "a name", text)?.zip(factor))
}

const A_TIME: &str = "a time, as \"60s\"";

pub(super) fn from_0_to_1(value: &DeValue) -> Option<f64> {
    number(value).filter(|factor| (0.0..=1.0).contains(factor))
}

pub(super) fn above_one(value: &DeValue) -> Option<f64> {
    number(value).filter(|number| *number > 1.0)
}

/// A finite number, whole or not.
pub(super) fn number(value: &DeValue) -> Option<f64> {
    let whole = || whole::<i32>(value).map(f64::from);
    let number = value
        .as_float()
        .and_then(|float| float.as_str().replace('_', "").parse().ok())
        .or_else(whole);
    number.filter(|number: &f64| number.is_finite())
}

/// Says of the first name that means nothing which known one is nearest.
pub(in crate::config) fn unknown_name(
    formula: &Expression,
    resources: &Resources,
) -> Option<String> {
    let known: Vec<&str> = NAMES
        .iter()
        .copied()
        .chain(resources.iter().map(|(name, _)| name))
        .collect();
    let mut names = formula.names().into_iter().chain(formula.words());
    let unknown = names.find(|name| !known.contains(name))?;
    let near = nearest(unknown, &known).unwrap_or_default();
    Some(format!(
        "`{unknown}` is nothing known of a job; the nearest known name is `{near}`"
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::policy::{Factor, Factors, Order, Precedence};

    fn said(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn who_goes_first_is_said_by_name() {
        let config =
            Config::parse("[order]\nby = \"formula\"\nformula = \"ncpus * 10 + job_priority\"\n")
                .unwrap();
        assert_eq!(
            config.policy().precedence,
            Precedence::by_formula("ncpus * 10 + job_priority")
        );
        assert_eq!(
            Config::parse("[order]\nby = \"priority\"\n")
                .unwrap()
                .policy()
                .precedence
                .order,
            Order::Priority
        );
        assert_eq!(Config::default().policy().precedence, Precedence::default());
    }

    /// F1, F2.
    #[test]
    fn factors_have_weights_and_bounds() {
        let text = "[order]\nby = \"multifactor\"\n[order.weights]\nwait_time = 2\nqos = 0.5\nmax_wait = \"1d\"\n\
                    [[queue]]\nname = \"debug\"\nfactor = 1\n[[queue]]\nname = \"batch\"\nfactor = 0.3\n";
        let precedence = Config::parse(text).unwrap().policy().precedence;
        assert_eq!(
            (
                precedence.weights[Factor::WaitTime],
                precedence.weights[Factor::Qos],
                precedence.weights[Factor::JobSize]
            ),
            (2.0, 0.5, 0.0)
        );
        assert_eq!(
            (precedence.queues["batch"], precedence.qos["expedite"]),
            (0.3, 1.0)
        );
        let inline = Config::parse("[order]\nweights = { slowdown = 3 }\n")
            .unwrap()
            .policy()
            .precedence
            .weights;
        assert_eq!(inline, Factors::HYBRID.with(Factor::Slowdown, 3.0));
        for wrong in [
            "max_wait = \"0\"",
            "qos = \"x\"",
            "size = 1",
            "slowdown_cap = 1.0",
            "favor = \"wide\"",
        ] {
            let said = said(&format!("[order.weights]\n{wrong}\n"));
            assert!(said.contains("line 2"), "{wrong}: {said}");
        }
    }

    /// I15.
    #[test]
    fn a_formula_that_cannot_be_read_is_refused_with_its_place() {
        let said_of = |formula: &str| {
            said(&format!(
                "[order]\nby = \"formula\"\nformula = \"{formula}\"\n"
            ))
        };
        let syntax = said_of("ncpus * * 2");
        assert!(
            syntax.contains("line 3") && syntax.contains("column 9"),
            "{syntax}"
        );
        let unknown = said_of("elegible_time");
        assert!(
            unknown.contains("`elegible_time` is nothing known")
                && unknown.contains("`eligible_time`"),
            "{unknown}"
        );
        let none = said("[order]\nby = \"formula\"\n");
        assert!(none.contains("needs a `formula`"), "{none}");
        let name = said("[order]\nby = \"formulae\"\n");
        assert!(name.contains("formula"), "{name}");
    }
}
