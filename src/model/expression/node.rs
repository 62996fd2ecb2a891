//! Syntax tree of an expression, and its canonical form.

use super::operator::{Binary, Binding, Function};
use super::token::is_plain;
use super::value::show_number;
use std::fmt;

/// Node of the syntax tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ExpressionNode {
    /// Finite number, not negative.
    Number(f64),
    Boolean(bool),
    /// Text that contains at most one of the two kinds of quotes.
    Text(Box<str>),
    Name(Box<str>),
    /// Name if the scope defines it, else text: `linux` in `host.os eq linux`.
    Word(Box<str>),
    /// Two or more nodes joined by `and`; none of them is an `All`.
    All(Vec<ExpressionNode>),
    /// Two or more nodes joined by `or`; none of them is an `Any`.
    Any(Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Negative(Box<ExpressionNode>),
    Binary(Binary, Box<[ExpressionNode; 2]>),
    Choice(Box<Conditional>),
    Call(Function, Vec<ExpressionNode>),
}

/// Conditional `when ? then : otherwise`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conditional {
    pub when: ExpressionNode,
    pub then: ExpressionNode,
    pub otherwise: ExpressionNode,
}

impl ExpressionNode {
    /// Joins two nodes by `and`. A chain of `and` becomes one node, regardless of parentheses.
    pub fn all(left: ExpressionNode, right: ExpressionNode) -> ExpressionNode {
        let mut all = Vec::new();
        for side in [left, right] {
            match side {
                ExpressionNode::All(parts) => all.extend(parts),
                node => all.push(node),
            }
        }
        ExpressionNode::All(all)
    }

    /// Joins two nodes by `or`. A chain of `or` becomes one node, regardless of parentheses.
    pub fn any(left: ExpressionNode, right: ExpressionNode) -> ExpressionNode {
        let mut any = Vec::new();
        for side in [left, right] {
            match side {
                ExpressionNode::Any(parts) => any.extend(parts),
                node => any.push(node),
            }
        }
        ExpressionNode::Any(any)
    }

    /// Calls `look` with this node and all nodes below it, in the order of the text.
    pub fn visit<'n>(&'n self, look: &mut dyn FnMut(&'n ExpressionNode)) {
        look(self);
        let parts: &[ExpressionNode] = match self {
            ExpressionNode::Number(_)
            | ExpressionNode::Boolean(_)
            | ExpressionNode::Text(_)
            | ExpressionNode::Name(_)
            | ExpressionNode::Word(_) => &[],
            ExpressionNode::All(parts)
            | ExpressionNode::Any(parts)
            | ExpressionNode::Call(_, parts) => parts,
            ExpressionNode::Not(inner) | ExpressionNode::Negative(inner) => {
                std::slice::from_ref(inner)
            }
            ExpressionNode::Binary(_, operands) => operands.as_slice(),
            ExpressionNode::Choice(choice) => {
                choice.when.visit(look);
                choice.then.visit(look);
                return choice.otherwise.visit(look);
            }
        };
        for part in parts {
            part.visit(look);
        }
    }

    /// Returns the precedence of the node.
    fn level(&self) -> Binding {
        match self {
            ExpressionNode::Choice(_) => Binding::Choice,
            ExpressionNode::Any(_) => Binding::Or,
            ExpressionNode::All(_) => Binding::And,
            ExpressionNode::Not(_) => Binding::Not,
            ExpressionNode::Binary(operator, _) => operator.level(),
            ExpressionNode::Negative(_) => Binding::Unary,
            _ => Binding::Atom,
        }
    }

    /// Returns a display of the node, in parentheses if the node binds looser than `needed`.
    fn within(&self, needed: Binding) -> Within<'_> {
        Within { node: self, needed }
    }
}

struct Within<'n> {
    node: &'n ExpressionNode,
    needed: Binding,
}

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.node.level() < self.needed {
            write!(f, "({})", self.node)
        } else {
            self.node.fmt(f)
        }
    }
}

/// Formats the canonical form: operators as signs, except the words `and or not xor in has min
/// max`, and only necessary parentheses.
impl fmt::Display for ExpressionNode {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ExpressionNode::Number(number) => show_number(*number, f),
            ExpressionNode::Boolean(boolean) => boolean.fmt(f),
            ExpressionNode::Text(text) => f.write_str(&quoted(text)),
            ExpressionNode::Name(name) => show_name(name, f),
            ExpressionNode::Word(word) => f.write_str(word),
            ExpressionNode::All(parts) => join(parts, " and ", Binding::Not, f),
            ExpressionNode::Any(parts) => join(parts, " or ", Binding::And, f),
            ExpressionNode::Not(inner) => write!(f, "not {}", inner.within(Binding::Not)),
            ExpressionNode::Negative(inner) => write!(f, "-{}", inner.within(Binding::Unary)),
            ExpressionNode::Binary(operator, operands) => {
                let (left, right) = operator.operands();
                write!(
                    f,
                    "{}{}{}",
                    operands[0].within(left),
                    operator.shown(),
                    operands[1].within(right)
                )
            }
            ExpressionNode::Choice(choice) => {
                let (then, otherwise) = (
                    choice.then.within(Binding::Choice),
                    choice.otherwise.within(Binding::Choice),
                );
                write!(
                    f,
                    "{} ? {then} : {otherwise}",
                    choice.when.within(Binding::Or)
                )
            }
            ExpressionNode::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                join(arguments, ",", Binding::Choice, f)?;
                f.write_str(")")
            }
        }
    }
}

fn join(
    parts: &[ExpressionNode],
    between: &str,
    needed: Binding,
    f: &mut fmt::Formatter,
) -> fmt::Result {
    for (position, part) in parts.iter().enumerate() {
        let between = if position == 0 { "" } else { between };
        write!(f, "{between}{}", part.within(needed))?;
    }
    Ok(())
}

fn show_name(name: &str, f: &mut fmt::Formatter) -> fmt::Result {
    for (position, part) in name.split('.').enumerate() {
        let dot = if position == 0 { "" } else { "." };
        if is_plain(part) {
            write!(f, "{dot}{part}")?
        } else {
            write!(f, "{dot}{}", quoted(part))?
        }
    }
    Ok(())
}

/// Quotes a text with the kind of quotes that it does not contain.
fn quoted(text: &str) -> String {
    if text.contains('"') {
        format!("'{text}'")
    } else {
        format!("\"{text}\"")
    }
}
