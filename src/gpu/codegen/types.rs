//! Element types in memory and in computations, as on the CPU backend: `double` computes in double; `float` and the
//! narrower floats in float; integers and `bool` in 64 bits.

use crate::unsupported::Unsupported;
pub(crate) use hostir::backend::class::ComputeClass;
use hostir::ir::DType;
use hostir::plan::ScalarValue;

/// A C++ expression and what it computes in.
///
/// A value in a computation. If its memory type is a float narrower than `float`, the text of its memory form may be
/// known as well, which saves a conversion at the store.
#[derive(Clone, Debug)]
pub(crate) struct TypedExpr {
    /// The type of the expression.
    pub(super) class: ComputeClass,
    /// The expression: a name, a literal, a call, or an expression in parentheses.
    pub(super) text: String,
    /// The same value as an element in memory of a type narrower than `float`, if it is one.
    pub(super) raw: Option<(DType, String)>,
}

/// The class of a type; an error with the reason for types that kernels do not compute with.
pub(crate) fn compute_class(dtype: DType) -> Result<ComputeClass, Unsupported> {
    hostir::backend::class::compute_class(dtype).ok_or(Unsupported::Arithmetic(dtype))
}

/// The C++ type of an element in memory.
pub(super) fn storage_ctype(dtype: DType) -> Result<&'static str, Unsupported> {
    Ok(match (compute_class(dtype)?, dtype) {
        (ComputeClass::F64, _) => "double",
        (ComputeClass::F32, DType::Float) => "float",
        (ComputeClass::F32, DType::Half | DType::BFloat16) => "unsigned short",
        (ComputeClass::F32, _) => "unsigned char",
        (ComputeClass::I64, DType::Int32) => "int",
        (ComputeClass::I64, DType::Int16) => "short",
        (ComputeClass::I64, DType::Int8) => "signed char",
        (ComputeClass::I64, DType::UInt32) => "unsigned int",
        (ComputeClass::I64, DType::UInt16) => "unsigned short",
        (ComputeClass::I64, DType::UInt8 | DType::Bool) => "unsigned char",
        (ComputeClass::I64, _) => "long long",
        (ComputeClass::U64, _) => "unsigned long long",
    })
}

/// The functions of [`crate::codegen::source_writer`] that convert an element of a type narrower than `float` to a
/// float and back.
pub(super) fn float_conversions(dtype: DType) -> Option<[&'static str; 2]> {
    match dtype {
        DType::Half => Some(["h2f", "f2h"]),
        DType::BFloat16 => Some(["b2f", "f2b"]),
        DType::Float8E4M3 => Some(["e4m3_to_f", "f_to_e4m3"]),
        DType::Float8E5M2 => Some(["e5m2_to_f", "f_to_e5m2"]),
        DType::Float8E8M0 => Some(["e8m0_to_f", "f_to_e8m0"]),
        DType::Float4E2M1 => Some(["e2m1_to_f", "f_to_e2m1"]),
        _ => None,
    }
}

/// Returns true for an integer type that has fewer bits than its computations.
fn is_narrow_integer(dtype: DType) -> bool {
    dtype.is_integer() && dtype.byte_size() < 8
}

/// Classes of values in CUDA C++.
pub(crate) trait ClassSource {
    /// Returns the C++ type.
    fn ctype(self) -> &'static str;
    /// Returns the element type that holds all values of the class.
    fn dtype(self) -> DType;
    /// Returns a constant of the class.
    fn literal(self, value: ScalarValue) -> TypedExpr;
}

impl ClassSource for ComputeClass {
    fn ctype(self) -> &'static str {
        match self {
            ComputeClass::F64 => "double",
            ComputeClass::F32 => "float",
            ComputeClass::I64 => "long long",
            ComputeClass::U64 => "unsigned long long",
        }
    }
    fn dtype(self) -> DType {
        match self {
            ComputeClass::F64 => DType::Double,
            ComputeClass::F32 => DType::Float,
            ComputeClass::I64 => DType::Int,
            ComputeClass::U64 => DType::UInt64,
        }
    }
    fn literal(self, value: ScalarValue) -> TypedExpr {
        let text = match self {
            ComputeClass::F64 => double_literal(value.as_f64()),
            ComputeClass::F32 => float_literal(value.as_f64() as f32),
            ComputeClass::I64 => match value.as_i64() {
                i64::MIN => "(-9223372036854775807ll - 1)".to_owned(),
                value if value < 0 => format!("({value}ll)"),
                value => format!("{value}ll"),
            },
            ComputeClass::U64 => format!("{}ull", value.as_u64()),
        };
        TypedExpr::new(self, text)
    }
}

fn double_literal(value: f64) -> String {
    match value.is_finite() {
        true if value.is_sign_negative() => format!("({value:?})"),
        true => format!("{value:?}"),
        false => format!("__longlong_as_double(0x{:016x}ll)", value.to_bits()),
    }
}

fn float_literal(value: f32) -> String {
    match value.is_finite() {
        true if value.is_sign_negative() => format!("({value:?}f)"),
        true => format!("{value:?}f"),
        false => format!("__int_as_float(0x{:08x})", value.to_bits()),
    }
}

impl TypedExpr {
    /// A value of a class.
    pub(super) fn new(class: ComputeClass, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), raw: None }
    }
    /// An element in memory of a type with these conversions.
    pub(super) fn from_narrow(dtype: DType, [widen, _]: [&str; 2], raw: String) -> Self {
        Self { class: ComputeClass::F32, text: format!("{widen}({raw})"), raw: Some((dtype, raw)) }
    }
    /// The value of an element in memory, whose text is a name or a memory access.
    pub(super) fn from_memory(dtype: DType, raw: &str) -> Result<TypedExpr, Unsupported> {
        if let Some(conversions) = float_conversions(dtype) {
            return Ok(TypedExpr::from_narrow(dtype, conversions, raw.to_owned()));
        }
        let text = match dtype {
            DType::Bool => format!("(long long)({raw} != 0)"),
            _ if is_narrow_integer(dtype) => format!("(long long)({raw})"),
            _ => raw.to_owned(),
        };
        Ok(TypedExpr::new(compute_class(dtype)?, text))
    }
    /// Converts a value to an element in memory: rounds it, wraps it or makes it a truth value.
    pub(super) fn into_memory(self, dtype: DType) -> Result<String, Unsupported> {
        if dtype == DType::Bool {
            return Ok(format!("(unsigned char)({})", self.into_class(ComputeClass::I64).truth_condition()));
        }
        if let Some((own, raw)) = self.raw
            && own == dtype
        {
            return Ok(raw);
        }
        let value = TypedExpr { raw: None, ..self }.into_class(compute_class(dtype)?).text;
        if let Some([_, narrow]) = float_conversions(dtype) {
            return Ok(format!("{narrow}({value})"));
        }
        Ok(match is_narrow_integer(dtype) {
            true => format!("({})({value})", storage_ctype(dtype)?),
            false => value,
        })
    }
    /// Converts to another class; reals truncate to integers, and integers wrap.
    pub(super) fn into_class(self, class: ComputeClass) -> TypedExpr {
        if self.class == class {
            return self;
        }
        let text = match class {
            ComputeClass::I64 if !self.class.is_integer() => format!("r2i({})", self.text),
            ComputeClass::U64 if !self.class.is_integer() => format!("r2u({})", self.text),
            _ => format!("({})({})", class.ctype(), self.text),
        };
        TypedExpr::new(class, text)
    }
    /// Converts to a type and back to the class that it computes in.
    pub(super) fn rounded_to(self, dtype: DType) -> Result<TypedExpr, Unsupported> {
        if dtype == DType::Bool {
            return Ok(TypedExpr::new(ComputeClass::I64, format!("(long long)({})", self.truth_condition())));
        }
        let kept = self.raw.as_ref().is_some_and(|(own, _)| *own == dtype);
        let value = self.into_class(compute_class(dtype)?);
        if kept {
            return Ok(value);
        }
        if let Some(conversions @ [_, narrow]) = float_conversions(dtype) {
            let raw = format!("{narrow}({})", value.text);
            return Ok(TypedExpr::from_narrow(dtype, conversions, raw));
        }
        Ok(match is_narrow_integer(dtype) {
            true => TypedExpr::new(value.class, format!("(long long)({})({})", storage_ctype(dtype)?, value.text)),
            false => TypedExpr { raw: None, ..value },
        })
    }
    /// The condition that it is not zero.
    pub(super) fn truth_condition(&self) -> String {
        format!("({} != 0)", self.text)
    }
}
