//! Evaluation of expressions.
//!
//! An undefined operand makes the result undefined, with these exceptions: `and` is false if an
//! operand is false, `or` is true if an operand is true, and a conditional ignores the value that
//! it does not select. Invalid operations, such as a division by zero or the sum of a number and
//! the text `linux`, give an [`EvaluationFault`].

use super::node::{Conditional, ExpressionNode};
use super::operator::{Binary, Function};
use super::value::{ExpressionValue, NameScope};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// Kind of evaluation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvaluationFaultKind {
    /// Division or remainder by zero, or a negative power of zero.
    DivisionByZero,
    /// Result, or value of a name, that is not a finite number: `sqrt(-1)`, `10**400`.
    NotFinite,
    /// List, or text that is not a finite number, in place of a number.
    NotNumber,
    /// Text or list in place of a truth value.
    NotTruth,
    /// `<`, `<=`, `>` or `>=` with a list, or between a number or Boolean and a text that is not a
    /// number.
    NotOrdered,
    /// `in` or `has`: search for a list, or search in a value that is neither a list nor a text.
    NotList,
    /// Bit operation on a number that is not an integer, or is greater than 2^53 in absolute value.
    NotWhole,
}

/// Evaluation error, and the part of the expression that caused the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{wrong} in {part}")]
pub struct EvaluationFault {
    /// Kind of error.
    pub wrong: EvaluationFaultKind,
    /// Part of the expression, in canonical form.
    pub part: String,
}

impl fmt::Display for EvaluationFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            EvaluationFaultKind::DivisionByZero => "division by zero",
            EvaluationFaultKind::NotFinite => "a number that is not finite",
            EvaluationFaultKind::NotNumber => "text or a list instead of a number",
            EvaluationFaultKind::NotTruth => "text or a list instead of true or false",
            EvaluationFaultKind::NotOrdered => {
                "a list, or a number and a text, compared by `<`, `<=`, `>` or `>=`"
            }
            EvaluationFaultKind::NotList => {
                "a single value instead of a list, or a list instead of a single value"
            }
            EvaluationFaultKind::NotWhole => {
                "bit operation on a number that is not an integer or is too large"
            }
        })
    }
}

/// Returns the value of a node.
pub(super) fn evaluate<'a>(
    node: &'a ExpressionNode,
    scope: &'a dyn NameScope,
) -> Result<ExpressionValue<'a>, EvaluationFault> {
    match node {
        ExpressionNode::Number(number) => Ok(ExpressionValue::Number(*number)),
        ExpressionNode::Boolean(boolean) => Ok(ExpressionValue::Boolean(*boolean)),
        ExpressionNode::Text(text) => Ok(ExpressionValue::from(text.as_ref())),
        ExpressionNode::Name(name) => {
            known(name, scope, node).map(|value| value.unwrap_or(ExpressionValue::Undefined))
        }
        ExpressionNode::Word(word) => known(word, scope, node)
            .map(|value| value.unwrap_or(ExpressionValue::from(word.as_ref()))),
        ExpressionNode::All(parts) => logic(parts, false, scope),
        ExpressionNode::Any(parts) => logic(parts, true, scope),
        ExpressionNode::Not(inner) => Ok(truth(inner, scope)?
            .map_or(ExpressionValue::Undefined, |truth| {
                ExpressionValue::Boolean(!truth)
            })),
        ExpressionNode::Negative(inner) => Ok(number(inner, scope)?
            .map_or(ExpressionValue::Undefined, |number| {
                ExpressionValue::Number(-number)
            })),
        ExpressionNode::Choice(choice) => chosen(choice, scope),
        ExpressionNode::Binary(operator, operands) => {
            let [left, right] = operands.as_ref();
            let (left, right) = (evaluate(left, scope)?, evaluate(right, scope)?);
            if left == ExpressionValue::Undefined || right == ExpressionValue::Undefined {
                return Ok(ExpressionValue::Undefined);
            }
            apply(*operator, &left, &right).map_err(|wrong| fault(wrong, node))
        }
        ExpressionNode::Call(function, arguments) => call(*function, arguments, scope, node),
    }
}

/// Returns the value of a node as a number; None if the value is undefined.
pub(super) fn number(
    node: &ExpressionNode,
    scope: &dyn NameScope,
) -> Result<Option<f64>, EvaluationFault> {
    match evaluate(node, scope)? {
        ExpressionValue::Undefined => Ok(None),
        value => as_number(&value)
            .map(Some)
            .ok_or_else(|| fault(EvaluationFaultKind::NotNumber, node)),
    }
}

/// Returns the truth value of a node; None if the value is undefined. Numbers other than 0 are
/// true.
pub(super) fn truth(
    node: &ExpressionNode,
    scope: &dyn NameScope,
) -> Result<Option<bool>, EvaluationFault> {
    match evaluate(node, scope)? {
        ExpressionValue::Undefined => Ok(None),
        ExpressionValue::Boolean(boolean) => Ok(Some(boolean)),
        ExpressionValue::Number(number) => Ok(Some(number != 0.0)),
        ExpressionValue::Text(_) | ExpressionValue::List(_) => {
            Err(fault(EvaluationFaultKind::NotTruth, node))
        }
    }
}

fn fault(wrong: EvaluationFaultKind, node: &ExpressionNode) -> EvaluationFault {
    EvaluationFault {
        wrong,
        part: node.to_string(),
    }
}

fn known<'a>(
    name: &str,
    scope: &'a dyn NameScope,
    node: &ExpressionNode,
) -> Result<Option<ExpressionValue<'a>>, EvaluationFault> {
    match scope.value(name) {
        Some(ExpressionValue::Number(number)) if !number.is_finite() => {
            Err(fault(EvaluationFaultKind::NotFinite, node))
        }
        value => Ok(value),
    }
}

/// Evaluates parts joined by `and` (`decided` is false) or `or` (`decided` is true). The first part
/// equal to `decided` ends the evaluation and is the result. Without such a part, the result is
/// undefined if at least one part is undefined.
fn logic(
    parts: &[ExpressionNode],
    decided: bool,
    scope: &dyn NameScope,
) -> Result<ExpressionValue<'static>, EvaluationFault> {
    let mut has_undefined = false;
    for part in parts {
        match truth(part, scope)? {
            Some(truth) if truth == decided => return Ok(ExpressionValue::Boolean(decided)),
            Some(_) => {}
            None => has_undefined = true,
        }
    }
    Ok(if has_undefined {
        ExpressionValue::Undefined
    } else {
        ExpressionValue::Boolean(!decided)
    })
}

fn chosen<'a>(
    choice: &'a Conditional,
    scope: &'a dyn NameScope,
) -> Result<ExpressionValue<'a>, EvaluationFault> {
    match truth(&choice.when, scope)? {
        Some(true) => evaluate(&choice.then, scope),
        Some(false) => evaluate(&choice.otherwise, scope),
        None => Ok(ExpressionValue::Undefined),
    }
}

/// Converts a value to a number. A text is converted if it parses as a finite number. None if the
/// value cannot be converted.
fn as_number(value: &ExpressionValue) -> Option<f64> {
    match value {
        ExpressionValue::Number(number) => Some(*number),
        ExpressionValue::Boolean(boolean) => Some(f64::from(u8::from(*boolean))),
        ExpressionValue::Text(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite()),
        ExpressionValue::List(_) | ExpressionValue::Undefined => None,
    }
}

/// Applies an operator to two defined values.
fn apply(
    operator: Binary,
    left: &ExpressionValue,
    right: &ExpressionValue,
) -> Result<ExpressionValue<'static>, EvaluationFaultKind> {
    let is_true = match operator {
        Binary::Equal => equal(left, right),
        Binary::Unequal => !equal(left, right),
        Binary::Less => order(left, right)?.is_lt(),
        Binary::LessOrEqual => order(left, right)?.is_le(),
        Binary::Greater => order(left, right)?.is_gt(),
        Binary::GreaterOrEqual => order(left, right)?.is_ge(),
        Binary::In => contains(right, left)?,
        Binary::Has => contains(left, right)?,
        _ => {
            let numbers = as_number(left).zip(as_number(right));
            let (left, right) = numbers.ok_or(EvaluationFaultKind::NotNumber)?;
            let number = finite(compute(operator, left, right)?)?;
            return Ok(ExpressionValue::Number(number));
        }
    };
    Ok(ExpressionValue::Boolean(is_true))
}

fn compute(operator: Binary, left: f64, right: f64) -> Result<f64, EvaluationFaultKind> {
    match operator {
        Binary::Add => Ok(left + right),
        Binary::Subtract => Ok(left - right),
        Binary::Multiply => Ok(left * right),
        Binary::Divide | Binary::Remainder if right == 0.0 => {
            Err(EvaluationFaultKind::DivisionByZero)
        }
        Binary::Divide => Ok(left / right),
        Binary::Remainder => Ok(remainder(left, right)),
        Binary::Power if left == 0.0 && right < 0.0 => Err(EvaluationFaultKind::DivisionByZero),
        Binary::Power => Ok(left.powf(right)),
        Binary::Min => Ok(left.min(right)),
        Binary::Max => Ok(left.max(right)),
        _ => bits(operator, whole(left)?, whole(right)?),
    }
}

/// Returns the remainder with the sign of the right operand, as in Perl and Python, the languages
/// of the formulas of Qube and PBS.
fn remainder(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest * right < 0.0 {
        rest + right
    } else {
        rest
    }
}

fn bits(operator: Binary, left: i64, right: i64) -> Result<f64, EvaluationFaultKind> {
    let power = i32::try_from(right).map(|places| 2f64.powi(places));
    let power = power.map_err(|_| EvaluationFaultKind::NotFinite);
    match operator {
        Binary::BitAnd => Ok((left & right) as f64),
        Binary::BitOr => Ok((left | right) as f64),
        Binary::BitXor => Ok((left ^ right) as f64),
        // A shift multiplies or divides by a power of two and rounds down. The result has no fixed
        // width, so no upper bits are lost.
        Binary::ShiftLeft => Ok((left as f64 * power?).floor()),
        _ => Ok((left as f64 / power?).floor()),
    }
}

fn whole(number: f64) -> Result<i64, EvaluationFaultKind> {
    let is_exact = number.fract() == 0.0 && number.abs() <= (1i64 << 53) as f64;
    is_exact
        .then_some(number as i64)
        .ok_or(EvaluationFaultKind::NotWhole)
}

fn finite(number: f64) -> Result<f64, EvaluationFaultKind> {
    number
        .is_finite()
        .then_some(number)
        .ok_or(EvaluationFaultKind::NotFinite)
}

/// Tests whether two values are equal. Two texts, or two lists, are compared as they are. A list
/// equals a text of the same parts, separated by commas. A Boolean equals the text `true` or
/// `false`, in upper or lower case. All other values must convert to the same number.
fn equal(left: &ExpressionValue, right: &ExpressionValue) -> bool {
    match (left, right) {
        (ExpressionValue::Text(left), ExpressionValue::Text(right)) => left == right,
        (ExpressionValue::List(left), ExpressionValue::List(right)) => left == right,
        (ExpressionValue::List(list), ExpressionValue::Text(text))
        | (ExpressionValue::Text(text), ExpressionValue::List(list)) => {
            parts(text).eq(list.iter().map(String::as_str))
        }
        (ExpressionValue::Boolean(boolean), ExpressionValue::Text(text))
        | (ExpressionValue::Text(text), ExpressionValue::Boolean(boolean)) => {
            text.eq_ignore_ascii_case(if *boolean { "true" } else { "false" })
        }
        _ => as_number(left).is_some_and(|left| as_number(right) == Some(left)),
    }
}

fn order(left: &ExpressionValue, right: &ExpressionValue) -> Result<Ordering, EvaluationFaultKind> {
    if let (ExpressionValue::Text(left), ExpressionValue::Text(right)) = (left, right) {
        return Ok(left.cmp(right));
    }
    let numbers = as_number(left).zip(as_number(right));
    numbers
        .and_then(|(left, right)| left.partial_cmp(&right))
        .ok_or(EvaluationFaultKind::NotOrdered)
}

fn contains(list: &ExpressionValue, sought: &ExpressionValue) -> Result<bool, EvaluationFaultKind> {
    match list {
        _ if matches!(sought, ExpressionValue::List(_)) => Err(EvaluationFaultKind::NotList),
        ExpressionValue::List(list) => Ok(list
            .iter()
            .any(|part| equal(&ExpressionValue::from(part.as_str()), sought))),
        ExpressionValue::Text(text) => {
            Ok(parts(text).any(|part| equal(&ExpressionValue::from(part), sought)))
        }
        _ => Err(EvaluationFaultKind::NotList),
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

fn call<'a>(
    function: Function,
    arguments: &[ExpressionNode],
    scope: &dyn NameScope,
    node: &ExpressionNode,
) -> Result<ExpressionValue<'a>, EvaluationFault> {
    let mut result: Option<f64> = None;
    for argument in arguments {
        let Some(number) = number(argument, scope)? else {
            return Ok(ExpressionValue::Undefined);
        };
        result = Some(match (result, function) {
            (None, _) => number,
            (Some(so_far), Function::Min) => so_far.min(number),
            (Some(so_far), Function::Max) => so_far.max(number),
            (Some(base), _) => {
                compute(Binary::Power, base, number).map_err(|wrong| fault(wrong, node))?
            }
        });
    }
    let result = finite(apply_function(function, result.unwrap_or_default()));
    result
        .map(ExpressionValue::Number)
        .map_err(|wrong| fault(wrong, node))
}

/// Applies a function of one argument. For `max`, `min` and `pow`, `number` is already the result.
fn apply_function(function: Function, number: f64) -> f64 {
    match function {
        Function::Abs => number.abs(),
        Function::Ceil => number.ceil(),
        Function::Exp => number.exp(),
        Function::Floor => number.floor(),
        Function::Log => number.ln(),
        Function::Log10 => number.log10(),
        Function::Log2 => number.log2(),
        Function::Max | Function::Min | Function::Pow => number,
        Function::Round => number.round(),
        Function::Sqrt => number.sqrt(),
        Function::Trunc => number.trunc(),
    }
}
