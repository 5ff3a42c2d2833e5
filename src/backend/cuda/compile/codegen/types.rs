//! Element types in memory and while a kernel computes, as the CPU backend has them: `double` computes
//! in double; `float`, `half`, `bfloat16` and 8-bit floats in float; integers and `bool` in 64 bits.

use crate::unsupported::Unsupported;
pub(crate) use hostir::backend::class::Class;
use hostir::ir::DType;
use hostir::plan::Scalar;

/// A C++ expression and what it computes in.
///
/// Values of floats narrower than `float` may also be known as they lie in memory, which saves a conversion when
/// they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The type of the expression.
    pub(super) class: Class,
    /// The expression: a name, a literal or a call, or in parentheses.
    pub(super) text: String,
    /// The same value as an element in memory of a type narrower than `float`, if it is one.
    pub(super) raw: Option<(DType, String)>,
}

/// The class of a type; the reason why not for types that kernels do not compute with.
pub(crate) fn class(dtype: DType) -> Result<Class, Unsupported> {
    hostir::backend::class::class(dtype).ok_or(Unsupported::Arithmetic(dtype))
}

/// The C++ type of an element in memory.
pub(super) fn storage(dtype: DType) -> Result<&'static str, Unsupported> {
    Ok(match (class(dtype)?, dtype.size()) {
        (Class::F64, _) => "double",
        (Class::F32, 4) => "float",
        (Class::F32, 2) => "unsigned short",
        (Class::F32, _) => "unsigned char",
        (Class::I64, 8) => "long long",
        (Class::I64, 4) => "int",
        (Class::I64, _) => "unsigned char",
    })
}

/// The functions of [`crate::codegen::source_writer`] from an element of a type narrower than `float` to a float and back.
pub(super) fn conversions(dtype: DType) -> Option<[&'static str; 2]> {
    match dtype {
        DType::Half => Some(["h2f", "f2h"]),
        DType::BFloat16 => Some(["b2f", "f2b"]),
        DType::Float8E4M3 => Some(["e4m3_to_f", "f_to_e4m3"]),
        DType::Float8E5M2 => Some(["e5m2_to_f", "f_to_e5m2"]),
        DType::Float8E8M0 => Some(["e8m0_to_f", "f_to_e8m0"]),
        _ => None,
    }
}

/// Classes of values in CUDA C++.
pub(crate) trait ClassSource {
    /// Returns the C++ type.
    fn ctype(self) -> &'static str;
    /// Returns the element type that holds all values of the class.
    fn dtype(self) -> DType;
    /// Returns a constant of the class.
    fn literal(self, value: Scalar) -> Value;
}

impl ClassSource for Class {
    fn ctype(self) -> &'static str {
        match self {
            Class::F64 => "double",
            Class::F32 => "float",
            Class::I64 => "long long",
        }
    }
    fn dtype(self) -> DType {
        match self {
            Class::F64 => DType::Double,
            Class::F32 => DType::Float,
            Class::I64 => DType::Int,
        }
    }
    fn literal(self, value: Scalar) -> Value {
        let text = match self {
            Class::F64 => double(value.as_f64()),
            Class::F32 => float(value.as_f64() as f32),
            Class::I64 => match value.as_i64() {
                i64::MIN => "(-9223372036854775807ll - 1)".to_owned(),
                value if value < 0 => format!("({value}ll)"),
                value => format!("{value}ll"),
            },
        };
        Value::new(self, text)
    }
}

fn double(value: f64) -> String {
    match value.is_finite() {
        true if value.is_sign_negative() => format!("({value:?})"),
        true => format!("{value:?}"),
        false => format!("__longlong_as_double(0x{:016x}ll)", value.to_bits()),
    }
}

fn float(value: f32) -> String {
    match value.is_finite() {
        true if value.is_sign_negative() => format!("({value:?}f)"),
        true => format!("{value:?}f"),
        false => format!("__int_as_float(0x{:08x})", value.to_bits()),
    }
}

impl Value {
    /// A value of a class.
    pub(super) fn new(class: Class, text: impl Into<String>) -> Self {
        Self { class, text: text.into(), raw: None }
    }
    /// An element in memory of a type with these conversions.
    pub(super) fn narrow(dtype: DType, [widen, _]: [&str; 2], raw: String) -> Self {
        Self { class: Class::F32, text: format!("{widen}({raw})"), raw: Some((dtype, raw)) }
    }
    /// The value of an element in memory, whose text is a name or a place.
    pub(super) fn load(dtype: DType, raw: &str) -> Result<Value, Unsupported> {
        if let Some(conversions) = conversions(dtype) {
            return Ok(Value::narrow(dtype, conversions, raw.to_owned()));
        }
        let text = match dtype {
            DType::Int32 => format!("(long long)({raw})"),
            DType::Bool => format!("(long long)({raw} != 0)"),
            _ => raw.to_owned(),
        };
        Ok(Value::new(class(dtype)?, text))
    }
    /// The element in memory that a value becomes: rounded, wrapped or made a truth value.
    pub(super) fn store(self, dtype: DType) -> Result<String, Unsupported> {
        if dtype == DType::Bool {
            return Ok(format!("(unsigned char)({})", self.into_class(Class::I64).truth()));
        }
        if let Some((own, raw)) = self.raw
            && own == dtype
        {
            return Ok(raw);
        }
        let value = Value { raw: None, ..self }.into_class(class(dtype)?).text;
        if let Some([_, narrow]) = conversions(dtype) {
            return Ok(format!("{narrow}({value})"));
        }
        Ok(match dtype {
            DType::Int32 => format!("(int)({value})"),
            _ => value,
        })
    }
    /// As another class; reals truncate to integers.
    pub(super) fn into_class(self, class: Class) -> Value {
        if self.class == class {
            return self;
        }
        let text = match class {
            Class::I64 => format!("r2i({})", self.text),
            Class::F64 | Class::F32 => format!("({})({})", class.ctype(), self.text),
        };
        Value::new(class, text)
    }
    /// Converted to a type and back to the class that it computes in.
    pub(super) fn rounded(self, dtype: DType) -> Result<Value, Unsupported> {
        if dtype == DType::Bool {
            return Ok(Value::new(Class::I64, format!("(long long)({})", self.truth())));
        }
        let kept = self.raw.as_ref().is_some_and(|(own, _)| *own == dtype);
        let value = self.into_class(class(dtype)?);
        if kept {
            return Ok(value);
        }
        if let Some(conversions @ [_, narrow]) = conversions(dtype) {
            let raw = format!("{narrow}({})", value.text);
            return Ok(Value::narrow(dtype, conversions, raw));
        }
        Ok(match dtype {
            DType::Int32 => Value::new(value.class, format!("(long long)(int)({})", value.text)),
            _ => Value { raw: None, ..value },
        })
    }
    /// The condition that it is not zero.
    pub(super) fn truth(&self) -> String {
        format!("({} != 0)", self.text)
    }
}
