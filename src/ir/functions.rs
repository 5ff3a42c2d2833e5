//! The functions of pointwise ops and scalars.
//!
//! [`FUNCTIONS`] and [`CASTS`] are the functions that nvFuser prints. Programs store the newest spelling
//! (`max`, `__to_float`), independent of the file's; [`spelled_name`] converts it back.

use super::{CastSpelling, Style};

/// A function of scalars.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointwiseFunction {
    /// The name, such as `exp`; for operators, the symbol.
    pub name: &'static str,
    /// Number of operands.
    pub arity: usize,
    /// True if the name ends in `f` when the result is a `float`.
    pub suffix: bool,
    /// True if the function is written as an operator.
    pub operator: bool,
}

const fn named_function(name: &'static str, arity: usize) -> PointwiseFunction {
    PointwiseFunction { name, arity, suffix: false, operator: false }
}
const fn suffixed_function(name: &'static str, arity: usize) -> PointwiseFunction {
    PointwiseFunction { name, arity, suffix: true, operator: false }
}
const fn operator_function(name: &'static str, arity: usize) -> PointwiseFunction {
    PointwiseFunction { name, arity, suffix: false, operator: true }
}

/// All functions but casts. `-` has one entry for each number of operands.
pub static FUNCTIONS: &[PointwiseFunction] = &[
    operator_function("-", 1),
    operator_function("!", 1),
    operator_function("~", 1),
    operator_function("+", 2),
    operator_function("-", 2),
    operator_function("*", 2),
    operator_function("/", 2),
    operator_function("%", 2),
    operator_function("<<", 2),
    operator_function(">>", 2),
    operator_function("==", 2),
    operator_function("!=", 2),
    operator_function(">=", 2),
    operator_function(">", 2),
    operator_function("<=", 2),
    operator_function("<", 2),
    operator_function("&&", 2),
    operator_function("||", 2),
    operator_function("&", 2),
    operator_function("|", 2),
    operator_function("^", 2),
    named_function("bit_cast", 1),
    named_function("abs", 1),
    suffixed_function("acos", 1),
    suffixed_function("acosh", 1),
    suffixed_function("asin", 1),
    suffixed_function("asinh", 1),
    suffixed_function("atan", 1),
    suffixed_function("atanh", 1),
    suffixed_function("ceil", 1),
    suffixed_function("cos", 1),
    suffixed_function("cosh", 1),
    suffixed_function("exp", 1),
    suffixed_function("exp2", 1),
    suffixed_function("expm1", 1),
    suffixed_function("erf", 1),
    suffixed_function("erfc", 1),
    suffixed_function("erfinv", 1),
    suffixed_function("erfcinv", 1),
    suffixed_function("floor", 1),
    named_function("frac", 1),
    named_function("std::imag", 1),
    named_function("silu", 1),
    suffixed_function("lgamma", 1),
    suffixed_function("log", 1),
    suffixed_function("log10", 1),
    suffixed_function("log1p", 1),
    suffixed_function("log2", 1),
    named_function("std::real", 1),
    named_function("reciprocal", 1),
    named_function("relu", 1),
    suffixed_function("rsqrt", 1),
    suffixed_function("nearbyint", 1),
    named_function("sigmoid", 1),
    suffixed_function("signbit", 1),
    suffixed_function("sin", 1),
    suffixed_function("sinh", 1),
    suffixed_function("sqrt", 1),
    suffixed_function("tan", 1),
    suffixed_function("tanh", 1),
    suffixed_function("trunc", 1),
    suffixed_function("bit_ceil", 1),
    named_function("print", 1),
    named_function("isfinite", 1),
    named_function("isinf", 1),
    named_function("isnan", 1),
    named_function("isneginf", 1),
    named_function("isposinf", 1),
    named_function("isreal", 1),
    suffixed_function("atan2", 2),
    suffixed_function("fmod", 2),
    named_function("max", 2),
    named_function("min", 2),
    named_function("fmax", 2),
    named_function("fmin", 2),
    named_function("nextafter", 2),
    named_function("pow", 2),
    named_function("remainder", 2),
    named_function("ceilDiv", 2),
    named_function("gcd", 2),
    named_function("std::complex", 2),
    named_function("clamp", 3),
    named_function("lerp", 3),
    named_function("threshold", 3),
    named_function("where", 3),
];

/// Casts whose spelling changed: pairs of the newer and the older spelling.
pub static CASTS: &[(&str, &str)] = &[
    ("__to_float", "(float)"),
    ("__to_double", "(double)"),
    ("__to_bool", "(bool)"),
    ("__to_int8", "(int8_t)"),
    ("__to_int16", "(int16_t)"),
    ("__to_int32", "(int32_t)"),
    ("__to_int64", "(int64_t)"),
    ("__to_uint8", "(uint8_t)"),
    ("__to_uint16", "(uint16_t)"),
    ("__to_uint32", "(uint32_t)"),
    ("__to_uint64", "(uint64_t)"),
    ("__to_index", "(nvfuser_index_t)"),
    ("__real_then_to_float", "(float)std::real"),
    ("__real_then_to_double", "(double)std::real"),
    ("__real_then_to_bool", "(bool)std::real"),
    ("__real_then_to_int8", "(int8_t)std::real"),
    ("__real_then_to_int16", "(int16_t)std::real"),
    ("__real_then_to_int32", "(int32_t)std::real"),
    ("__real_then_to_int64", "(int64_t)std::real"),
    ("__real_then_to_uint8", "(uint8_t)std::real"),
    ("__real_then_to_uint16", "(uint16_t)std::real"),
    ("__real_then_to_uint32", "(uint32_t)std::real"),
    ("__real_then_to_uint64", "(uint64_t)std::real"),
    ("__real_then_to_index", "(nvfuser_index_t)std::real"),
    ("__to_complex_float", "(std::complex<float>)"),
    ("__to_complex_double", "(std::complex<double>)"),
    ("__half2complex_float", "(std::complex<float>)__half2float"),
    ("__half2complex_double", "(std::complex<double>)__half2double"),
    ("__bfloat2complex_float", "(std::complex<float>)__bfloat2float"),
    ("__bfloat2complex_double", "(std::complex<double>)__bfloat2double"),
];

static CAST: PointwiseFunction = named_function("cast", 1);

/// Parts of cast names `__A2B` whose spelling is the same in all eras.
const NARROW: &[&str] = &["half", "bfloat", "e5m2", "e4m3", "e8m0", "e2m1"];
const WIDE: &[&str] = &["float", "double", "int32", "int", "uint32", "uint", "index", "bool", "half", "bfloat"];

/// Finds a function by its name in the newest spelling, with or without its `f`; operators by their symbol and
/// number of operands.
pub fn find_function(name: &str, arity: usize) -> Option<&'static PointwiseFunction> {
    let found = FUNCTIONS
        .iter()
        .find(|f| f.name == name && f.arity == arity)
        .or_else(|| FUNCTIONS.iter().find(|f| f.name == name))
        .or_else(|| FUNCTIONS.iter().find(|f| f.suffix && name.strip_suffix('f') == Some(f.name)));
    found.or_else(|| is_cast(name).then_some(&CAST))
}

/// Whether a name is a cast in the newest spelling.
pub fn is_cast(name: &str) -> bool {
    CASTS.iter().any(|(new, _)| *new == name) || is_narrow_cast(name)
}

/// `__float2half`, `__e4m32float`, `__real_then_2half`.
fn is_narrow_cast(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("__") else { return false };
    let to_narrow = NARROW.iter().any(|narrow| {
        let from = rest.strip_suffix(narrow).and_then(|from| from.strip_suffix('2'));
        from.is_some_and(|from| from == "real_then_" || WIDE.contains(&from))
    });
    let from_narrow = NARROW.iter().any(|narrow| {
        let to = rest.strip_prefix(narrow).and_then(|to| to.strip_prefix('2'));
        to.is_some_and(|to| WIDE.contains(&to))
    });
    to_narrow || from_narrow
}

/// Converts a name from a style's spelling to the newest spelling.
pub fn canonical_name<'n>(name: &'n str, style: &Style) -> &'n str {
    match name {
        "fmax" if !style.short_max => "max",
        "fmin" if !style.short_max => "min",
        _ if name.starts_with('(') => CASTS.iter().find(|(_, old)| *old == name).map_or(name, |(new, _)| new),
        _ => name,
    }
}

/// Converts a name from the newest spelling to a style's spelling.
pub fn spelled_name<'n>(name: &'n str, style: &Style) -> &'n str {
    match name {
        "max" if !style.short_max => "fmax",
        "min" if !style.short_max => "fmin",
        _ if style.cast == CastSpelling::C && name.starts_with("__") => {
            CASTS.iter().find(|(new, _)| *new == name).map_or(name, |(_, old)| old)
        }
        _ => name,
    }
}
