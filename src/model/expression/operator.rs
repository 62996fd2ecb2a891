//! Operators and functions: spellings and precedence.

/// Precedence of operators, the loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binding {
    /// `c ? a : b`, `a if c else b`
    Choice,
    /// `or`
    Or,
    /// `and`
    And,
    /// The word `not`; the sign `!` has the precedence [`Binding::Unary`].
    Not,
    /// `== != < <= > >= in has`, which cannot be chained.
    Comparison,
    /// `min max` as infix operators.
    Extreme,
    /// `|`
    BitOr,
    /// `xor`
    BitXor,
    /// `&`
    BitAnd,
    /// `<< >>`
    Shift,
    /// `+ -`
    Sum,
    /// `* / %`
    Product,
    /// `-x !x`
    Unary,
    /// `**`, right-associative; the right operand may have a sign.
    Power,
    /// Names, numbers, texts, calls, parentheses.
    Atom,
}

impl Binding {
    /// Returns the next tighter precedence.
    pub fn tighter(self) -> Binding {
        match self {
            Binding::Choice => Binding::Or,
            Binding::Or => Binding::And,
            Binding::And => Binding::Not,
            Binding::Not => Binding::Comparison,
            Binding::Comparison => Binding::Extreme,
            Binding::Extreme => Binding::BitOr,
            Binding::BitOr => Binding::BitXor,
            Binding::BitXor => Binding::BitAnd,
            Binding::BitAnd => Binding::Shift,
            Binding::Shift => Binding::Sum,
            Binding::Sum => Binding::Product,
            Binding::Product => Binding::Unary,
            Binding::Unary => Binding::Power,
            Binding::Power | Binding::Atom => Binding::Atom,
        }
    }
}

/// Infix operator other than `and` and `or`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Has,
    Min,
    Max,
    BitOr,
    BitXor,
    BitAnd,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
}

/// Sign or word of the operator syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Binary(Binary),
    And,
    Or,
    /// `not`
    Not,
    /// `!`
    Bang,
    If,
    Else,
    Question,
    Colon,
    Comma,
    Open,
    Close,
}

/// Signs; longer signs precede their prefixes.
pub(super) const SYMBOLS: &[(&str, Sign)] = &[
    ("==", Sign::Binary(Binary::Equal)),
    ("=", Sign::Binary(Binary::Equal)),
    ("!=", Sign::Binary(Binary::Unequal)),
    ("<>", Sign::Binary(Binary::Unequal)),
    ("<<", Sign::Binary(Binary::ShiftLeft)),
    (">>", Sign::Binary(Binary::ShiftRight)),
    ("<=", Sign::Binary(Binary::LessOrEqual)),
    (">=", Sign::Binary(Binary::GreaterOrEqual)),
    ("<", Sign::Binary(Binary::Less)),
    (">", Sign::Binary(Binary::Greater)),
    ("&&", Sign::And),
    ("&", Sign::Binary(Binary::BitAnd)),
    ("||", Sign::Or),
    ("|", Sign::Binary(Binary::BitOr)),
    ("^", Sign::Binary(Binary::BitXor)),
    ("**", Sign::Binary(Binary::Power)),
    ("*", Sign::Binary(Binary::Multiply)),
    ("/", Sign::Binary(Binary::Divide)),
    ("%", Sign::Binary(Binary::Remainder)),
    ("+", Sign::Binary(Binary::Add)),
    ("-", Sign::Binary(Binary::Subtract)),
    ("!", Sign::Bang),
    ("?", Sign::Question),
    (":", Sign::Colon),
    (",", Sign::Comma),
    ("(", Sign::Open),
    (")", Sign::Close),
];

/// Words that are operators unless they are part of a name (Q20). Unlike signs such as `<`, they
/// need no quotes in a shell.
pub(super) const WORDS: &[(&str, Sign)] = &[
    ("eq", Sign::Binary(Binary::Equal)),
    ("ne", Sign::Binary(Binary::Unequal)),
    ("lt", Sign::Binary(Binary::Less)),
    ("le", Sign::Binary(Binary::LessOrEqual)),
    ("gt", Sign::Binary(Binary::Greater)),
    ("ge", Sign::Binary(Binary::GreaterOrEqual)),
    ("in", Sign::Binary(Binary::In)),
    ("has", Sign::Binary(Binary::Has)),
    ("min", Sign::Binary(Binary::Min)),
    ("max", Sign::Binary(Binary::Max)),
    ("xor", Sign::Binary(Binary::BitXor)),
    ("ls", Sign::Binary(Binary::ShiftLeft)),
    ("rs", Sign::Binary(Binary::ShiftRight)),
    ("add", Sign::Binary(Binary::Add)),
    ("sub", Sign::Binary(Binary::Subtract)),
    ("mul", Sign::Binary(Binary::Multiply)),
    ("div", Sign::Binary(Binary::Divide)),
    ("mod", Sign::Binary(Binary::Remainder)),
    ("and", Sign::And),
    ("or", Sign::Or),
    ("not", Sign::Not),
    ("if", Sign::If),
    ("else", Sign::Else),
];

impl Binary {
    /// Returns the precedence.
    pub fn level(self) -> Binding {
        match self {
            Binary::Equal | Binary::Unequal | Binary::In | Binary::Has => Binding::Comparison,
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => {
                Binding::Comparison
            }
            Binary::Min | Binary::Max => Binding::Extreme,
            Binary::BitOr => Binding::BitOr,
            Binary::BitXor => Binding::BitXor,
            Binary::BitAnd => Binding::BitAnd,
            Binary::ShiftLeft | Binary::ShiftRight => Binding::Shift,
            Binary::Add | Binary::Subtract => Binding::Sum,
            Binary::Multiply | Binary::Divide | Binary::Remainder => Binding::Product,
            Binary::Power => Binding::Power,
        }
    }

    /// For the left and for the right operand, returns the loosest precedence that needs no
    /// parentheses.
    pub fn operands(self) -> (Binding, Binding) {
        match self.level() {
            Binding::Power => (Binding::Atom, Binding::Unary),
            Binding::Comparison => (Binding::Extreme, Binding::Extreme),
            level => (level, level.tighter()),
        }
    }

    /// Returns the canonical spelling with the necessary blanks.
    pub fn shown(self) -> &'static str {
        match self {
            Binary::Equal => "==",
            Binary::Unequal => "!=",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
            Binary::In => " in ",
            Binary::Has => " has ",
            Binary::Min => " min ",
            Binary::Max => " max ",
            Binary::BitOr => "|",
            Binary::BitXor => " xor ",
            Binary::BitAnd => "&",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::Power => "**",
        }
    }
}

/// Function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Abs,
    Ceil,
    Exp,
    Floor,
    Log,
    Log10,
    Log2,
    Max,
    Min,
    Pow,
    Round,
    Sqrt,
    Trunc,
}

/// All functions with their names.
pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("abs", Function::Abs),
    ("ceil", Function::Ceil),
    ("exp", Function::Exp),
    ("floor", Function::Floor),
    ("log", Function::Log),
    ("log10", Function::Log10),
    ("log2", Function::Log2),
    ("max", Function::Max),
    ("min", Function::Min),
    ("pow", Function::Pow),
    ("round", Function::Round),
    ("sqrt", Function::Sqrt),
    ("trunc", Function::Trunc),
];

impl Function {
    /// Returns the minimum and maximum number of arguments.
    pub fn arity(self) -> (usize, usize) {
        match self {
            Function::Min | Function::Max => (1, usize::MAX),
            Function::Pow => (2, 2),
            _ => (1, 1),
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        FUNCTIONS
            .iter()
            .find(|(_, function)| *function == self)
            .map_or("", |(name, _)| name)
    }
}
