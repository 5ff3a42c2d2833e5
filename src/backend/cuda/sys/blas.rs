//! cuBLASLt: matrix products with a chosen algorithm.

use super::Error;
use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use std::ffi::c_void;

/// Whether cuBLASLt can be opened.
pub fn is_present() -> bool {
    // SAFETY: opens a library by its usual names and asks nothing of it.
    unsafe { sys::is_culib_present() }
}

/// cuBLASLt's version, `(13, 0, 2)`.
pub fn version() -> (usize, usize, usize) {
    if !is_present() {
        return (0, 0, 0);
    }
    // SAFETY: takes nothing.
    let version = unsafe { sys::cublasLtGetVersion() };
    (version / 10_000, version / 100 % 100, version % 100)
}

fn done<T>(call: &'static str, result: Result<T, CublasError>) -> Result<T, Error> {
    result.map_err(|error| Error::Call { call, status: format!("{error}") })
}

/// Element types of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Element {
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

impl Element {
    fn code(self) -> sys::cudaDataType {
        match self {
            Element::F64 => sys::cudaDataType::CUDA_R_64F,
            Element::F32 => sys::cudaDataType::CUDA_R_32F,
            Element::F16 => sys::cudaDataType::CUDA_R_16F,
            Element::Bf16 => sys::cudaDataType::CUDA_R_16BF,
            Element::E4m3 => sys::cudaDataType::CUDA_R_8F_E4M3,
            Element::E5m2 => sys::cudaDataType::CUDA_R_8F_E5M2,
        }
    }
}

/// One matrix as the library sees it: column-major, `rows` next to each other in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub columns: u64,
    /// Elements from one column to the next.
    pub leading: i64,
    /// Elements from one matrix of a batch to the next; 0 repeats one matrix.
    pub batch_stride: i64,
}

/// What is added to a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bias {
    /// Nothing.
    None,
    /// A vector along the rows of the (column-major) result.
    Rows,
    /// A matrix.
    Matrix(Layout),
}

/// A product `d = op(a) * op(b) + bias` of column-major matrices.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Type of the result and of what is added.
    pub element: Element,
    /// Types of the left and of the right matrix.
    pub factors: [Element; 2],
    /// Whether `float` may be rounded to TF32 before it is multiplied.
    pub tf32: bool,
    /// Left matrix as stored, and whether it is transposed.
    pub a: (Layout, bool),
    /// Right matrix as stored, and whether it is transposed.
    pub b: (Layout, bool),
    /// Result.
    pub d: Layout,
    /// What is added.
    pub bias: Bias,
    /// Matrices in a batch.
    pub batch: i32,
    /// Largest power of two, up to 256, that divides all addresses of `a`, `b`, the bias and `d`.
    pub alignments: [u32; 4],
}

impl Shape {
    /// Floating-point operations: two for each multiplication and addition.
    pub fn flop(&self) -> u64 {
        let (a, transposed) = self.a;
        let depth = if transposed { a.rows } else { a.columns };
        let batch = u64::try_from(self.batch).unwrap_or(0);
        [2, self.d.rows, self.d.columns, depth, batch].into_iter().fold(1, u64::saturating_mul)
    }
}

/// A handle of the current device.
#[derive(Debug)]
pub struct Blas {
    handle: sys::cublasLtHandle_t,
}

// SAFETY: handles may be used from any thread.
unsafe impl Send for Blas {}
// SAFETY: and from several at once: what a call needs is in its arguments.
unsafe impl Sync for Blas {}

impl Blas {
    /// A handle of the current device.
    pub fn new() -> Result<Self, Error> {
        if !is_present() {
            let searched = "libcublasLt.so, libcublasLt.so.13";
            return Err(Error::Missing { library: "cuBLASLt library", searched });
        }
        Ok(Self { handle: done("cublasLtCreate", result::create_handle())? })
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// A matrix layout of the library.
#[derive(Debug)]
struct RawLayout(sys::cublasLtMatrixLayout_t);

impl RawLayout {
    fn new(layout: Layout, element: Element, batch: i32) -> Result<Self, Error> {
        use sys::cublasLtMatrixLayoutAttribute_t as A;
        let Layout { rows, columns, leading, batch_stride } = layout;
        let raw = result::create_matrix_layout(element.code(), rows, columns, leading);
        let raw = Self(done("cublasLtMatrixLayoutCreate", raw)?);
        if batch > 1 {
            raw.set(A::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch)?;
            raw.set(A::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride)?;
        }
        Ok(raw)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatrixLayoutAttribute_t,
        value: &T,
    ) -> Result<(), Error> {
        let pointer = std::ptr::from_ref(value).cast();
        // SAFETY: the layout is alive; the library copies `size_of::<T>()` bytes.
        done("cublasLtMatrixLayoutSetAttribute", unsafe {
            result::set_matrix_layout_attribute(self.0, attribute, pointer, size_of::<T>())
        })
    }
}

impl Drop for RawLayout {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

/// What the operands of a call are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operands {
    /// Address of the left matrix.
    pub a: u64,
    /// Address of the right matrix.
    pub b: u64,
    /// Address of the bias; ignored without one.
    pub bias: u64,
    /// Address of the result.
    pub d: u64,
    /// Address and bytes of the workspace.
    pub workspace: (u64, usize),
}

/// A product with its descriptors and the algorithms that the library proposes for it, best first.
#[derive(Debug)]
pub struct Product {
    operation: sys::cublasLtMatmulDesc_t,
    a: RawLayout,
    b: RawLayout,
    c: RawLayout,
    d: RawLayout,
    shape: Shape,
    algorithms: Vec<sys::cublasLtMatmulAlgo_t>,
    /// Which of them is used.
    pub chosen: usize,
}

// SAFETY: descriptors may be used from any thread, one at a time.
unsafe impl Send for Product {}

impl Product {
    /// Descriptors and up to `count` algorithms that need at most `workspace` bytes; an error if the
    /// library has none.
    pub fn new(blas: &Blas, shape: &Shape, workspace: usize, count: usize) -> Result<Self, Error> {
        let compute = match (shape.element, shape.tf32) {
            (Element::F64, _) => sys::cublasComputeType_t::CUBLAS_COMPUTE_64F,
            (Element::F32, true) => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let scale = match shape.element {
            Element::F64 => sys::cudaDataType::CUDA_R_64F,
            _ => sys::cudaDataType::CUDA_R_32F,
        };
        let operation = result::create_matmul_desc(compute, scale);
        let operation = done("cublasLtMatmulDescCreate", operation)?;
        let layout = |layout| RawLayout::new(layout, shape.element, shape.batch);
        let factor = |at: usize, layout| RawLayout::new(layout, shape.factors[at], shape.batch);
        let c = match shape.bias {
            Bias::Matrix(matrix) => layout(matrix)?,
            Bias::None | Bias::Rows => layout(shape.d)?,
        };
        let mut product = Self {
            operation,
            a: factor(0, shape.a.0)?,
            b: factor(1, shape.b.0)?,
            c,
            d: layout(shape.d)?,
            shape: shape.clone(),
            algorithms: Vec::new(),
            chosen: 0,
        };
        product.describe()?;
        product.algorithms = product.proposals(blas, workspace, count)?;
        Ok(product)
    }

    /// Number of algorithms to choose from.
    pub fn choices(&self) -> usize {
        self.algorithms.len()
    }

    fn describe(&self) -> Result<(), Error> {
        use sys::cublasLtMatmulDescAttributes_t as A;
        // `cublasOperation_t`: CUBLAS_OP_N is 0, CUBLAS_OP_T is 1.
        let transposed = |yes: bool| i32::from(yes);
        self.set(A::CUBLASLT_MATMUL_DESC_TRANSA, &transposed(self.shape.a.1))?;
        self.set(A::CUBLASLT_MATMUL_DESC_TRANSB, &transposed(self.shape.b.1))?;
        if self.shape.bias == Bias::Rows {
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            self.set(A::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
            self.set(A::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &self.shape.element.code())?;
        }
        Ok(())
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), Error> {
        let pointer = std::ptr::from_ref(value).cast();
        // SAFETY: the descriptor is alive; the library copies `size_of::<T>()` bytes.
        done("cublasLtMatmulDescSetAttribute", unsafe {
            result::set_matmul_desc_attribute(self.operation, attribute, pointer, size_of::<T>())
        })
    }

    fn proposals(
        &self,
        blas: &Blas,
        workspace: usize,
        count: usize,
    ) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, Error> {
        let preference = Preference::new(workspace, self.shape.alignments)?;
        let mut found: Vec<sys::cublasLtMatmulHeuristicResult_t> = Vec::with_capacity(count);
        let mut returned = 0;
        // SAFETY: all descriptors are alive; there is room for `count` results, of which the library
        // says how many it wrote.
        unsafe {
            let status = sys::cublasLtMatmulAlgoGetHeuristic(
                blas.handle,
                self.operation,
                self.a.0,
                self.b.0,
                self.c.0,
                self.d.0,
                preference.0,
                count as i32,
                found.as_mut_ptr(),
                &raw mut returned,
            );
            done("cublasLtMatmulAlgoGetHeuristic", status.result())?;
            found.set_len((returned.max(0) as usize).min(count));
        }
        let good = |one: &sys::cublasLtMatmulHeuristicResult_t| one.state.result().is_ok();
        let algorithms: Vec<_> = found.into_iter().filter(good).map(|one| one.algo).collect();
        if algorithms.is_empty() {
            let Shape { element, factors, a, b, batch, .. } = &self.shape;
            let status = format!(
                "it has no algorithm for {batch} x {a:?} * {b:?} of {factors:?} to {element:?}"
            );
            return Err(Error::Call { call: "cublasLtMatmulAlgoGetHeuristic", status });
        }
        Ok(algorithms)
    }

    /// Starts the product on a stream.
    pub fn run(
        &self,
        blas: &Blas,
        operands: &Operands,
        stream: &super::driver::Stream,
    ) -> Result<(), Error> {
        if self.shape.bias == Bias::Rows {
            let pointer = operands.bias as *const c_void;
            self.set(
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                &pointer,
            )?;
        }
        let added = matches!(self.shape.bias, Bias::Matrix(_));
        let (one, beta) = (1.0f64, if added { 1.0f64 } else { 0.0 });
        let (one32, beta32) = (one as f32, beta as f32);
        let (alpha, beta): (*const c_void, *const c_void) = match self.shape.element {
            Element::F64 => (std::ptr::from_ref(&one).cast(), std::ptr::from_ref(&beta).cast()),
            _ => (std::ptr::from_ref(&one32).cast(), std::ptr::from_ref(&beta32).cast()),
        };
        let c = if added { operands.bias } else { operands.d };
        let status = unsafe {
            // SAFETY: descriptors and stream are alive; scalars are on the host, which is the default
            // pointer mode; what addresses reach is the caller's promise.
            result::matmul(
                blas.handle,
                self.operation,
                alpha,
                beta,
                operands.a as *const c_void,
                self.a.0,
                operands.b as *const c_void,
                self.b.0,
                c as *const c_void,
                self.c.0,
                operands.d as *mut c_void,
                self.d.0,
                &raw const self.algorithms[self.chosen],
                operands.workspace.0 as *mut c_void,
                operands.workspace.1,
                stream.raw().cast(),
            )
        };
        done("cublasLtMatmul", status)
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.operation) };
    }
}

/// What an algorithm may rely on.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new(workspace: usize, alignments: [u32; 4]) -> Result<Self, Error> {
        use sys::cublasLtMatmulPreferenceAttributes_t as A;
        let preference =
            Self(done("cublasLtMatmulPreferenceCreate", result::create_matmul_pref())?);
        preference.set(A::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace)?;
        let keys = [
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            A::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        for (key, alignment) in keys.into_iter().zip(alignments) {
            preference.set(key, &alignment)?;
        }
        Ok(preference)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), Error> {
        let pointer = std::ptr::from_ref(value).cast();
        // SAFETY: the preference is alive; the library copies `size_of::<T>()` bytes.
        done("cublasLtMatmulPreferenceSetAttribute", unsafe {
            result::set_matmul_pref_attribute(self.0, attribute, pointer, size_of::<T>())
        })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
