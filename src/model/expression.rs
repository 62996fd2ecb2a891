//! The one expression language: requirements on hosts (Q3, Q20), rankings of nodes (M8f) and
//! formulas for the order of jobs (I15).
//!
//! An [`Expression`] is read once from its text and evaluated as often as needed, against a
//! [`NameScope`] that knows the names. The caller decides which names exist and what follows from
//! an undefined value or an [`EvaluationFault`]: a requirement rejects the host, a formula counts
//! as 0. The table in `operator` has the operators and their precedence; decision 19 gives the
//! reasons.
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

pub use evaluation::{EvaluationFault, Wrong};
pub use token::Syntax;
pub use value::{ExpressionValue, NameScope};
pub use verdict::{RequirementVerdict, UnmetKind, UnmetOnHost, UnmetRequirement};

use node::ExpressionNode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// An expression, read. It is stored as the text it was read from, and shown ([`fmt::Display`]) in
/// a form that is the same for all ways to write it, which reads as the same expression again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expression {
    text: String,
    root: ExpressionNode,
}

impl Expression {
    /// Reads an expression; the error says what is wrong at which column.
    pub fn parse(text: &str) -> Result<Expression, Syntax> {
        Ok(Expression {
            text: text.to_string(),
            root: parser::parse(text)?,
        })
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its value; `Value::Undefined` where that hangs on a name that `scope` does not know.
    pub fn evaluate<'a>(
        &'a self,
        scope: &'a dyn NameScope,
    ) -> Result<ExpressionValue<'a>, EvaluationFault> {
        evaluation::evaluate(&self.root, scope)
    }

    /// Its value as a number; None if that is undefined.
    pub fn number(&self, scope: &dyn NameScope) -> Result<Option<f64>, EvaluationFault> {
        evaluation::number(&self.root, scope)
    }

    /// Whether it is true, without a word on why not: nothing is allocated.
    pub fn holds(&self, scope: &dyn NameScope) -> bool {
        matches!(evaluation::truth(&self.root, scope), Ok(Some(true)))
    }

    /// Whether it is true, and else which part of it is not and what was found there (Q3).
    pub fn verdict(&self, scope: &dyn NameScope) -> RequirementVerdict {
        verdict::judge(&self.root, scope)
    }

    /// The names it uses, each once, in order. Words that only a scope could make names of are
    /// left to [`Expression::words`].
    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.root.visit(&mut |node| {
            if let ExpressionNode::Name(name) = node {
                names.insert(name.as_ref());
            }
        });
        names
    }

    /// The bare words, as `linux` in `host.os eq linux`: each stands for itself unless the scope
    /// knows it as a name.
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

/// Two expressions are equal when they say the same, however they were typed.
impl PartialEq for Expression {
    fn eq(&self, other: &Expression) -> bool {
        self.root == other.root
    }
}

/// No number in an expression is NaN: the reader refuses what is not finite.
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
