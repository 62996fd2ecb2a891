//! The one expression language: requirements on hosts (Q3, Q20), rankings of nodes (M8f) and
//! formulas for the order of jobs (I15).
//!
//! An [`Expression`] is read once from its text and evaluated as often as needed, against a
//! [`NameScope`] with the values of names. The caller decides which names exist, and the result
//! of an undefined value or an [`EvaluationFault`]: a requirement rejects the host, a formula
//! counts as 0. The table in `operator` has the operators and their precedence; decision 19 gives
//! the reasons.
//!
//! ```
//! use lanai::model::expression::{Expression, ExpressionValue};
//!
//! let requirement = Expression::parse("host.memory.total >= 32000 and host.os eq linux").unwrap();
//! let n1 = |name: &str| match name {
//!     "host.memory.total" => Some(ExpressionValue::Number(16000.0)),
//!     "host.os" => Some(ExpressionValue::from("linux")),
//!     _ => None,
//! };
//! let refusal = requirement.verdict(&n1).refusal().unwrap();
//! assert_eq!(refusal.on("n1").to_string(), "host.memory.total>=32000 false on n1 (16000)");
//! ```

mod operator;

mod token;

mod node;

mod parser;

mod value;

mod evaluation;

mod verdict;

#[cfg(test)]
mod tests;

pub use evaluation::{EvaluationFault, EvaluationFaultKind};
pub use token::Syntax;
pub use value::{ExpressionValue, NameScope};
pub use verdict::{RequirementVerdict, UnmetKind, UnmetOnHost, UnmetRequirement};

use node::ExpressionNode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Parsed expression. It is stored as its original text, and displayed ([`fmt::Display`]) in a
/// canonical form, which parses to the same expression.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    root: ExpressionNode,
}

impl Expression {
    /// Parses an expression; the error states the fault and its column.
    pub fn parse(text: &str) -> Result<Expression, Syntax> {
        Ok(Expression {
            text: text.to_string(),
            root: parser::parse(text)?,
        })
    }

    /// Returns the original text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value; `Undefined` if it depends on a name unknown to `scope`.
    pub fn evaluate<'a>(
        &'a self,
        scope: &'a dyn NameScope,
    ) -> Result<ExpressionValue<'a>, EvaluationFault> {
        evaluation::evaluate(&self.root, scope)
    }

    /// Returns the value as a number; None if undefined.
    pub fn number(&self, scope: &dyn NameScope) -> Result<Option<f64>, EvaluationFault> {
        evaluation::number(&self.root, scope)
    }

    /// Tests whether the expression is true. Without an explanation, and without allocations.
    pub fn holds(&self, scope: &dyn NameScope) -> bool {
        matches!(evaluation::truth(&self.root, scope), Ok(Some(true)))
    }

    /// Tests whether the expression is true; if not, returns the first part that is not true,
    /// with the values found (Q3).
    pub fn verdict(&self, scope: &dyn NameScope) -> RequirementVerdict {
        verdict::judge(&self.root, scope)
    }

    /// Returns the names used, sorted, without bare words, which only some scopes treat as names:
    /// see [`Expression::words`].
    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.root.visit(&mut |node| {
            if let ExpressionNode::Name(name) = node {
                names.insert(name.as_ref());
            }
        });
        names
    }

    /// Returns the bare words, such as `linux` in `host.os eq linux`: each is a text unless the
    /// scope defines it as a name.
    pub fn words(&self) -> BTreeSet<&str> {
        let mut words = BTreeSet::new();
        self.root.visit(&mut |node| {
            if let ExpressionNode::Word(word) = node {
                words.insert(word.as_ref());
            }
        });
        words
    }
}

/// Expressions with the same canonical form are equal, whatever their original texts.
impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.root == other.root
    }
}

/// No number in an expression is NaN: the parser refuses non-finite numbers.
impl Eq for Expression {}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl FromStr for Expression {
    type Err = Syntax;

    fn from_str(text: &str) -> Result<Expression, Syntax> {
        Expression::parse(text)
    }
}

impl TryFrom<String> for Expression {
    type Error = Syntax;

    fn try_from(text: String) -> Result<Expression, Syntax> {
        Ok(Expression {
            root: parser::parse(&text)?,
            text,
        })
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> String {
        expression.text
    }
}
