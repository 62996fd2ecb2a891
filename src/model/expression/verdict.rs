//! Whether a requirement is met, and what to tell who asks why it is not.

use super::evaluation::{EvaluationFault, truth};
use super::node::ExpressionNode;
use super::value::{ExpressionValue, NameScope};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// What came of a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequirementVerdict {
    /// It is true.
    Met,
    /// It is not true.
    Refused(UnmetRequirement),
}

impl RequirementVerdict {
    /// Whether it is true.
    pub fn is_met(&self) -> bool {
        *self == RequirementVerdict::Met
    }

    /// Why it is not true.
    pub fn refusal(self) -> Option<UnmetRequirement> {
        match self {
            RequirementVerdict::Met => None,
            RequirementVerdict::Refused(refusal) => Some(refusal),
        }
    }
}

/// In which way a requirement is not true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnmetKind {
    /// It is false.
    False,
    /// It hangs on what is undefined.
    Undefined,
    /// It makes no sense there.
    Faulty(EvaluationFault),
}

/// The first part of a requirement that is not true, with what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetRequirement {
    /// The part, in its canonical form.
    pub clause: String,
    /// What it came to.
    pub answer: UnmetKind,
    /// The names in it with their values as shown, in the order of the names.
    pub found: Vec<(String, String)>,
}

impl UnmetRequirement {
    /// The refusal as said of one host: `host.memory.total>=32000 false on n1 (16000)`.
    pub fn on<'r>(&'r self, host: &'r str) -> UnmetOnHost<'r> {
        UnmetOnHost {
            refusal: self,
            host,
        }
    }

    /// `false`, `undefined` or `faulty`.
    fn outcome(&self) -> &'static str {
        match self.answer {
            UnmetKind::False => "false",
            UnmetKind::Undefined => "undefined",
            UnmetKind::Faulty(_) => "faulty",
        }
    }

    /// What was found, in parentheses: the value alone where the clause has one name only.
    fn show_found(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let UnmetKind::Faulty(fault) = &self.answer {
            return write!(f, " ({})", fault.wrong);
        }
        match self.found.as_slice() {
            [] => Ok(()),
            [_] if self.answer == UnmetKind::Undefined => Ok(()),
            [(_, value)] => write!(f, " ({value})"),
            several => {
                let pairs: Vec<String> = several
                    .iter()
                    .map(|(name, value)| format!("{name}: {value}"))
                    .collect();
                write!(f, " ({})", pairs.join(", "))
            }
        }
    }
}

/// Without a word on where: `host.memory.total>=32000 false (16000)`.
impl fmt::Display for UnmetRequirement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.clause, self.outcome())?;
        self.show_found(f)
    }
}

/// A [`UnmetRequirement`] on one host.
pub struct UnmetOnHost<'r> {
    refusal: &'r UnmetRequirement,
    host: &'r str,
}

impl fmt::Display for UnmetOnHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "{} {} on {}",
            self.refusal.clause,
            self.refusal.outcome(),
            self.host
        )?;
        self.refusal.show_found(f)
    }
}

/// Judges a requirement.
pub(super) fn judge(root: &ExpressionNode, scope: &dyn NameScope) -> RequirementVerdict {
    match answer(root, scope) {
        None => RequirementVerdict::Met,
        Some(answer) => {
            let (clause, answer) = clause(root, answer, scope);
            RequirementVerdict::Refused(UnmetRequirement {
                clause: clause.to_string(),
                answer,
                found: found(clause, scope),
            })
        }
    }
}

/// What a node is, if it is not true.
fn answer(node: &ExpressionNode, scope: &dyn NameScope) -> Option<UnmetKind> {
    match truth(node, scope) {
        Ok(Some(true)) => None,
        Ok(Some(false)) => Some(UnmetKind::False),
        Ok(None) => Some(UnmetKind::Undefined),
        Err(fault) => Some(UnmetKind::Faulty(fault)),
    }
}

/// The first of the parts joined by `and` that comes to what the whole comes to, if it has such
/// parts.
fn clause<'n>(
    node: &'n ExpressionNode,
    whole: UnmetKind,
    scope: &dyn NameScope,
) -> (&'n ExpressionNode, UnmetKind) {
    if let ExpressionNode::All(parts) = node {
        let guilty = parts
            .iter()
            .find(|part| answer(part, scope).as_ref() == Some(&whole));
        return (guilty.unwrap_or(node), whole);
    }
    (node, whole)
}

fn found(clause: &ExpressionNode, scope: &dyn NameScope) -> Vec<(String, String)> {
    let mut names = BTreeSet::new();
    clause.visit(&mut |node| {
        match node {
            ExpressionNode::Name(name) => names.insert(name.as_ref()),
            ExpressionNode::Word(word) if scope.value(word).is_some() => {
                names.insert(word.as_ref())
            }
            _ => false,
        };
    });
    let mut found = Vec::new();
    for name in names {
        let value = scope.value(name).unwrap_or(ExpressionValue::Undefined);
        found.push((name.to_string(), value.to_string()));
    }
    found
}
