//! GEMMs of 8-bit floats: computed by the library if it supports them, else widened.
//!
//! cuBLASLt multiplies 8-bit factors on devices from compute capability 8.9 on, if one of them is `__e4m3`, both are
//! contiguous along the axis that the GEMM sums over (its "TN" format), and rows start at multiples of 16 bytes
//! (<https://docs.nvidia.com/cuda/cublas/#cublasltmatmul>, the requirements of FP8 kernels). A factor in another layout
//! is copied into scratch memory. All other factors are converted there to `__half` or `__bfloat`, which hold every
//! 8-bit float exactly.
//!
//! The library would saturate 8-bit results, and it adds the bias of a `float` result in another type: such GEMMs
//! compute `float`, and a kernel of our own adds the bias and rounds once.
//!
//! The library applies scales of factors if it can: one for each factor; one for each row and each column (its "outer
//! vector" scaling, `CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F`) on devices of compute capability 9.0, from cuBLASLt
//! 12.9 on. Otherwise the GEMM computes `float`, and the kernel that rounds multiplies by the scales.

use crate::codegen;
use crate::codegen::job::KernelJob;
use crate::gemm_lowering::{GemmCall, gemm_calls};
use crate::gemm_shape::GemmScales;
use crate::memory_layout::ALIGNMENT;
use crate::operand::SymbolicAddress;
use hostir::ir::DType;
use hostir::plan::{BufferId, BufferView, Function, GemmInst, KernelStep, PointwiseKernel, StepOperand, row_major};

/// Bytes that rows start at multiples of.
pub const ROW: usize = 16;

/// The operations of devices and their library on 8-bit floats; each includes the earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fp8Support {
    /// Nothing.
    Absent,
    /// They multiply 8-bit factors.
    Factors,
    /// GEMMs with a scale for each row and each column.
    Vectors,
}

impl Fp8Support {
    /// The largest support that every one of `all` includes; none if there is none.
    pub fn common(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().min().unwrap_or(Self::Absent)
    }
}

/// The calls of a GEMM, in order. Pieces of scratch memory appear as buffers; [`ExpandedGemm::resolve_operand`] returns
/// their places.
#[derive(Default, Debug)]
pub struct ExpandedGemm {
    /// Conversions and copies of factors.
    pub before: Vec<KernelJob>,
    /// Calls of the library.
    pub gemm_calls: Vec<GemmCall>,
    /// The job that scales, adds the bias and rounds.
    pub after: Option<KernelJob>,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// The offset of each piece of scratch memory, in bytes.
    pub pieces: Vec<usize>,
}

/// True if both factors are 8-bit floats.
pub fn has_fp8_factors(gemm: &GemmInst) -> bool {
    gemm.a.dtype.is_fp8_factor() && gemm.b.dtype.is_fp8_factor()
}

/// The calls of the library that compute a GEMM without any kernel of our own before or after them.
pub fn library_calls(gemm: &GemmInst, support: Fp8Support) -> Option<Vec<GemmCall>> {
    if !has_fp8_factors(gemm) {
        return gemm_calls(gemm);
    }
    let all = expand_gemm(gemm, support)?;
    (all.before.is_empty() && all.after.is_none()).then_some(all.gemm_calls)
}

/// The calls that compute a GEMM of 8-bit floats; `None` if a kernel of our own has to.
pub fn expand_gemm(gemm: &GemmInst, support: Fp8Support) -> Option<ExpandedGemm> {
    let views = [&gemm.a, &gemm.b, &gemm.out];
    if views.iter().any(|view| view.is_empty() || view.dims.len() < 2) {
        return None;
    }
    let tries = [(true, true), (true, false), (false, true), (false, false)];
    let tries = tries.into_iter().filter(|(direct, _)| support >= Fp8Support::Factors || !direct);
    let mut found = tries.filter_map(|(direct, whole)| ExpandedGemm::expand_with(gemm, direct, whole));
    found.find(|all| {
        all.gemm_calls.iter().all(|call| call.shape.scales != GemmScales::Vectors || support >= Fp8Support::Vectors)
    })
}

impl ExpandedGemm {
    /// Expands with 8-bit factors if it is `direct`; the library computes the whole result, with scales and bias, if it
    /// is `whole`.
    fn expand_with(gemm: &GemmInst, direct: bool, whole: bool) -> Option<Self> {
        let out = gemm.out.dtype;
        let short = matches!(out, DType::Half | DType::BFloat16);
        if whole && !(short || out == DType::Float && gemm.bias.is_none()) {
            return None;
        }
        let wide = if whole && out == DType::Half { out } else { DType::BFloat16 };
        let [a_type, b_type] = [&gemm.a, &gemm.b].map(|view| if direct { view.dtype } else { wide });
        let mut all = Self::default();
        let a = all.prepare_factor(&gemm.a, a_type)?;
        let b = transpose_view(&all.prepare_factor(&transpose_view(&gemm.b), b_type)?);
        let target = match whole || out == DType::Float {
            true => gemm.out.clone(),
            false => all.allocate_scratch(&gemm.out.shape(), DType::Float),
        };
        let (bias, scales) = (gemm.bias.clone().filter(|_| whole), gemm.scales.clone().filter(|_| whole));
        all.gemm_calls = gemm_calls(&GemmInst { a, b, bias, scales, out: target.clone() })?;
        if !whole {
            all.after = Some(epilogue_job(gemm, &target)?);
        }
        Some(all)
    }

    /// A factor whose last axis is the summed one: the factor itself if the library supports it, else its copy or
    /// conversion.
    fn prepare_factor(&mut self, view: &BufferView, dtype: DType) -> Option<BufferView> {
        if view.dtype == dtype && is_aligned(view) {
            return Some(view.clone());
        }
        let mut once = view.clone();
        let batch = once.dims.len() - 2;
        once.dims[..batch].iter_mut().filter(|dim| dim.stride == 0).for_each(|dim| dim.extent = dim.extent.min(1));
        let mut piece = self.allocate_scratch(&once.shape(), dtype);
        self.before.push(
            match view.dtype == dtype {
                true => codegen::generate_copy(&once, &piece),
                false => codegen::generate_pointwise(&single_step_kernel(Function::Cast, vec![once], &piece)),
            }
            .ok()?,
        );
        for (dim, full) in piece.dims.iter_mut().zip(&view.dims).filter(|(_, full)| full.stride == 0) {
            if dim.extent != full.extent {
                *dim = hostir::plan::ViewDim { extent: full.extent, stride: 0 };
            }
        }
        Some(piece)
    }

    /// A new piece of scratch memory.
    fn allocate_scratch(&mut self, shape: &[usize], dtype: DType) -> BufferView {
        // Buffers of the plan have small numbers.
        let buffer = BufferId(u32::MAX - self.pieces.len() as u32);
        self.pieces.push(self.scratch);
        let bytes = shape.iter().product::<usize>() * dtype.byte_size();
        self.scratch += bytes.next_multiple_of(ALIGNMENT);
        BufferView { buffer, offset: 0, dims: row_major(shape), dtype }
    }

    fn scratch_start(&self, buffer: BufferId) -> Option<usize> {
        self.pieces.get((u32::MAX - buffer.0) as usize).copied()
    }

    /// Returns the location of a view of a GEMM's operands.
    pub fn resolve_operand(&self, view: BufferView) -> SymbolicAddress {
        match self.scratch_start(view.buffer) {
            Some(start) => SymbolicAddress::Scratch(start + view.offset * view.dtype.byte_size()),
            None => SymbolicAddress::View(view),
        }
    }

    /// Binds pieces as scratch memory of a job of our own.
    pub fn bind_scratch(&self, mut job: KernelJob) -> KernelJob {
        for param in job.launches.iter_mut().flat_map(|launch| &mut launch.params) {
            if let SymbolicAddress::View(view) = param
                && let Some(start) = self.scratch_start(view.buffer)
            {
                *param = SymbolicAddress::Scratch(start + view.offset * view.dtype.byte_size());
            }
        }
        job
    }
}

/// The view with its last two axes exchanged.
fn transpose_view(view: &BufferView) -> BufferView {
    let mut view = view.clone();
    let rank = view.dims.len();
    view.dims.swap(rank - 2, rank - 1);
    view
}

/// Returns true if rows of 8-bit floats are contiguous and start at multiples of [`ROW`].
fn is_aligned(view: &BufferView) -> bool {
    let Some((last, outer)) = view.dims.split_last() else { return false };
    let rows = outer.last().is_some_and(|row| row.extent == 1 || row.stride >= last.extent);
    let whole = outer.iter().all(|dim| dim.extent == 1 || dim.stride.is_multiple_of(ROW));
    last.stride == 1 && rows && view.offset.is_multiple_of(ROW) && whole
}

/// Returns the job that finishes a GEMM from its sums: `out = sums * row scale * column scale + bias` with those that
/// exist, or the sums converted to the result's type.
fn epilogue_job(gemm: &GemmInst, sums: &BufferView) -> Option<KernelJob> {
    let scales = gemm.scale_views().iter().map(|scale| (Function::Mul, scale));
    let mut kernel = single_step_kernel(Function::Cast, vec![sums.clone()], &gemm.out);
    let mut steps: Vec<KernelStep> = Vec::new();
    for (function, view) in scales.chain(gemm.bias.iter().map(|bias| (Function::Add, bias))) {
        let value = steps.len().checked_sub(1).map_or(StepOperand::Input(0), |last| StepOperand::Step(last as u32));
        let args = [value, StepOperand::Input(kernel.inputs.len() as u32)].into_iter().collect();
        steps.push(KernelStep { function, args, compute: DType::Float, result: DType::Float });
        kernel.inputs.push(view.clone());
    }
    if let Some(last) = steps.last_mut() {
        last.result = gemm.out.dtype;
        kernel.steps = steps;
    }
    codegen::generate_pointwise(&kernel).ok()
}

/// One step that computes in `float`.
fn single_step_kernel(function: Function, inputs: Vec<BufferView>, output: &BufferView) -> PointwiseKernel {
    let args = (0..inputs.len() as u32).map(StepOperand::Input).collect();
    let step = KernelStep { function, args, compute: DType::Float, result: output.dtype };
    PointwiseKernel { inputs: inputs.into(), output: output.clone(), steps: vec![step] }
}
