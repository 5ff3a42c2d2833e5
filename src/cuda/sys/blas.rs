//! cuBLASLt: GEMMs with a chosen algorithm.

use crate::sys::Error;
use crate::sys::library::CallStatus;
use crate::sys::tables;
use crate::sys::tables::{BlasLt, HeuristicResult};
use cudarc::cublaslt::sys::{
    cublasComputeType_t as ComputeType, cublasLtEpilogue_t as Epilogue, cublasLtHandle_t, cublasLtMatmulAlgo_t,
    cublasLtMatmulAlgoCapAttributes_t as CapAttribute, cublasLtMatmulAlgoConfigAttributes_t as ConfigAttribute,
    cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t as DescAttribute, cublasLtMatmulMatrixScale_t as MatrixScale,
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t as PreferenceAttribute, cublasLtMatrixLayout_t,
    cublasLtMatrixLayoutAttribute_t as LayoutAttribute, cudaDataType as DataType,
};
use hostir_gpu::gemm_shape::{GemmBias, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use std::ffi::{c_int, c_void};

/// The pointers and modes of the scales of the left and the right matrix. A single scale is the default mode; one for
/// each row or column exists from 12.9 on.
const SCALE_POINTERS: [DescAttribute; 2] =
    [DescAttribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, DescAttribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER];
const SCALE_MODES: [DescAttribute; 2] =
    [DescAttribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, DescAttribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE];
/// A placeholder for the address of scales while algorithms are requested: nothing reads it, but it is not 0, which
/// would mean that there are none.
const NO_SCALES_YET: u64 = 256;
/// The alignments of `a`, `b`, `c` and `d`.
const MIN_ALIGNMENTS: [PreferenceAttribute; 4] = [
    PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    PreferenceAttribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
];
/// The number of proposals, from the first, whose variants are candidates: at the power limit of an H100 the fastest
/// algorithm of each of eight large GEMMs was one of these or a variant of one.
pub(crate) const VARIED_PROPOSALS: usize = 3;
/// The last custom option to try. On an H100 the lowest three bits distinguish kernels, among them the order in which
/// tiles are computed; higher options name the same kernels again.
pub(crate) const LAST_CUSTOM_OPTION: u32 = 7;

/// Whether cuBLASLt can be opened.
pub(crate) fn is_present() -> bool {
    tables::blas().opened.is_open()
}

/// cuBLASLt's version, `(13, 0, 2)`.
pub(crate) fn version() -> (usize, usize, usize) {
    let version = tables::blas_of(&tables::blas().opened).unwrap_or(0);
    (version / 10_000, version / 100 % 100, version % 100)
}

/// An object of the library's.
fn create_object<T>(make: impl FnOnce(*mut *mut T) -> CallStatus) -> Result<*mut T, Error> {
    let mut handle = std::ptr::null_mut();
    make(&raw mut handle).into_result()?;
    Ok(handle)
}

fn lib() -> &'static BlasLt {
    tables::blas()
}

/// Returns the library's code of an element type.
fn data_type_code(element: MatrixElement) -> c_int {
    match element {
        MatrixElement::F64 => DataType::CUDA_R_64F as c_int,
        MatrixElement::F32 => DataType::CUDA_R_32F as c_int,
        MatrixElement::F16 => DataType::CUDA_R_16F as c_int,
        MatrixElement::Bf16 => DataType::CUDA_R_16BF as c_int,
        MatrixElement::E4m3 => DataType::CUDA_R_8F_E4M3 as c_int,
        MatrixElement::E5m2 => DataType::CUDA_R_8F_E5M2 as c_int,
    }
}

/// A handle of the current device.
#[derive(Debug)]
pub(crate) struct BlasHandle {
    handle: cublasLtHandle_t,
}

// SAFETY: handles may be used from any thread.
unsafe impl Send for BlasHandle {}
// SAFETY: and from several at once: what a call needs is in its arguments.
unsafe impl Sync for BlasHandle {}

impl BlasHandle {
    /// A handle of the current device.
    pub(crate) fn new() -> Result<Self, Error> {
        if !is_present() {
            let searched = lib().opened.searched.clone();
            return Err(Error::Missing { library: "cuBLASLt library", searched });
        }
        // SAFETY: the place is one for a handle.
        let handle = create_object(|place| unsafe { lib().cublasLtCreate(place) })?;
        Ok(Self { handle })
    }
}

impl Drop for BlasHandle {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { lib().cublasLtDestroy(self.handle) };
    }
}

/// Declares an object of the library with attributes, by the functions that set one and destroy it.
macro_rules! attributed_object {
    ($(#[$about:meta])* $name:ident, $handle:ty, $attribute:ty, $set:ident, $destroy:ident) => {
        $(#[$about])*
        #[derive(Debug)]
        struct $name($handle);

        impl $name {
            fn set_attribute<T: Copy>(&self, attribute: $attribute, value: &T) -> Result<(), Error> {
                let (pointer, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>());
                // SAFETY: the object is alive; the library copies as many bytes as it is told, or refuses.
                unsafe { lib().$set(self.0, attribute as c_int, pointer, bytes) }.into_result()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: created by the library, destroyed once.
                let _ = unsafe { lib().$destroy(self.0) };
            }
        }
    };
}
attributed_object!(
    /// A matrix layout of the library.
    RawLayout, cublasLtMatrixLayout_t, LayoutAttribute, cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayoutDestroy
);
attributed_object!(
    /// The descriptor of an operation.
    MatmulDescriptor, cublasLtMatmulDesc_t, DescAttribute, cublasLtMatmulDescSetAttribute, cublasLtMatmulDescDestroy
);
attributed_object!(
    /// The workspace and alignments that an algorithm may use.
    MatmulPreference,
    cublasLtMatmulPreference_t,
    PreferenceAttribute,
    cublasLtMatmulPreferenceSetAttribute,
    cublasLtMatmulPreferenceDestroy
);

impl RawLayout {
    fn new(layout: MatrixLayout, element: MatrixElement, batch: i32) -> Result<Self, Error> {
        let MatrixLayout { rows, columns, leading, batch_stride } = layout;
        // SAFETY: the place is one for a handle.
        let raw = create_object(|place| unsafe {
            lib().cublasLtMatrixLayoutCreate(place, data_type_code(element), rows, columns, leading)
        })?;
        let raw = Self(raw);
        if batch > 1 {
            raw.set_attribute(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch)?;
            raw.set_attribute(LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride)?;
        }
        Ok(raw)
    }
}

/// The operand addresses of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GemmOperands {
    /// Address of the left matrix.
    pub(crate) a: u64,
    /// Address of the right matrix.
    pub(crate) b: u64,
    /// Address of the bias; ignored without one.
    pub(crate) bias: u64,
    /// Address of the result.
    pub(crate) d: u64,
    /// Addresses of the scales of the left and of the right matrix; ignored without any.
    pub(crate) scales: [u64; 2],
    /// Address and bytes of the workspace.
    pub(crate) workspace: (u64, usize),
}

/// A GEMM with its descriptors and algorithms: those that the library proposes, best first, then variants of these.
#[derive(Debug)]
pub(crate) struct TunableGemm {
    operation: MatmulDescriptor,
    a: RawLayout,
    b: RawLayout,
    c: RawLayout,
    d: RawLayout,
    shape: GemmShape,
    algorithms: Vec<cublasLtMatmulAlgo_t>,
    /// The number of algorithms that the library proposes, which come first.
    proposals: usize,
    /// The number of the one that is used.
    pub(crate) chosen: usize,
}

// SAFETY: descriptors may be used from any thread, one at a time.
unsafe impl Send for TunableGemm {}

impl TunableGemm {
    /// Creates descriptors, and up to `count` algorithms that need at most `workspace` bytes; an error if the library
    /// has none.
    pub(crate) fn new(blas: &BlasHandle, shape: &GemmShape, workspace: usize, count: usize) -> Result<Self, Error> {
        let compute = match (shape.element, shape.numerics.tf32) {
            (MatrixElement::F64, _) => ComputeType::CUBLAS_COMPUTE_64F,
            (MatrixElement::F32, true) => ComputeType::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => ComputeType::CUBLAS_COMPUTE_32F,
        };
        let scale = match shape.element {
            MatrixElement::F64 => DataType::CUDA_R_64F,
            _ => DataType::CUDA_R_32F,
        };
        // SAFETY: the place is one for a handle.
        let operation =
            create_object(|place| unsafe { lib().cublasLtMatmulDescCreate(place, compute as c_int, scale as c_int) })?;
        let operation = MatmulDescriptor(operation);
        let c = match shape.bias {
            GemmBias::Matrix(matrix) => matrix,
            GemmBias::None | GemmBias::Rows => shape.d,
        };
        let c = RawLayout::new(c, shape.element, shape.batch)?;
        let mut gemm = Self {
            operation,
            a: RawLayout::new(shape.a.0, shape.factors[0], shape.batch)?,
            b: RawLayout::new(shape.b.0, shape.factors[1], shape.batch)?,
            c,
            d: RawLayout::new(shape.d, shape.element, shape.batch)?,
            shape: shape.clone(),
            algorithms: Vec::new(),
            proposals: 0,
            chosen: 0,
        };
        gemm.set_attributes()?;
        gemm.algorithms = gemm.query_heuristic(blas, workspace, count)?;
        gemm.proposals = gemm.algorithms.len();
        for proposal in 0..gemm.proposals.min(VARIED_PROPOSALS) {
            gemm.add_variants(blas, proposal, workspace);
        }
        Ok(gemm)
    }

    /// Number of algorithms to choose from.
    pub(crate) fn algorithm_count(&self) -> usize {
        self.algorithms.len()
    }

    /// The number of algorithms that the library proposes, which come first.
    pub(crate) fn proposal_count(&self) -> usize {
        self.proposals
    }

    fn set_attributes(&self) -> Result<(), Error> {
        // `cublasOperation_t`: CUBLAS_OP_N is 0, CUBLAS_OP_T is 1.
        self.operation.set_attribute(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSA, &i32::from(self.shape.a.1))?;
        self.operation.set_attribute(DescAttribute::CUBLASLT_MATMUL_DESC_TRANSB, &i32::from(self.shape.b.1))?;
        if self.shape.bias == GemmBias::Rows {
            let epilogue = Epilogue::CUBLASLT_EPILOGUE_BIAS;
            self.operation.set_attribute(DescAttribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
            let element = data_type_code(self.shape.element);
            self.operation.set_attribute(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &element)?;
        }
        if self.shape.numerics.fp8_fast_accumulation {
            self.operation.set_attribute(DescAttribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1i8)?;
        }
        if self.shape.scales == GemmScales::Vectors {
            let vectors = MatrixScale::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
            SCALE_MODES.into_iter().try_for_each(|mode| self.operation.set_attribute(mode, &vectors))?;
        }
        self.set_scales([NO_SCALES_YET; 2])
    }

    /// Sets the addresses of the scales, if the shape has any.
    fn set_scales(&self, scales: [u64; 2]) -> Result<(), Error> {
        if self.shape.scales == GemmScales::None {
            return Ok(());
        }
        SCALE_POINTERS.into_iter().zip(scales).try_for_each(|(attribute, address)| {
            let pointer = address as *const c_void;
            self.operation.set_attribute(attribute, &pointer)
        })
    }

    fn query_heuristic(
        &self,
        blas: &BlasHandle,
        workspace: usize,
        count: usize,
    ) -> Result<Vec<cublasLtMatmulAlgo_t>, Error> {
        let preference = MatmulPreference::new(workspace, &self.shape)?;
        let mut found: Vec<HeuristicResult> = Vec::with_capacity(count);
        let mut returned = 0;
        // SAFETY: all descriptors are alive; there is room for `count` results.
        unsafe {
            lib().cublasLtMatmulAlgoGetHeuristic(
                blas.handle,
                self.operation.0,
                self.a.0,
                self.b.0,
                self.c.0,
                self.d.0,
                preference.0,
                count as c_int,
                found.as_mut_ptr(),
                &raw mut returned,
            )
        }
        .into_result()?;
        // SAFETY: the library says how many it wrote, of numbers that may be anything.
        unsafe { found.set_len((returned.max(0) as usize).min(count)) };
        let good = found.into_iter().filter(|one| one.state == 0);
        let algorithms: Vec<cublasLtMatmulAlgo_t> = good.map(|one| one.algorithm).collect();
        if algorithms.is_empty() {
            let GemmShape { element, factors, a, b, batch, .. } = &self.shape;
            let status = format!("no algorithm supports {batch} x {a:?} * {b:?} of {factors:?} to {element:?}");
            return Err(Error::Call { call: "cublasLtMatmulAlgoGetHeuristic", status });
        }
        Ok(algorithms)
    }

    /// Adds the variants of a proposal with other custom options, in as much workspace.
    fn add_variants(&mut self, blas: &BlasHandle, proposal: usize, workspace: usize) {
        let proposed = self.algorithms[proposal];
        for option in 0..=custom_option_max(&proposed).min(LAST_CUSTOM_OPTION) {
            let mut variant = proposed;
            let is_new = set_custom_option(&mut variant, option) && !self.algorithms.contains(&variant);
            if is_new && self.workspace_of(blas, &variant).is_some_and(|bytes| bytes <= workspace) {
                self.algorithms.push(variant);
            }
        }
    }

    /// The bytes of workspace that an algorithm needs for this GEMM; `None` if it cannot compute it.
    fn workspace_of(&self, blas: &BlasHandle, algorithm: &cublasLtMatmulAlgo_t) -> Option<usize> {
        // The library may leave fields as they are.
        let mut found = std::mem::MaybeUninit::<HeuristicResult>::zeroed();
        // SAFETY: all descriptors are alive; there is room for a result.
        let status = unsafe {
            lib().cublasLtMatmulAlgoCheck(
                blas.handle,
                self.operation.0,
                self.a.0,
                self.b.0,
                self.c.0,
                self.d.0,
                std::ptr::from_ref(algorithm),
                found.as_mut_ptr(),
            )
        };
        if status.code != 0 {
            return None;
        }
        // SAFETY: numbers that may be anything, zeros where the library has written none.
        let found = unsafe { found.assume_init() };
        (found.state == 0).then_some(found.workspace)
    }

    /// Launches the GEMM on a stream.
    ///
    /// # Safety
    /// The stream's contract ([`CudaStream`](crate::sys::driver::CudaStream)) for the matrices that the shape describes
    /// at the operands' addresses, and for the workspace, which has at least as many bytes as this GEMM was created
    /// with. The GEMM and the handle live until the stream has passed the call.
    pub(crate) unsafe fn issue_gemm(
        &self,
        blas: &BlasHandle,
        operands: &GemmOperands,
        stream: &crate::sys::driver::CudaStream,
    ) -> Result<(), Error> {
        if self.shape.bias == GemmBias::Rows {
            let pointer = operands.bias as *const c_void;
            self.operation.set_attribute(DescAttribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer)?;
        }
        self.set_scales(operands.scales)?;
        let added = matches!(self.shape.bias, GemmBias::Matrix(_));
        let (one, beta) = (1.0f64, if added { 1.0f64 } else { 0.0 });
        let (one32, beta32) = (one as f32, beta as f32);
        let (alpha, beta): (*const c_void, *const c_void) = match self.shape.element {
            MatrixElement::F64 => (std::ptr::from_ref(&one).cast(), std::ptr::from_ref(&beta).cast()),
            _ => (std::ptr::from_ref(&one32).cast(), std::ptr::from_ref(&beta32).cast()),
        };
        let c = if added { operands.bias } else { operands.d };
        let Some(algorithm) = self.algorithms.get(self.chosen) else {
            let status = format!("algorithm {} does not exist", self.chosen);
            return Err(Error::Call { call: "cublasLtMatmul", status });
        };
        // SAFETY: descriptors and stream are alive; scalars are on the host, which is the default pointer
        // mode; what addresses reach is the caller's promise.
        unsafe {
            lib().cublasLtMatmul(
                blas.handle,
                self.operation.0,
                alpha,
                operands.a as *const c_void,
                self.a.0,
                operands.b as *const c_void,
                self.b.0,
                beta,
                c as *const c_void,
                self.c.0,
                operands.d as *mut c_void,
                self.d.0,
                std::ptr::from_ref(algorithm),
                operands.workspace.0 as *mut c_void,
                operands.workspace.1,
                stream.raw_handle(),
            )
        }
        .into_result()
    }
}

/// The greatest custom option of an algorithm; 0, then the only one, if the library does not report it.
fn custom_option_max(algorithm: &cublasLtMatmulAlgo_t) -> u32 {
    let (mut most, mut written) = (0u32, 0);
    let (place, bytes) = (std::ptr::from_mut(&mut most).cast(), size_of::<u32>());
    let attribute = CapAttribute::CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX as c_int;
    // SAFETY: there is room for as many bytes as the library is told.
    let status =
        unsafe { lib().cublasLtMatmulAlgoCapGetAttribute(algorithm, attribute, place, bytes, &raw mut written) };
    if status.code == 0 { most } else { 0 }
}

/// Sets the custom option of an algorithm; returns false if it has that one already, or does not have it.
fn set_custom_option(algorithm: &mut cublasLtMatmulAlgo_t, option: u32) -> bool {
    let before = *algorithm;
    let (value, bytes) = (std::ptr::from_ref(&option).cast(), size_of::<u32>());
    let attribute = ConfigAttribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION as c_int;
    // SAFETY: the library reads as many bytes as it is told.
    let status = unsafe { lib().cublasLtMatmulAlgoConfigSetAttribute(algorithm, attribute, value, bytes) };
    status.code == 0 && *algorithm != before
}

impl MatmulPreference {
    fn new(workspace: usize, shape: &GemmShape) -> Result<Self, Error> {
        // SAFETY: the place is one for a handle.
        let preference = create_object(|place| unsafe { lib().cublasLtMatmulPreferenceCreate(place) })?;
        let preference = Self(preference);
        preference.set_attribute(PreferenceAttribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace)?;
        if shape.remote {
            // No reduction scheme: the sum is not split.
            preference.set_attribute(PreferenceAttribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &0u32)?;
        }
        for (key, alignment) in MIN_ALIGNMENTS.into_iter().zip(shape.alignments) {
            preference.set_attribute(key, &alignment)?;
        }
        Ok(preference)
    }
}
