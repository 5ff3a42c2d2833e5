//! Functions of pointwise ops: their names in the text and how many operands they take.

/// Declares [`Function`] with the spellings and the number of operands of each.
macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident($arity:literal) = $($text:literal)|+,)*) => {
        /// A pointwise function.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Function { $($(#[$doc])* $variant,)* }
        impl Function {
            /// All functions.
            pub const ALL: &'static [Function] = &[$(Function::$variant,)*];
            /// The function of an operator or name (without the `f` of float functions).
            fn exact(text: &str, operands: usize) -> Option<Function> {
                match (text, operands) {
                    $($(($text, $arity))|+ => Some(Function::$variant),)*
                    _ => None,
                }
            }
            /// Its usual name.
            pub fn name(self) -> &'static str {
                match self { $(Function::$variant => functions!(@first $($text),+),)* }
            }
        }
    };
    (@first $first:literal $(, $rest:literal)*) => { $first };
}

functions! {
    /// The operand itself.
    Identity(1) = "set",
    /// The operand in the result's type.
    Cast(1) = "cast",
    /// `-a`
    Neg(1) = "-" | "neg",
    /// `!a`
    Not(1) = "!" | "logical_not",
    /// `~a`
    BitNot(1) = "~" | "bitwise_not",
    /// `a + b`
    Add(2) = "+" | "add",
    /// `a - b`
    Sub(2) = "-" | "sub",
    /// `a * b`
    Mul(2) = "*" | "mul",
    /// `a / b`; integers truncate.
    Div(2) = "/" | "div",
    /// `a % b` with the sign of `a`.
    Mod(2) = "%" | "mod" | "fmod",
    /// `a - b * floor(a / b)`: what `a % b` leaves, with the sign of `b`.
    Remainder(2) = "remainder",
    /// `a << b`
    Shl(2) = "<<" | "lshift",
    /// `a >> b`
    Shr(2) = ">>" | "rshift",
    /// `a == b`
    Eq(2) = "==" | "equal",
    /// `a != b`
    Ne(2) = "!=" | "notEqual",
    /// `a >= b`
    Ge(2) = ">=" | "greaterThanOrEqual",
    /// `a > b`
    Gt(2) = ">" | "greaterThan",
    /// `a <= b`
    Le(2) = "<=" | "lessThanOrEqual",
    /// `a < b`
    Lt(2) = "<" | "lessThan",
    /// `a && b`
    And(2) = "&&" | "logical_and",
    /// `a || b`
    Or(2) = "||" | "logical_or",
    /// `a & b`
    BitAnd(2) = "&" | "bitwise_and",
    /// `a | b`
    BitOr(2) = "|" | "bitwise_or",
    /// `a ^ b`
    BitXor(2) = "^" | "bitwise_xor",
    /// The larger; NaN if either is NaN.
    Max(2) = "max",
    /// The smaller; NaN if either is NaN.
    Min(2) = "min",
    /// The larger; ignores a single NaN.
    FMax(2) = "fmax",
    /// The smaller; ignores a single NaN.
    FMin(2) = "fmin",
    /// `atan2(a, b)`
    Atan2(2) = "atan2",
    /// `a` to the power of `b`; of integers exact, wrapping, and 0 for negative `b` unless `a` is 1 or -1.
    Pow(2) = "pow",
    /// `(a + b - 1) / b`: rounded up for positive `b`.
    CeilDiv(2) = "ceilDiv",
    /// Greatest common divisor.
    Gcd(2) = "gcd",
    /// `|a|`
    Abs(1) = "abs",
    /// Arc cosine.
    Acos(1) = "acos",
    /// Inverse hyperbolic cosine.
    Acosh(1) = "acosh",
    /// Arc sine.
    Asin(1) = "asin",
    /// Inverse hyperbolic sine.
    Asinh(1) = "asinh",
    /// Arc tangent.
    Atan(1) = "atan",
    /// Inverse hyperbolic tangent.
    Atanh(1) = "atanh",
    /// Rounds up.
    Ceil(1) = "ceil",
    /// Cosine.
    Cos(1) = "cos",
    /// Hyperbolic cosine.
    Cosh(1) = "cosh",
    /// e to the power of a.
    Exp(1) = "exp",
    /// 2 to the power of a.
    Exp2(1) = "exp2",
    /// `exp(a) - 1`
    Expm1(1) = "expm1",
    /// Error function.
    Erf(1) = "erf",
    /// `1 - erf(a)`
    Erfc(1) = "erfc",
    /// Rounds down.
    Floor(1) = "floor",
    /// `a - trunc(a)`
    Frac(1) = "frac",
    /// `a * sigmoid(a)`
    Silu(1) = "silu",
    /// Logarithm of the absolute value of the gamma function.
    Lgamma(1) = "lgamma",
    /// Natural logarithm.
    Log(1) = "log",
    /// Decimal logarithm.
    Log10(1) = "log10",
    /// `log(1 + a)`
    Log1p(1) = "log1p",
    /// Binary logarithm.
    Log2(1) = "log2",
    /// Rounds to the nearest integer, ties to even.
    Round(1) = "nearbyint" | "round",
    /// `1 / (1 + exp(-a))`
    Sigmoid(1) = "sigmoid",
    /// True where the sign bit of a is set.
    Signbit(1) = "signbit",
    /// Sine.
    Sin(1) = "sin",
    /// Hyperbolic sine.
    Sinh(1) = "sinh",
    /// Square root.
    Sqrt(1) = "sqrt",
    /// `1 / sqrt(a)`
    Rsqrt(1) = "rsqrt",
    /// `1 / a`
    Reciprocal(1) = "reciprocal",
    /// `max(a, 0)`
    Relu(1) = "relu",
    /// Tangent.
    Tan(1) = "tan",
    /// Hyperbolic tangent.
    Tanh(1) = "tanh",
    /// Rounds towards zero.
    Trunc(1) = "trunc",
    /// True where a is finite.
    IsFinite(1) = "isfinite",
    /// True where a is infinite.
    IsInf(1) = "isinf",
    /// True where a is not a number.
    IsNan(1) = "isnan",
    /// True where a is minus infinity.
    IsNegInf(1) = "isneginf",
    /// True where a is plus infinity.
    IsPosInf(1) = "isposinf",
    /// True where a is real, which is everywhere.
    IsReal(1) = "isreal",
    /// `min(max(a, low), high)`
    Clamp(3) = "clamp",
    /// `start + weight * (end - start)`, from the end on where the weight is a half or more.
    Lerp(3) = "lerp",
    /// `a <= threshold ? value : a`
    Threshold(3) = "threshold",
    /// `condition ? a : b`
    Where(3) = "where",
}

impl Function {
    /// The function written as `text` with this many operands: an operator (`+`), a name with or
    /// without the `f` of float functions (`expf`), or a cast (`(float)`, `__to_float`,
    /// `__float2half`).
    pub fn parse(text: &str, operands: usize) -> Option<Function> {
        let without_f = || text.strip_suffix('f').and_then(|name| Function::exact(name, operands));
        Function::exact(text, operands)
            .or_else(without_f)
            .or_else(|| (operands == 1 && is_cast(text)).then_some(Function::Cast))
    }
    /// Whether the result is a truth value whatever the operands' type.
    pub fn is_predicate(self) -> bool {
        matches!(
            self,
            Function::Not
                | Function::Eq
                | Function::Ne
                | Function::Ge
                | Function::Gt
                | Function::Le
                | Function::Lt
                | Function::And
                | Function::Or
                | Function::Signbit
                | Function::IsFinite
                | Function::IsInf
                | Function::IsNan
                | Function::IsNegInf
                | Function::IsPosInf
                | Function::IsReal
        )
    }
    /// Returns true if the function returns an integer operand unchanged, or one of its integer operands.
    pub(crate) fn is_rounding(self) -> bool {
        matches!(
            self,
            Function::Ceil
                | Function::Floor
                | Function::Round
                | Function::Trunc
                | Function::Relu
                | Function::Clamp
                | Function::Threshold
        )
    }
    /// Returns true if operands must be integers or truth values.
    pub fn needs_integers(self) -> bool {
        matches!(
            self,
            Function::BitNot
                | Function::Shl
                | Function::Shr
                | Function::BitAnd
                | Function::BitOr
                | Function::BitXor
                | Function::Gcd
                | Function::CeilDiv
        )
    }
}

/// Whether a function's text is a cast between real types.
fn is_cast(text: &str) -> bool {
    let real = !text.contains("complex");
    let c_style = text.starts_with('(') && text.ends_with(')');
    // Of a real, `std::real` is the number itself.
    let named =
        text.starts_with("__to_") || text.starts_with("__real_then_") || (text.starts_with("__") && text.contains('2'));
    real && (c_style || named)
}
