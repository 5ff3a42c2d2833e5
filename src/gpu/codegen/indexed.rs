//! Reads and sums by an index tensor. A kernel cannot report an index outside of its axis: such a read gives bits of 0,
//! and such a sum drops the term.

use crate::codegen::copy::raw_ctype;
use crate::codegen::index_space::{IndexInt, IndexSpace, KernelOperand};
use crate::codegen::job::{KernelJob, KernelLaunch};
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::{ClassSource as _, ComputeClass, TypedExpr, compute_class, storage_ctype};
use crate::codegen::{alias, generate_copy};
use crate::operand::SymbolicAddress;
use crate::unsupported::Unsupported;
use hostir::plan::{AccumulateInst, BufferView, TakeInst, ViewDim};

/// Opens the loop over a flat index `i` below `count`.
fn open_element_loop(w: &mut SourceWriter, ints: IndexInt, count: usize) {
    let (ctype, threads) = (ints.ctype(), ints.literal(THREADS));
    w.open_block(format!(
        "for ({ctype} i = {} * {threads} + threadIdx.x; i < {}; i += gridDim.x * {threads})",
        ints.built_in("blockIdx.x"),
        ints.literal(count),
    ));
}

/// The launch of a kernel with a thread for each of `count` elements.
fn element_launch(ctypes: &[&str], params: Vec<SymbolicAddress>, count: usize, w: SourceWriter) -> KernelLaunch {
    let text = kernel_source(ctypes, THREADS as u32, "", w);
    let blocks = count.div_ceil(THREADS).clamp(1, BLOCKS);
    KernelLaunch { text, params, grid: [blocks as u32, 1, 1], block: [THREADS as u32, 1, 1] }
}

/// Returns true if several elements of a result have the same address.
fn has_repeated_elements(view: &BufferView) -> bool {
    view.dims.iter().any(|dim| dim.stride == 0 && dim.extent > 1)
}

/// The job of a read by index. Elements are only moved, 16 bytes at a time in contiguous runs. If the result overlaps
/// an operand, the reason is `overlap`.
///
/// # Errors
/// [`Unsupported`] if shapes do not fit, the result overlaps an operand or itself, or kernels cannot move elements of
/// this size.
pub fn generate_take(take: &TakeInst) -> Result<KernelJob, Unsupported> {
    let (input, index, output) = (&take.input, &take.index, &take.output);
    let shape = output.shape();
    if input.dims.len() != shape.len() || index.shape() != shape || take.axis >= shape.len() {
        return Err(Unsupported::Malformed("a read by index of shapes that do not fit"));
    }
    alias::check_overlap([input, index], output, false)?;
    if has_repeated_elements(output) {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let mut chosen = input.dims[take.axis];
    let mut first = KernelOperand::from_view(input, raw_ctype(input.dtype.byte_size())?);
    first.strides[take.axis] = 0;
    let chooses = KernelOperand::from_view(index, storage_ctype(index.dtype)?);
    let result = KernelOperand::from_view(output, raw_ctype(output.dtype.byte_size())?);
    let mut space = IndexSpace::new(&shape, vec![first, chooses, result]);
    space.order_by(2);
    space.collapse_axes();
    widen_pairs(&mut space, &mut chosen)?;
    if output.is_empty() {
        return Ok(KernelJob::default());
    }
    let launches = vec![take_launch(&space, index, chosen, input.last_offset())?];
    Ok(KernelJob { launches, ..KernelJob::default() }.noted("take", |note| note.take(take)))
}

/// Joins pairs of elements along the last axis, up to 16 bytes, while one index applies to both elements of a pair.
fn widen_pairs(space: &mut IndexSpace, chosen: &mut ViewDim) -> Result<(), Unsupported> {
    let Some(last) = space.extents.len().checked_sub(1) else { return Ok(()) };
    loop {
        let alone = space.operands[1].strides[last] == 0 && chosen.stride.is_multiple_of(2);
        let fits = space.operands[0].allows_pairs() && space.operands[2].allows_pairs();
        if !alone || !space.extents[last].is_multiple_of(2) || !fits {
            break;
        }
        space.extents[last] /= 2;
        chosen.stride /= 2;
        for operand in [0, 2] {
            let operand = &mut space.operands[operand];
            operand.size *= 2;
            operand.ctype = raw_ctype(operand.size)?;
            operand.strides[..last].iter_mut().for_each(|stride| *stride /= 2);
        }
    }
    Ok(())
}

fn take_launch(
    space: &IndexSpace,
    index: &BufferView,
    chosen: ViewDim,
    reach: usize,
) -> Result<KernelLaunch, Unsupported> {
    let count = space.index_count();
    let ints = IndexInt::for_sizes(count, space.max_offset().max(reach));
    let mut w = SourceWriter::kernel_body();
    open_element_loop(&mut w, ints, count);
    let names = ints.split_index(&mut w, "i", &space.extents, "a");
    let at = |operand: usize| ints.linear_offset(&names, &space.operands[operand].strides, 1);
    let place = TypedExpr::from_memory(index.dtype, &format!("p1[{}]", at(1)))?.text;
    w.line(format!("const long long k = {place};"));
    let (ctype, size) = (space.operands[0].ctype, space.operands[0].size);
    let zero = match size {
        16 => "make_ulonglong2(0ull, 0ull)".to_owned(),
        _ => format!("({ctype})0"),
    };
    let (base, stride) = (at(0), ints.literal(chosen.stride));
    let from = format!("p0[{base} + ({})k * {stride}]", ints.ctype());
    let inside = format!("k >= 0 && k < {}ll", chosen.extent);
    w.line(format!("q[{}] = {inside} ? {from} : {zero};", at(2)));
    w.close_block();
    Ok(element_launch(&space.param_ctypes(), space.kernel_params(), count, w))
}

/// The job of a sum by index, in the order of the index and in the computation type: the bits equal those of the CPU
/// backend. The result may be in the place of the base; if it overlaps an operand otherwise, the reason is `overlap`.
///
/// The rows of the value that are added to one row form a chain. A first kernel finds for each row of the value the
/// next one of its chain, and whether it is the chain's first; the last kernel adds along the chains.
///
/// # Errors
/// [`Unsupported`] if shapes or types do not fit, the result overlaps an operand or itself, or kernels do not compute
/// with the type.
pub fn generate_accumulate(put: &AccumulateInst) -> Result<KernelJob, Unsupported> {
    let AccumulateInst { base, index, value, output } = put;
    let shape = output.shape();
    let fits = !shape.is_empty()
        && base.shape() == shape
        && value.dims.len() == shape.len()
        && value.shape()[1..] == shape[1..];
    if !fits || index.shape() != value.shape()[..1] || value.dtype != output.dtype {
        return Err(Unsupported::Malformed("a sum by index of shapes or types that do not fit"));
    }
    alias::check_overlap([index, value], output, false)?;
    alias::check_overlap([base], output, true)?;
    if has_repeated_elements(output) {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let mut launches = Vec::new();
    if !alias::is_same_view(base, output) {
        launches.extend(generate_copy(base, output)?.launches);
    }
    let (chain, sums) = (chain_launch(index, shape[0])?, sum_launch(put)?);
    if value.is_empty() {
        return Ok(KernelJob { launches, ..KernelJob::default() }.noted("accumulate", |note| note.accumulate(put)));
    }
    launches.extend([chain, sums]);
    let job = KernelJob { launches, scratch: index.len() * size_of::<u64>(), ..KernelJob::default() };
    Ok(job.noted("accumulate", |note| note.accumulate(put)))
}

/// Writes for each `j` the next position of the index with its value, times two, plus one for the first position of a
/// row that exists.
fn chain_launch(index: &BufferView, rows: usize) -> Result<KernelLaunch, Unsupported> {
    let count = index.len();
    let stride = index.dims[0].stride;
    let ints = IndexInt::for_sizes(2 * count, index.last_offset());
    let stride = ints.literal(stride);
    let [own, before, after] = ["i", "j", "n"]
        .map(|place| TypedExpr::from_memory(index.dtype, &format!("p0[{place} * {stride}]")).map(|value| value.text));
    let (own, before, after) = (own?, before?, after?);
    let (ctype, limit) = (ints.ctype(), ints.literal(count));
    let mut w = SourceWriter::kernel_body();
    open_element_loop(&mut w, ints, count);
    w.line(format!("const long long k = {own};"));
    w.line(format!("bool first = k >= 0 && k < {rows}ll;"));
    w.line(format!("for ({ctype} j = 0; first && j < i; ++j) first = {before} != k;"));
    w.line(format!("{ctype} n = i + 1;"));
    w.line(format!("while (n < {limit} && {after} != k) ++n;"));
    w.line("q[i] = (unsigned long long)n * 2ull + (first ? 1ull : 0ull);");
    w.close_block();
    let params = vec![SymbolicAddress::View(index.clone()), SymbolicAddress::Scratch(0)];
    Ok(element_launch(&[storage_ctype(index.dtype)?, "unsigned long long"], params, count, w))
}

/// Adds along the chains.
fn sum_launch(put: &AccumulateInst) -> Result<KernelLaunch, Unsupported> {
    let AccumulateInst { index, value, output, .. } = put;
    let ctype = storage_ctype(output.dtype)?;
    let mut operands = vec![KernelOperand::from_view(value, ctype), KernelOperand::from_view(output, ctype)];
    for operand in &mut operands {
        operand.strides.remove(0);
    }
    // The row axis stays an axis of its own, the other axes are joined.
    let mut space = IndexSpace::new(&output.shape()[1..], operands);
    space.order_by(1);
    space.collapse_axes();
    let (n, count) = (index.len(), value.len());
    let ints = IndexInt::for_sizes(2 * count, value.last_offset().max(output.last_offset()).max(index.last_offset()));
    let mut extents = vec![n];
    extents.extend(&space.extents);
    let mut w = SourceWriter::kernel_body();
    open_element_loop(&mut w, ints, count);
    let names = ints.split_index(&mut w, "i", &extents, "a");
    let columns: Vec<String> = [0, 1].map(|k| ints.linear_offset(&names[1..], &space.operands[k].strides, 1)).into();
    w.line("unsigned long long c = p1[a0];");
    w.open_block("if (c & 1ull)");
    let place = format!("p0[a0 * {}]", ints.literal(index.dims[0].stride));
    let row = TypedExpr::from_memory(index.dtype, &place)?.text;
    let row = format!("({})({row}) * {}", ints.ctype(), ints.literal(output.dims[0].stride));
    w.line(format!("{ctype}* const y = q + ({row} + {});", columns[1]));
    let kind = compute_class(output.dtype)?;
    w.line(format!("{} s = {};", kind.ctype(), TypedExpr::from_memory(output.dtype, "(*y)")?.text));
    let (index_type, limit) = (ints.ctype(), ints.literal(n));
    w.open_block(format!("for ({index_type} j = a0; j < {limit}; j = ({index_type})(p1[j] >> 1))"));
    let from = format!("p2[j * {} + {}]", ints.literal(value.dims[0].stride), columns[0]);
    let one = TypedExpr::from_memory(value.dtype, &from)?.text;
    w.line(match kind {
        ComputeClass::I64 | ComputeClass::U64 => format!("s = i_add(s, {one});"),
        ComputeClass::F64 | ComputeClass::F32 => format!("s = s + {one};"),
    });
    w.close_block();
    w.line(format!("*y = {};", TypedExpr::new(kind, "s").into_memory(output.dtype)?));
    w.close_all_blocks(2);
    let params = [index, value, output].map(|view| SymbolicAddress::View(view.clone()));
    let [index_at, value_at, output_at] = params;
    let params = vec![index_at, SymbolicAddress::Scratch(0), value_at, output_at];
    let ctypes = [storage_ctype(index.dtype)?, "unsigned long long", ctype, ctype];
    Ok(element_launch(&ctypes, params, count, w))
}
