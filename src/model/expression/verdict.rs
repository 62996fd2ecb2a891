//! Verdicts on requirements, with an explanation of unmet requirements.

use super::evaluation::{EvaluationFault, truth};
use super::node::ExpressionNode;
use super::value::{ExpressionValue, NameScope};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Verdict on a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequirementVerdict {
    /// The requirement is true.
    Met,
    /// The requirement is not true.
    Refused(UnmetRequirement),
}

impl RequirementVerdict {
    /// Tests whether the requirement is true.
    pub fn is_met(&self) -> bool {
        *self == RequirementVerdict::Met
    }

    /// Returns the explanation of an unmet requirement; None if the requirement is met.
    pub fn refusal(self) -> Option<UnmetRequirement> {
        match self {
            RequirementVerdict::Met => None,
            RequirementVerdict::Refused(refusal) => Some(refusal),
        }
    }
}

/// Result of the part that makes a requirement unmet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnmetKind {
    /// The part is false.
    False,
    /// The part depends on an undefined name.
    Undefined,
    /// The part could not be evaluated.
    Faulty(EvaluationFault),
}

/// The part of a requirement that makes the requirement false, undefined or faulty, with the values
/// of the names in this part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetRequirement {
    /// Part in canonical form.
    pub clause: String,
    /// Result of the part.
    pub answer: UnmetKind,
    /// Names in the part with their displayed values, sorted by name.
    pub found: Vec<(String, String)>,
}

impl UnmetRequirement {
    /// Returns a display with the host: `host.memory.total>=32000 false on n1 (16000)`.
    pub fn on<'r>(&'r self, host: &'r str) -> UnmetOnHost<'r> {
        UnmetOnHost {
            refusal: self,
            host,
        }
    }

    /// Returns `false`, `undefined` or `faulty`.
    fn outcome(&self) -> &'static str {
        match self.answer {
            UnmetKind::False => "false",
            UnmetKind::Undefined => "undefined",
            UnmetKind::Faulty(_) => "faulty",
        }
    }

    /// Formats the fault, or the names with their values, in parentheses. For a single name,
    /// formats only its value, or nothing if the part is undefined. Without names, formats nothing.
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

/// Formats without a host: `host.memory.total>=32000 false (16000)`.
impl fmt::Display for UnmetRequirement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.clause, self.outcome())?;
        self.show_found(f)
    }
}

/// Explanation of an unmet requirement on one host.
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

/// Evaluates a requirement.
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

/// Returns the result of a node; None if it is true.
fn answer(node: &ExpressionNode, scope: &dyn NameScope) -> Option<UnmetKind> {
    match truth(node, scope) {
        Ok(Some(true)) => None,
        Ok(Some(false)) => Some(UnmetKind::False),
        Ok(None) => Some(UnmetKind::Undefined),
        Err(fault) => Some(UnmetKind::Faulty(fault)),
    }
}

/// If the node joins parts by `and`, returns the first part that has the same result as the node;
/// otherwise returns the node.
fn clause<'n>(
    node: &'n ExpressionNode,
    whole: UnmetKind,
    scope: &dyn NameScope,
) -> (&'n ExpressionNode, UnmetKind) {
    if let ExpressionNode::All(parts) = node {
        let decisive = parts
            .iter()
            .find(|part| answer(part, scope).as_ref() == Some(&whole));
        return (decisive.unwrap_or(node), whole);
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
