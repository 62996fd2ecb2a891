//! The tree that an expression is, and its canonical form.

use super::operator::{Binary, Function, Level};
use super::token::is_plain;
use std::fmt;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Finite, not negative.
    Number(f64),
    Boolean(bool),
    /// Without one of the two kinds of quotes.
    Text(Box<str>),
    Name(Box<str>),
    /// A name if the scope knows it, else a text: `linux` in `host.os eq linux`.
    Word(Box<str>),
    /// Two or more, none of them an `All`.
    All(Vec<Node>),
    /// Two or more, none of them an `Any`.
    Any(Vec<Node>),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Binary, Box<[Node; 2]>),
    Choice(Box<Choice>),
    Call(Function, Vec<Node>),
}

/// `when ? then : otherwise`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub when: Node,
    pub then: Node,
    pub otherwise: Node,
}

impl Node {
    /// Both: chains of `and` are one node, whatever parentheses they had.
    pub fn all(left: Node, right: Node) -> Node {
        let parts = |node| match node {
            Node::All(parts) => parts,
            node => vec![node],
        };
        let mut all = parts(left);
        all.extend(parts(right));
        Node::All(all)
    }

    /// Either: chains of `or` are one node, whatever parentheses they had.
    pub fn any(left: Node, right: Node) -> Node {
        let parts = |node| match node {
            Node::Any(parts) => parts,
            node => vec![node],
        };
        let mut any = parts(left);
        any.extend(parts(right));
        Node::Any(any)
    }

    /// Shows this node and all below it to `look`, in the order they are written.
    pub fn visit<'n>(&'n self, look: &mut dyn FnMut(&'n Node)) {
        look(self);
        match self {
            Node::Number(_) | Node::Boolean(_) | Node::Text(_) | Node::Name(_) | Node::Word(_) => {}
            Node::All(parts) | Node::Any(parts) | Node::Call(_, parts) => {
                parts.iter().for_each(|part| part.visit(look))
            }
            Node::Not(inner) | Node::Negative(inner) => inner.visit(look),
            Node::Binary(_, operands) => operands.iter().for_each(|operand| operand.visit(look)),
            Node::Choice(choice) => {
                [&choice.when, &choice.then, &choice.otherwise]
                    .into_iter()
                    .for_each(|part| part.visit(look));
            }
        }
    }

    /// How tightly it holds together.
    fn level(&self) -> Level {
        match self {
            Node::Choice(_) => Level::Choice,
            Node::Any(_) => Level::Or,
            Node::All(_) => Level::And,
            Node::Not(_) => Level::Not,
            Node::Binary(operator, _) => operator.level(),
            Node::Negative(_) => Level::Unary,
            _ => Level::Atom,
        }
    }

    /// This node where only what binds as tightly as `needed` stands without parentheses.
    fn within(&self, needed: Level) -> Within<'_> {
        Within { node: self, needed }
    }
}

struct Within<'n> {
    node: &'n Node,
    needed: Level,
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

/// The canonical form: signs for operators that have one, words for `and or not xor in has min
/// max`, and no parentheses but those that count.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Node::Number(number) => show_number(*number, f),
            Node::Boolean(boolean) => boolean.fmt(f),
            Node::Text(text) => f.write_str(&quoted(text)),
            Node::Name(name) => show_name(name, f),
            Node::Word(word) => f.write_str(word),
            Node::All(parts) => join(parts, " and ", Level::Not, f),
            Node::Any(parts) => join(parts, " or ", Level::And, f),
            Node::Not(inner) => write!(f, "not {}", inner.within(Level::Not)),
            Node::Negative(inner) => write!(f, "-{}", inner.within(Level::Unary)),
            Node::Binary(operator, operands) => {
                let (left, right) = operator.operands();
                write!(
                    f,
                    "{}{}{}",
                    operands[0].within(left),
                    operator.shown(),
                    operands[1].within(right)
                )
            }
            Node::Choice(choice) => {
                let (then, otherwise) = (
                    choice.then.within(Level::Choice),
                    choice.otherwise.within(Level::Choice),
                );
                write!(
                    f,
                    "{} ? {then} : {otherwise}",
                    choice.when.within(Level::Or)
                )
            }
            Node::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                join(arguments, ",", Level::Choice, f)?;
                f.write_str(")")
            }
        }
    }
}

fn join(parts: &[Node], between: &str, needed: Level, f: &mut fmt::Formatter) -> fmt::Result {
    for (position, part) in parts.iter().enumerate() {
        let between = if position == 0 { "" } else { between };
        write!(f, "{between}{}", part.within(needed))?;
    }
    Ok(())
}

/// Numbers of everyday length in full, others with an exponent, so that none is longer than a line.
pub(super) fn show_number(number: f64, f: &mut fmt::Formatter) -> fmt::Result {
    let everyday = number == 0.0 || (1e-6..1e16).contains(&number.abs());
    if everyday {
        write!(f, "{number}")
    } else {
        write!(f, "{number:e}")
    }
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

/// In quotes that do not stand in the text itself.
fn quoted(text: &str) -> String {
    if text.contains('"') {
        format!("'{text}'")
    } else {
        format!("\"{text}\"")
    }
}
