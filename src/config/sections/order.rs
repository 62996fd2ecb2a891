//! `[order]` and `[order.weights]`: the order of waiting jobs.

use super::components::{ABOVE_ONE, COMPONENTS};
use super::launch::above_zero;
use crate::config::Config;
use crate::config::document::{ConfigError, Section};
use crate::config::key::{Entry, Key, KeyRow, Nested, Table, key};
use crate::config::kinds::{
    A_SECOND_OR_MORE, BOOLEAN, Formula, Kind, NUMBER, OneOf, Optional, Scalar, WholeNumber, time,
    whole,
};
use crate::model::expression::Expression;
use crate::model::job::eligible_time::Accrual;
use crate::model::policy::formula::NAMES;
use crate::model::policy::{
    FACTORS, Factor, FactorRow, Favor, PriorityOrder, TurnPolicy, UserPriority,
};
use crate::model::resource::Resources;
use crate::model::spelling::nearest;
use crate::model::time::Span;
use toml::Value;

const PRIORITY: WholeNumber<i32> = whole("a priority, such as 100", |_| true);

/// `[order]`.
pub static ORDER: Table<Config> = Table::new(
    "order",
    &[
        &key("by", OneOf(PriorityOrder::ALL), |c| {
            &mut c.policy.precedence.order
        })
        .pbs(&["job_sort_formula"])
        .text("The order of the waiting jobs."),
        &key(
            "formula",
            Formula("an expression over attributes of a job"),
            |c| &mut c.policy.precedence.formula,
        )
        .pbs(&["job_sort_formula"])
        .text("With by = \"formula\", the expression that computes the priority of each job.")
        .default("none")
        .example("\"queue_priority * 1000 + eligible_time / 3600\""),
        &key("formula_threshold", Optional(NUMBER), |c| {
            &mut c.policy.precedence.threshold
        })
        .pbs(&["job_sort_formula_threshold"])
        .text("The priority at or below which a job does not start.")
        .default("none")
        .example("0"),
        &key("accrual", OneOf(Accrual::ALL), |c| &mut c.policy.accrual)
            .text("Which waiting time counts as eligible time (shown by qstat -f)."),
        &key("update_period", time("a time, such as \"60s\""), |c| {
            &mut c.policy.precedence.update_period
        })
        .text("How long computed priorities are kept, but at least 1 s per 100,000 waiting jobs."),
        &key("lexicographic", BOOLEAN, |c| {
            &mut c.policy.precedence.lexicographic
        })
        .text("Whether all jobs of a queue precede all jobs of queues with a lower priority."),
        &key("turns", OneOf(TurnPolicy::ALL), |c| {
            &mut c.policy.precedence.tiers.turns
        })
        .text("How the jobs of several queues are merged."),
        &key(
            "max_starve",
            Optional(above_zero("a time above 0, such as \"24h\"")),
            |c| &mut c.policy.precedence.tiers.max_starve,
        )
        .text(
            "The eligible time, above 0, beyond which a job precedes all jobs that have not \
             exceeded it.",
        )
        .default("none")
        .example("\"24h\""),
        &Nested::new(
            "weights",
            &WEIGHTS,
            "With by = \"multifactor\", the weights of the factors; see [order.weights].",
        ),
        &key("user_priority", OneOf(UserPriority::ALL), |c| {
            &mut c.policy.precedence.own_say.user_priority
        })
        .text("How far users may raise the priority of a job with qsub -p and qalter -p."),
        &key("highest_user_priority", Optional(PRIORITY), |c| {
            &mut c.policy.precedence.own_say.highest_user_priority
        })
        .text("With user_priority = \"clamp\", the best priority that users may set.")
        .default("none")
        .example("100"),
        &key("lowest_is_best", BOOLEAN, |c| {
            &mut c.policy.precedence.own_say.lowest_is_best
        })
        .text(
            "Whether priorities are those of Qube: 1 is the best, 9999 the worst and the default.",
        ),
        &key("user_factor_ratchet", BOOLEAN, |c| {
            &mut c.policy.precedence.own_say.user_factor_ratchet
        })
        .text("Whether an owner may only lower --user-factor; an operator may raise it."),
        &Nested::new(
            "components",
            &COMPONENTS,
            "With by = \"components\", the components of the priority; see [order.components].",
        ),
    ],
)
.finish(finish);

/// `[order.weights]`: a key for each factor, and the parameters of some factors.
static WEIGHTS: Table<Config> = Table::new("order.weights", &WEIGHT_KEYS);

static WEIGHT_KEYS: [&dyn KeyRow<Config>; FACTORS.len() + 3] = {
    let mut keys: [&dyn KeyRow<Config>; FACTORS.len() + 3] = [&MAX_WAIT; FACTORS.len() + 3];
    let mut place = 0;
    while place < FACTORS.len() {
        keys[place] = &FACTOR_WEIGHTS[place];
        place += 1;
    }
    keys[place + 1] = &FAVOR;
    keys[place + 2] = &SLOWDOWN_CAP;
    keys
};
static MAX_WAIT: Key<Config, Scalar<Span>> = key("max_wait", A_SECOND_OR_MORE, |c| {
    &mut c.policy.precedence.max_wait
})
.text("The eligible time, at least a second, at which the factor wait_time reaches 1.");
static FAVOR: Key<Config, OneOf<Favor>> = key("favor", OneOf(Favor::ALL), |c| {
    &mut c.policy.precedence.favor
})
.text("Which jobs get a high value of the factor job_size: \"large\" or \"small\".");
static SLOWDOWN_CAP: Key<Config, Scalar<f64>> = key("slowdown_cap", ABOVE_ONE, |c| {
    &mut c.policy.precedence.slowdown_cap
})
.text("The slowdown, above 1, at which the factor slowdown reaches 1.");

static FACTOR_WEIGHTS: [FactorWeight; FACTORS.len()] = {
    let mut weights = [FactorWeight::for_factor(&FACTORS[0]); FACTORS.len()];
    let mut place = 0;
    while place < FACTORS.len() {
        weights[place] = FactorWeight::for_factor(&FACTORS[place]);
        place += 1;
    }
    weights
};

/// The key for the weight of a factor.
#[derive(Clone, Copy)]
struct FactorWeight {
    entry: Entry,
    factor: Factor,
}

impl FactorWeight {
    const fn for_factor(row: &'static FactorRow) -> FactorWeight {
        FactorWeight {
            entry: Entry::new(row.name, row.about),
            factor: row.factor,
        }
    }
}

impl KeyRow<Config> for FactorWeight {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn read(
        &self,
        config: &mut Config,
        section: &Section,
        resources: &Resources,
    ) -> Result<(), ConfigError> {
        if let Some(weight) = NUMBER.read_key(section, self.entry.name, resources)? {
            config.policy.precedence.weights[self.factor] = weight;
        }
        Ok(())
    }

    fn value(&self, config: &mut Config) -> Option<Value> {
        Some(config.policy.precedence.weights[self.factor].into())
    }
}

fn finish(
    config: &mut Config,
    section: &Section,
    resources: &Resources,
) -> Result<(), ConfigError> {
    let rule = &config.policy.precedence;
    let unknown = rule
        .formula
        .as_ref()
        .and_then(|formula| unknown_name(formula, resources));
    if let Some(unknown) = unknown {
        return Err(section.key_error("formula", unknown));
    }
    if rule.order == PriorityOrder::Formula && rule.formula.is_none() {
        return Err(section.key_error("by", "`by = \"formula\"` requires `formula`".to_string()));
    }
    check_user_priority(config, section)
}

/// Checks that `highest_user_priority` is a valid priority, and is set if `user_priority` is
/// `"clamp"`. If the file sets `lowest_is_best` to another value than the preset, the
/// `highest_user_priority` of the preset does not apply.
fn check_user_priority(config: &mut Config, section: &Section) -> Result<(), ConfigError> {
    let preset = config.preset.policy().precedence.own_say;
    let own_say = &mut config.policy.precedence.own_say;
    let is_reversed = own_say.lowest_is_best != preset.lowest_is_best;
    if is_reversed && !section.has("highest_user_priority") {
        own_say.highest_user_priority = None;
    }
    let range = own_say.range();
    let wanted = format!("a priority from {} to {}", range.start(), range.end());
    let bound = own_say.highest_user_priority;
    if bound.is_some_and(|priority| !range.contains(&priority)) {
        return Err(section.refuse_key("highest_user_priority", &wanted));
    }
    if own_say.user_priority == UserPriority::Clamp && bound.is_none() {
        let text =
            format!("`user_priority = \"clamp\"` requires `highest_user_priority`, {wanted}");
        return Err(section.key_error("user_priority", text));
    }
    Ok(())
}

impl Config {
    /// Whether each name in a formula is a known variable or resource.
    pub fn knows_names_of(&self, formula: &Expression, resources: &Resources) -> bool {
        unknown_name(formula, resources).is_none()
    }
}

/// The error for the first unknown name in a formula, with the nearest known name; None if all
/// names are known.
fn unknown_name(formula: &Expression, resources: &Resources) -> Option<String> {
    let resources = resources.iter().map(|(name, _)| name);
    let known: Vec<&str> = NAMES.iter().copied().chain(resources).collect();
    let mut names = formula.names().into_iter().chain(formula.words());
    let unknown = names.find(|name| !known.contains(name))?;
    let near = nearest(unknown, &known).unwrap_or_default();
    Some(format!(
        "unknown name `{unknown}`: the nearest known name is `{near}`"
    ))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::model::job::eligible_time::Accrual;
    use crate::model::policy::{Factor, Factors, Precedence, PriorityOrder};
    use crate::model::policy::{Tiers, TurnPolicy};
    use crate::model::time::Span;

    fn refusal(text: &str) -> String {
        Config::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_priority_order_is_read() {
        let config =
            Config::parse("[order]\nby = \"formula\"\nformula = \"ncpus * 10 + job_priority\"\n")
                .unwrap();
        assert_eq!(
            config.effective_policy().precedence,
            Precedence::by_formula("ncpus * 10 + job_priority")
        );
        assert_eq!(
            Config::parse("[order]\nby = \"priority\"\n")
                .unwrap()
                .effective_policy()
                .precedence
                .order,
            PriorityOrder::Priority
        );
        assert_eq!(
            Config::default().effective_policy().precedence,
            Precedence::default()
        );
    }

    /// F1, F2.
    #[test]
    fn factors_have_weights_and_bounds() {
        let text = "[order]\nby = \"multifactor\"\n[order.weights]\nwait_time = 2\nqos = 0.5\n\
                    max_wait = \"1d\"\n[[queue]]\nname = \"debug\"\nfactor = 1\n\
                    [[queue]]\nname = \"batch\"\nfactor = 0.3\n";
        let precedence = Config::parse(text).unwrap().effective_policy().precedence;
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
            .effective_policy()
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
            let refusal = refusal(&format!("[order.weights]\n{wrong}\n"));
            assert!(refusal.contains("line 2"), "{wrong}: {refusal}");
        }
    }

    /// I15.
    #[test]
    fn an_invalid_formula_is_refused_with_its_position() {
        let formula_refusal = |formula: &str| {
            refusal(&format!(
                "[order]\nby = \"formula\"\nformula = \"{formula}\"\n"
            ))
        };
        let syntax = formula_refusal("ncpus * * 2");
        assert!(
            syntax.contains("line 3") && syntax.contains("column 9"),
            "{syntax}"
        );
        let unknown = formula_refusal("elegible_time");
        assert!(
            unknown.contains("unknown name `elegible_time`") && unknown.contains("`eligible_time`"),
            "{unknown}"
        );
        let none = refusal("[order]\nby = \"formula\"\n");
        assert!(none.contains("requires `formula`"), "{none}");
        let name = refusal("[order]\nby = \"formulae\"\n");
        assert!(name.contains("formula"), "{name}");
    }

    fn accrual(text: &str) -> Accrual {
        Config::parse(text).unwrap().effective_policy().accrual
    }

    /// The preset's value applies if the file does not set `accrual` (X9).
    #[test]
    fn the_definition_of_eligible_time_is_read() {
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

    #[test]
    fn turns_and_max_starve_are_read() {
        let text = "[order]\nturns = \"round_robin\"\nmax_starve = \"24h\"\n";
        let tiers = Config::parse(text)
            .unwrap()
            .effective_policy()
            .precedence
            .tiers;
        let day = Some(Span::seconds(86_400));
        assert_eq!(
            tiers,
            Tiers {
                turns: TurnPolicy::RoundRobin,
                max_starve: day
            }
        );
        for wrong in ["turns = \"robin\"", "max_starve = \"0s\""] {
            let refusal = Config::parse(&format!("[order]\n{wrong}\n"))
                .unwrap_err()
                .to_string();
            assert!(refusal.contains("line 2"), "{wrong}: {refusal}");
        }
    }
}
