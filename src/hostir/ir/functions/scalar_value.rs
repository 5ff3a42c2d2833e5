//! Values of scalars.

/// A scalar value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ScalarValue {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl ScalarValue {
    /// As a double.
    pub fn as_f64(self) -> f64 {
        match self {
            ScalarValue::Int(value) => value as f64,
            ScalarValue::Float(value) => value,
            ScalarValue::Bool(value) => f64::from(u8::from(value)),
        }
    }
    /// As an integer; reals truncate.
    pub fn as_i64(self) -> i64 {
        match self {
            ScalarValue::Int(value) => value,
            ScalarValue::Float(value) => value as i64,
            ScalarValue::Bool(value) => i64::from(value),
        }
    }
    /// As a truth value: not zero.
    pub fn as_bool(self) -> bool {
        match self {
            ScalarValue::Int(value) => value != 0,
            ScalarValue::Float(value) => value != 0.0,
            ScalarValue::Bool(value) => value,
        }
    }
    /// Whether the value is a real number.
    pub fn is_real(self) -> bool {
        matches!(self, ScalarValue::Float(_))
    }
}

impl std::fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScalarValue::Int(value) => write!(f, "{value}"),
            ScalarValue::Float(value) => write!(f, "{value:?}"),
            ScalarValue::Bool(value) => write!(f, "{value}"),
        }
    }
}
