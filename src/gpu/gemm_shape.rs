//! Shapes of GEMMs as cuBLASLt describes them: column-major matrices with leading dimensions.

/// Element types of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MatrixElement {
    /// 64-bit floats.
    F64,
    /// 32-bit floats.
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8 bits with 3 of mantissa.
    E4m3,
    /// 8 bits with 2 of mantissa.
    E5m2,
}

impl MatrixElement {
    /// Bytes of an element.
    pub fn byte_size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 | Self::E5m2 => 1,
        }
    }

    /// Bits of the exponent and of the mantissa; the rest is the sign.
    pub fn float_bits(self) -> (u32, u32) {
        match self {
            Self::F64 => (11, 52),
            Self::F32 => (8, 23),
            Self::F16 => (5, 10),
            Self::Bf16 => (8, 7),
            Self::E4m3 => (4, 3),
            Self::E5m2 => (5, 2),
        }
    }
}

/// One matrix in the library's form: column-major, the `rows` of a column contiguous in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixLayout {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Elements from one column to the next.
    pub leading: i64,
    /// Elements from one matrix of a batch to the next; 0 repeats one matrix.
    pub batch_stride: i64,
}

/// The bias term of a GEMM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GemmBias {
    /// Nothing.
    None,
    /// A vector along the rows of the (column-major) result.
    Rows,
    /// A matrix.
    Matrix(MatrixLayout),
}

/// The scales of a GEMM's factors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GemmScales {
    /// None.
    None,
    /// One for each factor.
    Whole,
    /// One for each row of `op(a)`, and one for each column of `op(b)`.
    Vectors,
}

/// Losses of precision that GEMMs are permitted for speed; none by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct GemmNumerics {
    /// True if `float` factors may be rounded to TF32.
    pub tf32: bool,
    /// True if GEMMs of 8-bit factors may accumulate in fewer bits than `float` has (`use_fast_accum` of
    /// `torch._scaled_mm`).
    pub fp8_fast_accumulation: bool,
}

/// A GEMM `d = op(a) * op(b) + bias` of column-major matrices, whose factors may have scales.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GemmShape {
    /// Type of the result and of what is added.
    pub element: MatrixElement,
    /// Types of the left and of the right matrix.
    pub factors: [MatrixElement; 2],
    /// The permitted losses of precision that concern these factors.
    pub numerics: GemmNumerics,
    /// Left matrix as stored, and whether it is transposed.
    pub a: (MatrixLayout, bool),
    /// Right matrix as stored, and whether it is transposed.
    pub b: (MatrixLayout, bool),
    /// Result.
    pub d: MatrixLayout,
    /// The bias term.
    pub bias: GemmBias,
    /// The scales of the factors.
    pub scales: GemmScales,
    /// Matrices in a batch.
    pub batch: i32,
    /// GEMMs of this shape with the same `a`, each with a `b` and a `d` at addresses of their own; 1 for a single one.
    pub parts: u32,
    /// True if the result, or that of a part, is in another rank's memory: then each of its elements must be stored
    /// once, so a split sum must not add its parts there.
    pub remote: bool,
    /// Largest power of two, up to 256, that divides all addresses of `a`, `b`, the bias and `d`.
    pub alignments: [u32; 4],
}

impl GemmShape {
    /// `result[m][n] = left[m][k] * right[k][n]`, row by row, of dense matrices of one type that start at multiples of
    /// 256 bytes. A transposed factor is stored `[k][m]` or `[n][k]`.
    pub fn dense(element: MatrixElement, [m, n, k]: [u64; 3], [left, right]: [bool; 2]) -> Self {
        let layout = |rows, columns| MatrixLayout { rows, columns, leading: rows as i64, batch_stride: 0 };
        // Column-major, each matrix is the transposed one, and the factors change places.
        let a = if right { layout(k, n) } else { layout(n, k) };
        let b = if left { layout(m, k) } else { layout(k, m) };
        Self {
            element,
            factors: [element; 2],
            numerics: GemmNumerics::default(),
            a: (a, right),
            b: (b, left),
            d: layout(n, m),
            bias: GemmBias::None,
            scales: GemmScales::None,
            batch: 1,
            parts: 1,
            remote: false,
            alignments: [256; 4],
        }
    }

    /// Floating-point operations: one for each multiplication and one for each addition.
    pub fn flop_count(&self) -> u64 {
        let (a, transposed) = self.a;
        let depth = if transposed { a.rows } else { a.columns };
        let batch = u64::try_from(self.batch).unwrap_or(0);
        [2, self.d.rows, self.d.columns, depth, batch, u64::from(self.parts)].into_iter().fold(1, u64::saturating_mul)
    }
}

impl GemmNumerics {
    /// The permitted losses that concern a GEMM of such factors.
    pub fn for_factors(self, factors: [MatrixElement; 2]) -> Self {
        let is_fp8 = factors.iter().all(|factor| matches!(factor, MatrixElement::E4m3 | MatrixElement::E5m2));
        Self {
            tf32: self.tf32 && factors == [MatrixElement::F32; 2],
            fp8_fast_accumulation: self.fp8_fast_accumulation && is_fp8,
        }
    }
}
