//! The closed vocabularies of a tensor's text: element types, memories, iteration and parallel types.

use super::names::Symbol;

/// Declares an enum of words with their spellings, and perhaps a variant of words that only the program has.
macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }
     $($(#[$odoc:meta])* $other:ident($word:ty) = $described:literal)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* $($(#[$odoc])* $other($word),)? }
        impl $name {
            /// All values with a spelling of their own, in the order of their declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The spelling.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* $($name::$other(_) => $described,)? }
            }
            /// The value of a spelling.
            pub fn parse(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)* _ => None }
            }
        }
    };
}

spelled! {
    /// Element type, spelled as in a tensor's text.
    DType {
        /// 64-bit IEEE.
        Double = "double",
        /// 32-bit IEEE.
        Float = "float",
        /// 16-bit IEEE.
        Half = "__half",
        /// bfloat16.
        BFloat16 = "__bfloat",
        /// OCP FP8 E4M3 (finite).
        Float8E4M3 = "__e4m3",
        /// OCP FP8 E5M2.
        Float8E5M2 = "__e5m2",
        /// OCP MX scale.
        Float8E8M0 = "__e8m0",
        /// OCP FP4.
        Float4E2M1 = "__e2m1",
        /// Two packed FP4.
        Float4E2M1x2 = "__e2m1_x2",
        /// 8-bit signed.
        Int8 = "int8_t",
        /// 16-bit signed.
        Int16 = "int16_t",
        /// 32-bit signed.
        Int32 = "int",
        /// 64-bit signed.
        Int = "int64_t",
        /// 8-bit unsigned.
        UInt8 = "uint8_t",
        /// 16-bit unsigned.
        UInt16 = "uint16_t",
        /// 32-bit unsigned.
        UInt32 = "uint32_t",
        /// 64-bit unsigned.
        UInt64 = "uint64_t",
        /// nvFuser's index type; 64-bit here.
        Index = "nvfuser_index_t",
        /// One byte, 0 or 1.
        Bool = "bool",
        /// Two floats.
        ComplexFloat = "std::complex<float>",
        /// Two doubles.
        ComplexDouble = "std::complex<double>",
    }
    /// A type of values in kernels, as the text has it: a pointer, an array, a struct, `null_type`. No host program
    /// computes with it.
    Kernel(Symbol) = "kernel type"
}

impl DType {
    /// Bytes of one element (packed FP4: of one pair; a kernel's value: those of a pointer).
    pub fn byte_size(self) -> usize {
        match self {
            DType::ComplexDouble => 16,
            DType::Double | DType::Int | DType::UInt64 | DType::Index | DType::ComplexFloat => 8,
            DType::Kernel(_) => 8,
            DType::Float | DType::Int32 | DType::UInt32 => 4,
            DType::Half | DType::BFloat16 | DType::Int16 | DType::UInt16 => 2,
            DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 => 1,
            DType::Float4E2M1 | DType::Float4E2M1x2 => 1,
            DType::Int8 | DType::UInt8 | DType::Bool => 1,
        }
    }
    /// Whether it is a real floating point type.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            DType::Double
                | DType::Float
                | DType::Half
                | DType::BFloat16
                | DType::Float8E4M3
                | DType::Float8E5M2
                | DType::Float8E8M0
                | DType::Float4E2M1
                | DType::Float4E2M1x2
        )
    }
    /// Returns true if elements can be indices of another tensor.
    pub fn is_index(self) -> bool {
        matches!(self, DType::Int | DType::Int32 | DType::Index)
    }
    /// Returns true for an 8-bit floating point type that GEMMs accept as a factor.
    pub fn is_fp8_factor(self) -> bool {
        matches!(self, DType::Float8E4M3 | DType::Float8E5M2)
    }
    /// Returns true for a complex type.
    pub fn is_complex(self) -> bool {
        matches!(self, DType::ComplexFloat | DType::ComplexDouble)
    }
    /// The type of the parts of a complex type.
    pub fn part_type(self) -> Option<DType> {
        match self {
            DType::ComplexFloat => Some(DType::Float),
            DType::ComplexDouble => Some(DType::Double),
            _ => None,
        }
    }
    /// Returns true for an integer type (`bool` is none).
    pub fn is_integer(self) -> bool {
        !self.is_float() && !self.is_complex() && !matches!(self, DType::Bool | DType::Kernel(_))
    }
    /// Returns true for an integer type without negative numbers.
    pub fn is_unsigned(self) -> bool {
        matches!(self, DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64)
    }
    /// The smallest and the largest number of an integer type.
    pub fn integer_limits(self) -> Option<[i128; 2]> {
        let bits = 8 * self.byte_size() as u32;
        match self {
            _ if !self.is_integer() => None,
            _ if self.is_unsigned() => Some([0, (1 << bits) - 1]),
            _ => Some([-(1 << (bits - 1)), (1 << (bits - 1)) - 1]),
        }
    }
    /// The number of an integer type with the same lowest bits: integers wrap. All 64 bits of a `uint64_t` are kept, so
    /// that numbers from 2^63 on are negative here.
    pub fn wrapped_integer(self, bits: i64) -> i64 {
        match self {
            DType::Int8 => i64::from(bits as i8),
            DType::Int16 => i64::from(bits as i16),
            DType::Int32 => i64::from(bits as i32),
            DType::UInt8 => i64::from(bits as u8),
            DType::UInt16 => i64::from(bits as u16),
            DType::UInt32 => i64::from(bits as u32),
            _ => bits,
        }
    }
}

spelled! {
    /// Memory of a tensor, by the letter in its text.
    MemoryType {
        /// Global memory (`mem_type=global`).
        Global = "g",
        /// Registers (`mem_type=register`); slices and intermediates of host programs keep it.
        Local = "l",
        /// Shared memory.
        Shared = "s",
        /// Tensor memory.
        Tensor = "t",
        /// Symmetric memory.
        Symmetric = "sym",
    }
}

impl MemoryType {
    /// The word of `mem_type=`.
    pub fn word(self) -> &'static str {
        match self {
            MemoryType::Global => "global",
            MemoryType::Local => "register",
            MemoryType::Shared => "shared",
            MemoryType::Tensor => "tensor",
            MemoryType::Symmetric => "symmetric",
        }
    }
    /// The memory of a `mem_type=` word.
    pub fn from_word(word: &str) -> Option<MemoryType> {
        Self::ALL.iter().copied().find(|memory| memory.word() == word)
    }
}

spelled! {
    /// The kind of an axis, by its letter.
    IterType {
        /// Iteration.
        Iteration = "i",
        /// Reduction: no storage.
        Reduction = "r",
        /// Broadcast: stored with extent 1.
        Broadcast = "b",
        /// Stride.
        Stride = "s",
        /// Gathered or scattered.
        GatherScatter = "n",
        /// Component of a vector.
        VectorComponent = "v",
        /// Not known before run time.
        Symbolic = "?",
    }
}

spelled! {
    /// The parallel type of an axis. [`super::Style`] gives the spelling of [`ParallelType::Stream`].
    ParallelType {
        /// Nothing.
        Serial = "S",
        /// Devices, innermost mesh axis.
        DIDx = "deviceIdx.x",
        /// Devices, second mesh axis from the inside.
        DIDy = "deviceIdx.y",
        /// Devices, third mesh axis from the inside.
        DIDz = "deviceIdx.z",
        /// Thread blocks.
        BIDx = "blockIdx.x",
        /// Thread blocks.
        BIDy = "blockIdx.y",
        /// Thread blocks.
        BIDz = "blockIdx.z",
        /// Threads.
        TIDx = "threadIdx.x",
        /// Threads.
        TIDy = "threadIdx.y",
        /// Threads.
        TIDz = "threadIdx.z",
        /// Host streams.
        Stream = "StreamIdx",
        /// Vectorised.
        Vectorize = "V",
        /// Unrolled.
        Unroll = "UR",
        /// Unswitched.
        Unswitch = "US",
        /// Tensor core instruction.
        Mma = "MMA",
        /// Grouped.
        Group = "G",
        /// Bulk copy.
        Bulk = "B",
    }
}

impl ParallelType {
    /// Whether the axis is sharded over devices.
    pub fn is_device(self) -> bool {
        matches!(self, ParallelType::DIDx | ParallelType::DIDy | ParallelType::DIDz)
    }
    /// Mesh axis from the inside (0 for x), for device types.
    pub fn mesh_axis_from_inside(self) -> Option<usize> {
        match self {
            ParallelType::DIDx => Some(0),
            ParallelType::DIDy => Some(1),
            ParallelType::DIDz => Some(2),
            ParallelType::Serial
            | ParallelType::BIDx
            | ParallelType::BIDy
            | ParallelType::BIDz
            | ParallelType::TIDx
            | ParallelType::TIDy
            | ParallelType::TIDz
            | ParallelType::Stream
            | ParallelType::Vectorize
            | ParallelType::Unroll
            | ParallelType::Unswitch
            | ParallelType::Mma
            | ParallelType::Group
            | ParallelType::Bulk => None,
        }
    }
}
