//! The functions of pointwise ops and scalars.
//!
//! [`Function`] is the table: one row for each function, with its name, values and C++ texts. [`CASTS`] are the casts
//! that nvFuser prints. Programs store the newest spelling (`max`, `__to_float`), independent of the file's;
//! [`spelled_name`] converts it back.

pub mod complex;
mod integers;
mod inverse_error;
mod literals;
mod philox;
mod row;
mod scalar_value;
pub(crate) mod scalars;
mod table;
#[cfg(test)]
mod tests;

pub use literals::{literal_value, misfit_of_cast, misfit_of_element};
pub use row::{
    ComparisonForm, ComplexForm, ElementFunction, ExactForm, FieldOperation, FunctionCost, FunctionForm, FunctionRow,
    FunctionSpelling, HostForm, HostFunction, IntegerForm, NumberForm, RealForm, UnsignedForm,
};
pub use scalar_value::{ScalarValue, unsigned_of_real};
pub use table::Function;

use super::{CastSpelling, DType, Style};

impl Function {
    /// The function written as `text` with this many operands, if kernels compute it: an operator (`+`), a name with or
    /// without the `f` of float functions (`expf`), or a cast (`(float)`, `__to_float`, `__float2half`).
    pub fn parse(text: &str, operands: usize) -> Option<Function> {
        let without_f = || text.strip_suffix('f').and_then(|name| Function::computed(name, operands));
        Function::computed(text, operands)
            .or_else(without_f)
            .or_else(|| (operands == 1 && is_cast_text(text)).then_some(Function::Cast))
    }
    /// The function whose computation a name stands for.
    fn computed(name: &str, operands: usize) -> Option<Function> {
        let function = Function::with_exact_name(name, operands)?;
        match function.row().form {
            FunctionForm::SameAs(other) => Function::with_exact_name(other, operands),
            _ => function.row().is_computed().then_some(function),
        }
    }
    /// Its name in programs.
    pub fn name(self) -> &'static str {
        self.row().name
    }
    /// Returns true if the result is a truth value whatever the operands' type.
    pub fn is_predicate(self) -> bool {
        self.row().is_predicate()
    }
    /// Returns true if the function computes in the type of its operands, whatever the result's type: predicates, casts
    /// and `bit_cast`.
    pub fn computes_in_operand_type(self) -> bool {
        self.is_predicate() || self == Function::Cast || self == Function::BitCast
    }
    /// Returns true if operands must be integers or truth values.
    pub fn needs_integers(self) -> bool {
        self.row().needs_integers()
    }
}

/// The functions that programs can name, in the order of the table. `-` has one row for each number of operands.
pub fn listed_functions() -> impl Iterator<Item = &'static FunctionRow> + Clone {
    Function::ALL.iter().map(|function| function.row()).filter(|row| row.is_listed())
}

/// The names of functions that are not operators, as candidates for a misspelt one.
pub fn function_names() -> impl Iterator<Item = &'static str> + Clone {
    listed_functions().filter(|row| !row.is_operator()).map(|row| row.name)
}

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

/// Parts of cast names `__A2B` whose spelling is the same in all eras.
const NARROW: &[&str] = &["half", "bfloat", "e5m2", "e4m3", "e8m0", "e2m1"];
const WIDE: &[&str] = &["float", "double", "int32", "int", "uint32", "uint", "index", "bool", "half", "bfloat"];

/// Finds a function by its name in the newest spelling, with or without its `f`; operators by their symbol and
/// number of operands.
pub fn find_function(name: &str, arity: usize) -> Option<&'static FunctionRow> {
    let exact = Function::with_exact_name(name, arity).map(Function::row).filter(|row| row.is_listed());
    exact
        .or_else(|| listed_functions().find(|row| row.name == name))
        .or_else(|| {
            let plain = name.strip_suffix('f')?;
            listed_functions().find(|row| row.spelling == FunctionSpelling::Suffixed && row.name == plain)
        })
        .or_else(|| is_cast(name).then(|| Function::Cast.row()))
}

/// Returns true if a name is a cast in the newest spelling.
pub fn is_cast(name: &str) -> bool {
    CASTS.iter().any(|(new, _)| *new == name) || narrow_cast_types(name).is_some()
}

/// The element type to which a cast in the newest spelling converts.
pub fn cast_result(name: &str) -> Option<DType> {
    if !is_cast(name) {
        return None;
    }
    let plain = name.strip_prefix("__to_").or_else(|| name.strip_prefix("__real_then_to_"));
    let target = plain.or_else(|| narrow_cast_types(name).map(|[_, target]| target))?;
    Some(match target {
        "float" => DType::Float,
        "double" => DType::Double,
        "half" => DType::Half,
        "bfloat" => DType::BFloat16,
        "e4m3" => DType::Float8E4M3,
        "e5m2" => DType::Float8E5M2,
        "e8m0" => DType::Float8E8M0,
        "e2m1" => DType::Float4E2M1,
        "int8" => DType::Int8,
        "int16" => DType::Int16,
        "int32" => DType::Int32,
        "int64" | "int" => DType::Int,
        "uint8" => DType::UInt8,
        "uint16" => DType::UInt16,
        "uint32" => DType::UInt32,
        "uint64" | "uint" => DType::UInt64,
        "index" => DType::Index,
        "bool" => DType::Bool,
        "complex_float" => DType::ComplexFloat,
        "complex_double" => DType::ComplexDouble,
        _ => return None,
    })
}

/// Returns true if a function's text is a cast.
fn is_cast_text(text: &str) -> bool {
    let c_style = text.starts_with('(') && text.ends_with(')');
    // `std::real` of a real number is the number itself.
    let named =
        text.starts_with("__to_") || text.starts_with("__real_then_") || (text.starts_with("__") && text.contains('2'));
    c_style || named
}

/// The words of the operand's and of the result's type in `__float2half`, `__e4m32float`, `__real_then_2half`.
fn narrow_cast_types(name: &str) -> Option<[&str; 2]> {
    let rest = name.strip_prefix("__")?;
    let to_narrow = NARROW.iter().find_map(|narrow| {
        let from = rest.strip_suffix(narrow)?.strip_suffix('2')?;
        (from == "real_then_" || WIDE.contains(&from)).then_some([from, *narrow])
    });
    to_narrow.or_else(|| {
        NARROW.iter().find_map(|narrow| {
            let to = rest.strip_prefix(narrow)?.strip_prefix('2')?;
            (WIDE.contains(&to) || to.starts_with("complex_")).then_some([*narrow, to])
        })
    })
}

/// Converts a name from a style's spelling to the newest spelling.
pub fn canonical_name<'n>(name: &'n str, style: &Style) -> &'n str {
    match name {
        "std::fmax" => "fmax",
        "std::fmin" => "fmin",
        "fmax" if !style.short_max => "max",
        "fmin" if !style.short_max => "min",
        _ if name.starts_with('(') => CASTS.iter().find(|(_, old)| *old == name).map_or(name, |(new, _)| new),
        _ => name,
    }
}

/// Converts a name from the newest spelling to a style's spelling.
pub fn spelled_name<'n>(name: &'n str, style: &Style) -> &'n str {
    match name {
        "fmax" if style.std_fmax => "std::fmax",
        "fmin" if style.std_fmax => "std::fmin",
        "max" if !style.short_max => "fmax",
        "min" if !style.short_max => "fmin",
        _ if style.cast == CastSpelling::C && name.starts_with("__") => {
            CASTS.iter().find(|(new, _)| *new == name).map_or(name, |(_, old)| old)
        }
        _ => name,
    }
}
