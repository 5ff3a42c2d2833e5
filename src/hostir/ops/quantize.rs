//! Block quantisation: each block of an axis has a scale of its own.
//!
//! The blocks are 16 elements of `__e2m1` with scales in `__e4m3` (nvFP4), or 32 elements of `__e4m3` with scales in
//! `__e8m0` (mxFP8), as in nvFuser's kernels. Conversions to narrow types do not saturate here
//! (`docs/decisions/fp8-never-saturates.md`), so values are clamped to the type's range before.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::axes::pairing::{AxisMismatch, LinkResult, LinkSide, has_split_axis, link_pairs, operand_side};
use crate::diag::message;
use crate::diag::{Diag, Diags, Message, codes};
use crate::ir::places::with_declaration;
use crate::ir::{
    AttrKey, AxisLink, CallPadding, DType, OpId, OpIdentity, OpLayout, Program, StandaloneRule, TensorId, quoted_op,
    quoted_type,
};
use crate::plan::{
    BufferView, ComposedKernel, Function, InstKind, PlanBuilder, RedOp, ReduceInst, ReductionFold, ScalarValue,
    StepOperand, ViewDim,
};
use smallvec::smallvec;

/// `block_quantize`.
pub const BLOCK_QUANTIZE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "block_quantize",
        layout: OpLayout::ResultList,
        results: 2,
        reshapes: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Scales each block of 16 or 32 elements of the last axis by its largest magnitude, and rounds to a narrow float: scales, elements.",
    args: &[ArgSpec::operand(ArgKind::Tensor)],
    relate: Some(link_block_quantize),
    infer: Infer::Written,
    checks: &[check_block_quantize],
    repair: None,
    lower: Lower::Instructions(lower_block_quantize),
};

/// `grouped_block_quantize`.
pub const GROUPED_BLOCK_QUANTIZE: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "grouped_block_quantize",
        layout: OpLayout::ResultList,
        results: 2,
        reshapes: true,
        indexed: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "As `block_quantize`, with the scales of each group of rows in blocks of 128 by 4.",
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(refuse_blocked_scales),
};

/// The layout of blocked scales.
const SCALE_LAYOUT: AttrKey = AttrKey::Own(0);

/// `preprocessGroupedMatmulInputSf`.
pub const PREPROCESS_GROUPED_SCALES: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "preprocessGroupedMatmulInputSf",
        layout: OpLayout::ArgumentBlock,
        reshapes: true,
        indexed: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Copies the scales of each group of rows to blocks of 128 by 4, as Cutlass reads them.",
    args: &[
        ArgSpec::keyed_operand("input").with_equals(super::spec::EqualsSpacing::Spaced),
        ArgSpec::keyed_operand("input_offsets").with_equals(super::spec::EqualsSpacing::Spaced),
        ArgSpec::keyed_operand("output_offsets").with_equals(super::spec::EqualsSpacing::Spaced),
        ArgSpec::spaced("layout", SCALE_LAYOUT, ArgKind::Word(&["Block128x4"])),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(refuse_blocked_scales),
};

/// `CutlassNvfp4GroupedMmaOp`.
pub const CUTLASS_GROUPED_MATMUL: OpSpec = OpSpec {
    identity: OpIdentity {
        name: "CutlassNvfp4GroupedMmaOp",
        layout: OpLayout::OneLine(CallPadding::Tight),
        standalone: StandaloneRule::Yes,
        reshapes: true,
        indexed: true,
        ..OpIdentity::TENSOR_OP
    },
    spellings: &[],
    summary: "Computes a GEMM of nvFP4 for each group of rows, with scales in blocks of 128 by 4.",
    args: &[
        ArgSpec::keyed_operand("mat1"),
        ArgSpec::keyed_operand("mat2"),
        ArgSpec::keyed_operand("scale1"),
        ArgSpec::keyed_operand("scale2"),
        ArgSpec::keyed_operand("alpha"),
        ArgSpec::keyed_operand("problem_sizes"),
        ArgSpec::keyed_operand("expert_offsets"),
        ArgSpec::keyed_operand("sf_offsets"),
    ],
    relate: None,
    infer: Infer::Written,
    checks: &[],
    repair: None,
    lower: Lower::Instructions(refuse_blocked_scales),
};

/// Refuses ops with scales that are larger in memory than their type says.
fn refuse_blocked_scales(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let name = quoted_op(cx.program, id);
    let message = message!("`{}` cannot run: the memory of its scales is not in the text", name);
    let note = "nvFuser stores them in padded blocks of 128 rows and 4 columns for each group, which no extent of the \
                program gives; `block_quantize` has scales in row-major order";
    Err(cx.error_here(codes::CANNOT_RUN, message).with_note(note))
}

/// The number types of a quantisation.
struct BlockFormat {
    /// The elements of a block.
    block: usize,
    scales: DType,
    /// The largest number of the element type.
    largest: f32,
}

impl BlockFormat {
    fn of_elements(dtype: DType) -> Option<Self> {
        match dtype {
            DType::Float4E2M1 => Some(Self { block: 16, scales: DType::Float8E4M3, largest: 6.0 }),
            DType::Float8E4M3 => Some(Self { block: 32, scales: DType::Float8E8M0, largest: 448.0 }),
            _ => None,
        }
    }
}

/// The scales and the elements that an op gives.
fn results(program: &Program, id: OpId) -> Option<[TensorId; 2]> {
    let mut results = program.op(id).output_tensors();
    Some([results.next()?, results.next()?])
}

/// All axes but the last, along which blocks lie.
fn link_block_quantize(program: &Program, op: OpId, links: &mut Vec<AxisLink>) -> LinkResult {
    let from = operand_side(program, op, 0)?;
    let Some(results) = results(program, op) else { return Ok(()) };
    let axes = from.stored_positions();
    for to in results.map(|tensor| LinkSide::new(program, tensor)) {
        let into = to.stored_positions();
        if has_split_axis(&[&from, &to]) {
            continue;
        }
        if axes.is_empty() || into.len() != axes.len() {
            let (name, tensor) = (quoted_op(program, op), program.quoted_tensor(to.tensor));
            let need = axes.len().max(1);
            let message =
                message!("`{}` needs a result of rank {}, but `{}` has rank {}", name, need, tensor, into.len());
            return Err(AxisMismatch { code: codes::RANK, message, note: Message::default(), tensor: Some(to.tensor) });
        }
        link_pairs(&from, &to, &axes[..axes.len() - 1], &into[..axes.len() - 1], links);
    }
    Ok(())
}

/// V32 and V31: elements and scales of one format, an operand in floats, whole blocks.
fn check_block_quantize(program: &Program, id: OpId, diags: &mut Diags) {
    let (Some(input), Some([scales, elements])) = (program.op(id).input_tensors().next(), results(program, id)) else {
        return;
    };
    let dtype = |tensor: TensorId| program.tensor(tensor).dtype;
    if !matches!(dtype(input), DType::Float | DType::Half | DType::BFloat16) {
        let [float, half, short] = [DType::Float, DType::Half, DType::BFloat16].map(quoted_type);
        report_type(program, id, input, message!("an operand in `{}`, `{}` or `{}`", float, half, short), diags);
    }
    let Some(format) = BlockFormat::of_elements(dtype(elements)) else {
        let [small, wide] = [DType::Float4E2M1, DType::Float8E4M3].map(quoted_type);
        return report_type(program, id, elements, message!("elements in `{}` or `{}`", small, wide), diags);
    };
    if dtype(scales) != format.scales {
        let need = message!("scales in `{}` for these elements", quoted_type(format.scales));
        report_type(program, id, scales, need, diags);
    }
    let [all, parts, kept] = [input, scales, elements].map(|tensor| last_extent(program, tensor));
    let block = format.block as i64;
    if let Some(all) = all.filter(|all| all % block != 0) {
        let name = program.quoted_tensor(input);
        let message = message!("the last axis of `{}` has {} elements, which are no blocks of {}", name, all, block);
        diags.push(with_declaration(Diag::error(codes::EXTENT, program.op_span(id), message), program, input, id));
    } else if let Some(all) = all {
        for (tensor, found, need) in [(scales, parts, all / block), (elements, kept, all)] {
            if let Some(found) = found.filter(|&found| found != need) {
                let name = program.quoted_tensor(tensor);
                let message = message!("the last axis of `{}` has {} elements, but needs {}", name, found, need);
                let diag = Diag::error(codes::EXTENT, program.op_span(id), message);
                diags.push(with_declaration(diag, program, tensor, id));
            }
        }
    }
}

fn report_type(program: &Program, id: OpId, tensor: TensorId, need: Message, diags: &mut Diags) {
    let (name, found) = (program.quoted_tensor(tensor), quoted_type(program.tensor(tensor).dtype));
    let message = message!("`block_quantize` needs {}, but `{}` is {}", need, name, found);
    diags.push(with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, tensor, id));
}

/// The extent of the last stored axis, if it is a constant.
fn last_extent(program: &Program, tensor: TensorId) -> Option<i64> {
    let side = LinkSide::new(program, tensor);
    let last = side.stored_positions().last().copied().filter(|_| !side.axes.split)?;
    program.exprs().as_int(side.axes.axes[last as usize].extent)
}

/// The last axis of a view as blocks.
fn blocks_of_view(mut view: BufferView, block: usize) -> BufferView {
    if let Some(last) = view.dims.pop() {
        view.dims.push(ViewDim { extent: last.extent / block, stride: last.stride * block });
        view.dims.push(ViewDim { extent: block, stride: last.stride });
    }
    view
}

/// `block_quantize`: the largest magnitude of each block, its scale, and the elements over it.
fn lower_block_quantize(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let input = cx.operand_tensor(cx.program.op(id), 0)?;
    let Some([scales, elements]) = results(cx.program, id) else {
        return Err(cx.error_here(codes::NEEDED, "the results are unknown"));
    };
    let Some(format) = BlockFormat::of_elements(cx.tensor_dtype(elements)) else {
        return Err(cx.error_here(codes::CANNOT_RUN, "the element type of the result has no blocks"));
    };
    let whole = cx.input_view(input)?;
    let (scales_view, out) = (cx.output_view(scales)?, cx.output_view(elements)?);
    let mut need = whole.shape();
    if out.shape() != need || need.last().is_none_or(|last| !last.is_multiple_of(format.block)) {
        return Err(cx.shape_error(elements, &out.shape(), input, &need));
    }
    need.iter_mut().last().into_iter().for_each(|last| *last /= format.block);
    if scales_view.shape() != need {
        return Err(cx.shape_error(scales, &scales_view.shape(), input, &whole.shape()));
    }
    if out.is_empty() {
        return Ok(());
    }
    let scratch = cx.scratch_start();
    let whole = blocks_of_view(whole, format.block);
    let maxima = emit_largest_magnitudes(cx, input, whole.clone(), &need)?;
    format.emit_scales(cx, maxima, scales_view.clone())?;
    format.emit_elements(cx, whole, scales_view, blocks_of_view(out, format.block))?;
    cx.free_scratch_since(scratch)
}

/// The largest magnitude of each block, in `float`; NaN do not count.
fn emit_largest_magnitudes(
    cx: &mut PlanBuilder<'_>,
    tensor: TensorId,
    blocks: BufferView,
    shape: &[usize],
) -> Result<BufferView, Diag> {
    let magnitudes = cx.new_scratch(tensor, &blocks.shape(), DType::Float)?;
    let mut kernel = ComposedKernel::default();
    let element = kernel.input(blocks);
    kernel.apply_function(Function::Abs, DType::Float, &[element]);
    kernel.emit(cx, magnitudes.clone())?;
    let maxima = cx.new_scratch(tensor, shape, DType::Float)?;
    let least = ScalarValue::Float(f64::NEG_INFINITY);
    cx.emit_inst(InstKind::Reduce(Box::new(ReduceInst {
        op: ReductionFold { op: RedOp::FMax, initial: Some(least) },
        axes: smallvec![shape.len()],
        input: magnitudes,
        output: maxima.clone(),
    })))?;
    Ok(maxima)
}

/// A constant of a kernel.
fn real(value: f32) -> StepOperand {
    StepOperand::Const(ScalarValue::Float(f64::from(value)))
}

impl BlockFormat {
    /// The scales of blocks: over the largest number of `__e2m1`, rounded; over that of `__e4m3`, rounded up to a power
    /// of two.
    fn emit_scales(&self, cx: &mut PlanBuilder<'_>, maxima: BufferView, scales: BufferView) -> Result<(), Diag> {
        let mut kernel = ComposedKernel::default();
        let largest = kernel.input(maxima);
        let float = DType::Float;
        if self.scales == DType::Float8E4M3 {
            let scale = kernel.apply_function(Function::Div, float, &[largest, real(self.largest)]);
            kernel.apply_function(Function::Min, float, &[scale, real(448.0)]);
        } else {
            let scale = kernel.apply_function(Function::Mul, float, &[largest, real(1.0 / self.largest)]);
            let scale = kernel.apply_function(Function::Min, float, &[scale, real(f32::MAX)]);
            let power = kernel.convert(float, self.scales, scale);
            let is_less = kernel.compare(Function::Lt, float, [power, scale]);
            let next = kernel.apply_function(Function::Mul, float, &[power, real(2.0)]);
            kernel.apply_function(Function::Where, float, &[is_less, next, power]);
        }
        kernel.emit(cx, scales)
    }

    /// The elements over the scales of their blocks, rounded.
    fn emit_elements(
        &self,
        cx: &mut PlanBuilder<'_>,
        whole: BufferView,
        scales: BufferView,
        out: BufferView,
    ) -> Result<(), Diag> {
        let mut repeated = scales;
        repeated.dims.push(ViewDim { extent: self.block, stride: 0 });
        let mut kernel = ComposedKernel::default();
        let (element, scale) = (kernel.input(whole), kernel.input(repeated));
        let float = DType::Float;
        let inverse = kernel.apply_function(Function::Div, float, &[real(1.0), scale]);
        let factor = if self.scales == DType::Float8E4M3 {
            kernel.apply_function(Function::Min, float, &[inverse, real(f32::MAX)])
        } else {
            // The smallest scale stands for 1.
            let is_least = kernel.compare(Function::Le, float, [scale, real(f32::from_bits(1 << 22))]);
            kernel.apply_function(Function::Where, float, &[is_least, real(1.0), inverse])
        };
        let value = kernel.apply_function(Function::Mul, float, &[element, factor]);
        let value = kernel.apply_function(Function::Max, float, &[value, real(-self.largest)]);
        kernel.apply_function(Function::Min, float, &[value, real(self.largest)]);
        kernel.emit(cx, out)
    }
}
