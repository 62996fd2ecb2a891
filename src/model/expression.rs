//! Language of all expressions: requirements on hosts (Q3, Q20), rankings of nodes (M8f) and
//! formulas for the order of jobs (I15).
//!
//! An [`Expression`] is parsed once and evaluated as often as needed. A [`NameScope`] gives the
//! values of names; the caller decides which names exist. The caller also decides the effect of an
//! undefined value or an [`EvaluationFault`]: a requirement then rejects the host, and a ranking or
//! formula has the value 0. The table in `operator` lists the operators and their precedence
//! (decision 19).
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

/// Parsed expression. An expression is stored as its original text. [`fmt::Display`] shows it in a
/// canonical form, which parses to the same expression.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    root: ExpressionNode,
}

impl Expression {
    /// Parses an expression; the error states the fault and the column of the fault.
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

    /// Returns the value; `Undefined` if the value depends on a name unknown to `scope`.
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

    /// Tests whether the expression is true. This test is faster than [`Expression::verdict`],
    /// because it gives no explanation.
    pub fn holds(&self, scope: &dyn NameScope) -> bool {
        matches!(evaluation::truth(&self.root, scope), Ok(Some(true)))
    }

    /// Returns whether the expression is true. If it is not, also returns the decisive part, with
    /// the values of its names (Q3). Of parts joined by `and`, the decisive part is the first with
    /// the same result as the whole; otherwise it is the whole.
    pub fn verdict(&self, scope: &dyn NameScope) -> RequirementVerdict {
        verdict::judge(&self.root, scope)
    }

    /// Returns the names in the expression, sorted. Bare words ([`Expression::words`]) are not
    /// included, because only some scopes define them as names.
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

/// Expressions with the same canonical form are equal, even if their original texts differ.
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
