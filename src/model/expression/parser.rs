//! Parser for expressions (precedence climbing).

use super::node::{Conditional, ExpressionNode};
use super::operator::{Binary, Binding, FUNCTIONS, Function, Sign};
use super::token::{ExpressionToken, Placed, Syntax, Tokens};

/// Maximum length of an expression in bytes.
pub(super) const LONGEST: usize = 8192;

/// Maximum nesting depth: far above practical use, and far below the limit of a thread's stack. A
/// chain of `and` or `or` of any length is one level.
const DEEPEST: usize = 100;

/// Parses a text as one expression.
pub(super) fn parse(text: &str) -> Result<ExpressionNode, Syntax> {
    if text.len() > LONGEST {
        return Err(Syntax {
            column: 1,
            message: format!("an expression may have at most {LONGEST} bytes"),
        });
    }
    let mut tokens = Tokens::new(text);
    let next = tokens.next()?;
    let mut parser = Parser {
        tokens,
        next,
        nested: 0,
    };
    let whole = parser.expression(Binding::Choice)?;
    match parser.next.token {
        ExpressionToken::End => Ok(whole.node),
        _ => Err(unexpected(&parser.next, "an operator or the end")),
    }
}

struct Parser<'t> {
    tokens: Tokens<'t>,
    next: Placed<'t>,
    /// Number of active calls of `expression`.
    nested: usize,
}

/// Node, and the height of its tree; a node without operands has height 1.
struct NodeWithHeight {
    node: ExpressionNode,
    height: usize,
}

impl NodeWithHeight {
    fn leaf(node: ExpressionNode) -> NodeWithHeight {
        NodeWithHeight { node, height: 1 }
    }
}

/// Operator that may follow an operand.
#[derive(Clone, Copy)]
enum Infix {
    And,
    Or,
    If,
    Question,
    Binary(Binary),
}

impl Infix {
    fn of(token: &ExpressionToken) -> Option<Infix> {
        match token {
            ExpressionToken::Sign(Sign::Binary(operator)) => Some(Infix::Binary(*operator)),
            ExpressionToken::Sign(Sign::And) => Some(Infix::And),
            ExpressionToken::Sign(Sign::Or) => Some(Infix::Or),
            ExpressionToken::Sign(Sign::If) => Some(Infix::If),
            ExpressionToken::Sign(Sign::Question) => Some(Infix::Question),
            _ => None,
        }
    }

    fn level(self) -> Binding {
        match self {
            Infix::And => Binding::And,
            Infix::Or => Binding::Or,
            Infix::If | Infix::Question => Binding::Choice,
            Infix::Binary(operator) => operator.level(),
        }
    }
}

impl<'t> Parser<'t> {
    /// Parses an expression up to its end, or up to the first operator that binds looser than
    /// `loosest`.
    fn expression(&mut self, loosest: Binding) -> Result<NodeWithHeight, Syntax> {
        self.nested += 1;
        self.check_depth(self.nested)?;
        let mut left = self.operand()?;
        while let Some(infix) = Infix::of(&self.next.token).filter(|infix| infix.level() >= loosest)
        {
            self.advance()?;
            left = self.combine(left, infix)?;
        }
        self.nested -= 1;
        Ok(left)
    }

    /// Combines `left` with the operator just read and the operands that follow it.
    fn combine(&mut self, left: NodeWithHeight, infix: Infix) -> Result<NodeWithHeight, Syntax> {
        match infix {
            Infix::And => {
                let right = self.expression(Binding::Not)?;
                let [left_height, right_height] = [&left, &right].map(|side| match side.node {
                    ExpressionNode::All(_) => side.height - 1,
                    _ => side.height,
                });
                self.node_above(
                    left_height.max(right_height),
                    ExpressionNode::all(left.node, right.node),
                )
            }
            Infix::Or => {
                let right = self.expression(Binding::And)?;
                let [left_height, right_height] = [&left, &right].map(|side| match side.node {
                    ExpressionNode::Any(_) => side.height - 1,
                    _ => side.height,
                });
                self.node_above(
                    left_height.max(right_height),
                    ExpressionNode::any(left.node, right.node),
                )
            }
            Infix::Question => {
                let then = self.expression(Binding::Choice)?;
                self.expect(Sign::Colon, "`:` and the other value")?;
                let otherwise = self.expression(Binding::Choice)?;
                self.choice(left, then, otherwise)
            }
            Infix::If => {
                let when = self.expression(Binding::Or)?;
                self.expect(Sign::Else, "`else` and the other value")?;
                let otherwise = self.expression(Binding::Choice)?;
                self.choice(when, left, otherwise)
            }
            Infix::Binary(operator) => self.binary(left, operator),
        }
    }

    fn choice(
        &self,
        when: NodeWithHeight,
        then: NodeWithHeight,
        otherwise: NodeWithHeight,
    ) -> Result<NodeWithHeight, Syntax> {
        let height = when.height.max(then.height).max(otherwise.height);
        let choice = Conditional {
            when: when.node,
            then: then.node,
            otherwise: otherwise.node,
        };
        self.node_above(height, ExpressionNode::Choice(Box::new(choice)))
    }

    fn binary(&mut self, left: NodeWithHeight, operator: Binary) -> Result<NodeWithHeight, Syntax> {
        let right = self.expression(operator.operands().1)?;
        if operator.level() == Binding::Comparison
            && let Some(next) = Infix::of(&self.next.token)
            && next.level() == Binding::Comparison
        {
            return Err(self.syntax(
                "comparisons do not chain: join them with `and`, or use parentheses".to_string(),
            ));
        }
        let height = left.height.max(right.height);
        let (left, right) = mark_words(operator, left.node, right.node);
        self.node_above(
            height,
            ExpressionNode::Binary(operator, Box::new([left, right])),
        )
    }

    /// Parses an operand: a name, a number, a text, `true`, `false`, a call or a parenthesized
    /// expression, possibly after `+`, `-`, `!` or `not`.
    fn operand(&mut self) -> Result<NodeWithHeight, Syntax> {
        let first = self.advance()?;
        match first.token {
            ExpressionToken::Number(number) => {
                Ok(NodeWithHeight::leaf(ExpressionNode::Number(number)))
            }
            ExpressionToken::Boolean(boolean) => {
                Ok(NodeWithHeight::leaf(ExpressionNode::Boolean(boolean)))
            }
            ExpressionToken::Text(text) => {
                Ok(NodeWithHeight::leaf(ExpressionNode::Text(text.into())))
            }
            ExpressionToken::Name(name) if self.next.token == ExpressionToken::Sign(Sign::Open) => {
                self.call(&name, first.column)
            }
            ExpressionToken::Name(name) => {
                Ok(NodeWithHeight::leaf(ExpressionNode::Name(name.into())))
            }
            ExpressionToken::Sign(Sign::Binary(Binary::Min)) => self.call("min", first.column),
            ExpressionToken::Sign(Sign::Binary(Binary::Max)) => self.call("max", first.column),
            ExpressionToken::Sign(Sign::Open) => {
                let inner = self.expression(Binding::Choice)?;
                self.expect(Sign::Close, "`)`")?;
                Ok(inner)
            }
            ExpressionToken::Sign(Sign::Binary(Binary::Add)) => self.expression(Binding::Unary),
            ExpressionToken::Sign(Sign::Binary(Binary::Subtract)) => {
                self.signed(Binding::Unary, ExpressionNode::Negative)
            }
            ExpressionToken::Sign(Sign::Bang) => self.signed(Binding::Unary, ExpressionNode::Not),
            ExpressionToken::Sign(Sign::Not) => self.signed(Binding::Not, ExpressionNode::Not),
            ExpressionToken::Sign(_) | ExpressionToken::End => {
                Err(unexpected(&first, "a name, a number or a text in quotes"))
            }
        }
    }

    fn signed(
        &mut self,
        level: Binding,
        node: fn(Box<ExpressionNode>) -> ExpressionNode,
    ) -> Result<NodeWithHeight, Syntax> {
        let inner = self.expression(level)?;
        self.node_above(inner.height, node(Box::new(inner.node)))
    }

    /// Parses a call of the function `name`, from the opening parenthesis on. `column` is the
    /// column of `name`.
    fn call(&mut self, name: &str, column: usize) -> Result<NodeWithHeight, Syntax> {
        let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let (_, function) = found.ok_or_else(|| Syntax {
            column,
            message: no_function(name),
        })?;
        self.expect(Sign::Open, "`(` and the arguments")?;
        let mut arguments = Vec::new();
        let mut height = 0;
        loop {
            let argument = self.expression(Binding::Choice)?;
            height = argument.height.max(height);
            arguments.push(argument.node);
            if self.next.token != ExpressionToken::Sign(Sign::Comma) {
                break;
            }
            self.advance()?;
        }
        self.expect(Sign::Close, "`,` or `)`")?;
        check_count(*function, arguments.len()).map_err(|message| Syntax { column, message })?;
        self.node_above(height, ExpressionNode::Call(*function, arguments))
    }

    /// Creates a node above its operands; `below` is the height of the highest operand. Refuses a
    /// tree higher than [`DEEPEST`].
    fn node_above(&self, below: usize, node: ExpressionNode) -> Result<NodeWithHeight, Syntax> {
        let height = below + 1;
        self.check_depth(height)?;
        Ok(NodeWithHeight { node, height })
    }

    fn check_depth(&self, depth: usize) -> Result<(), Syntax> {
        if depth <= DEEPEST {
            return Ok(());
        }
        Err(self.syntax(format!(
            "an expression may be nested at most {DEEPEST} levels deep"
        )))
    }

    /// Returns the next token and reads the token after it.
    fn advance(&mut self) -> Result<Placed<'t>, Syntax> {
        let next = self.tokens.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn expect(&mut self, sign: Sign, what: &str) -> Result<(), Syntax> {
        if self.next.token != ExpressionToken::Sign(sign) {
            return Err(unexpected(&self.next, what));
        }
        self.advance().map(|_| ())
    }

    fn syntax(&self, message: String) -> Syntax {
        Syntax {
            column: self.next.column,
            message,
        }
    }
}

fn unexpected(found: &Placed, wanted: &str) -> Syntax {
    let message = match found.token {
        ExpressionToken::End => format!("expected {wanted}, found the end"),
        _ => format!("expected {wanted}, found `{}`", found.text),
    };
    Syntax {
        column: found.column,
        message,
    }
}

/// Marks bare words where Qube allows a text without quotes: right of `eq`, `ne` and `has`, and on
/// both sides of `in`.
fn mark_words(
    operator: Binary,
    left: ExpressionNode,
    right: ExpressionNode,
) -> (ExpressionNode, ExpressionNode) {
    match operator {
        Binary::Equal | Binary::Unequal | Binary::Has => (left, word(right)),
        Binary::In => (word(left), word(right)),
        _ => (left, right),
    }
}

fn word(node: ExpressionNode) -> ExpressionNode {
    match node {
        ExpressionNode::Name(name) if !name.contains('.') => ExpressionNode::Word(name),
        node => node,
    }
}

fn no_function(name: &str) -> String {
    let known: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    format!("unknown function `{name}`; use one of: {}", known.join(" "))
}

fn check_count(function: Function, count: usize) -> Result<(), String> {
    let (fewest, most) = function.arity();
    if (fewest..=most).contains(&count) {
        return Ok(());
    }
    let plural = if fewest == 1 { "" } else { "s" };
    Err(format!(
        "`{}` takes {fewest} argument{plural}",
        function.name()
    ))
}
