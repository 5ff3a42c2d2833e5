//! Parameters of kernels, as far as a file tells their types.

use hostir::ir::DType;

/// A number's type: in source by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberType {
    /// An integer of so many bytes, signed or not.
    Int(usize),
    /// `float` or `double`.
    Float(usize),
    /// `bool`.
    Bool,
    /// `__half`.
    Half,
    /// `__nv_bfloat16`.
    BFloat16,
}

impl NumberType {
    /// The type that a name stands for; `None` for types that nobody declares here.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("std::").unwrap_or(name) {
            "bool" => Self::Bool,
            "char" | "signed char" | "unsigned char" | "int8_t" | "uint8_t" => Self::Int(1),
            "short" | "short int" | "signed short" | "unsigned short" | "int16_t" | "uint16_t" => Self::Int(2),
            "int" | "signed" | "signed int" | "unsigned" | "unsigned int" | "int32_t" | "uint32_t" => Self::Int(4),
            "long"
            | "long int"
            | "unsigned long"
            | "long long"
            | "long long int"
            | "unsigned long long"
            | "unsigned long int"
            | "unsigned long long int"
            | "signed long"
            | "signed long long"
            | "int64_t"
            | "uint64_t"
            | "size_t"
            | "ptrdiff_t"
            | "intptr_t"
            | "uintptr_t" => Self::Int(8),
            "float" => Self::Float(4),
            "double" => Self::Float(8),
            "__half" | "half" => Self::Half,
            "__nv_bfloat16" | "nv_bfloat16" => Self::BFloat16,
            _ => return None,
        })
    }

    /// Its size in bytes.
    pub(super) fn byte_size(self) -> usize {
        match self {
            Self::Int(bytes) | Self::Float(bytes) => bytes,
            Self::Bool => 1,
            Self::Half | Self::BFloat16 => 2,
        }
    }

    /// Returns true if a number of this type may be passed for it.
    pub(super) fn takes_number(self, dtype: DType) -> bool {
        let is_float = matches!(dtype, DType::Float | DType::Double);
        self.byte_size() == dtype.byte_size() && matches!(self, Self::Float(_)) == is_float
    }

    /// Returns true if a pointer to it may point to elements of this type. Bytes, and integers for floats of 16 bits, are
    /// ways to read anything.
    pub(super) fn takes_elements(self, dtype: DType) -> bool {
        let is_float = matches!(dtype, DType::Float | DType::Double);
        match self {
            Self::Int(1) => true,
            Self::Int(2) => dtype.byte_size() == 2,
            Self::Half => dtype == DType::Half,
            Self::BFloat16 => dtype == DType::BFloat16,
            Self::Bool => dtype.byte_size() == 1,
            Self::Int(bytes) => dtype.byte_size() == bytes && !is_float,
            Self::Float(bytes) => dtype.byte_size() == bytes && is_float,
        }
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterType {
    /// A pointer, and the type that it points to, if that is known.
    Pointer(Option<NumberType>),
    /// A number.
    Number(NumberType),
    /// So many bytes of any type.
    Bytes(usize),
    /// A type that the file does not declare in a way that is read here.
    Unknown,
}

/// A parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelParameter {
    /// Its declaration; empty in machine code.
    pub text: String,
    /// Its type.
    pub ty: ParameterType,
}

impl KernelParameter {
    /// A parameter of machine code.
    pub(super) fn of_bytes(bytes: usize) -> Self {
        Self { text: String::new(), ty: ParameterType::Bytes(bytes) }
    }
}
