//! Reads and writes by an index tensor. A kernel cannot report an index outside of its axis: such a read gives bits of
//! 0, and such a write is left out.

use crate::codegen::copy::raw_ctype;
use crate::codegen::index_space::{IndexInt, IndexSpace, KernelOperand};
use crate::codegen::job::{KernelJob, KernelLaunch};
use crate::codegen::reduce::AccumulateOp;
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::{ClassSource as _, TypedExpr, storage_ctype};
use crate::codegen::{alias, generate_copy};
use crate::operand::SymbolicAddress;
use crate::unsupported::Unsupported;
use hostir::plan::{AccumulateInst, BufferView, TakeInst, ViewDim, is_same_view, row_major};

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

/// The job of a write by index, in row-major order and in the computation type: the bits equal those of the CPU backend.
/// The result may be in the place of the base; if it overlaps an operand otherwise, the reason is `overlap`.
///
/// The elements of the value along the axis that go to one place form a chain. A first kernel finds for each element of
/// the index the next one of its chain, and whether it is the chain's first; the last kernel walks along the chains.
///
/// # Errors
/// [`Unsupported`] if shapes or types do not fit, the result overlaps an operand or itself, or kernels do not compute
/// with the type.
pub fn generate_accumulate(put: &AccumulateInst) -> Result<KernelJob, Unsupported> {
    let AccumulateInst { base, index, value, output, .. } = put;
    if !put.has_fitting_shapes() || value.dtype != output.dtype {
        return Err(Unsupported::Malformed("a write by index of shapes or types that do not fit"));
    }
    alias::check_overlap([index, value], output, false)?;
    alias::check_overlap([base], output, true)?;
    if has_repeated_elements(output) {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let mut launches = Vec::new();
    if !is_same_view(base, output) {
        launches.extend(generate_copy(base, output)?.launches);
    }
    let chains = distinct_indices(index, put.axis);
    let (chain, walk) = (chain_launch(&chains, put)?, walk_launch(&chains, put)?);
    if value.is_empty() {
        return Ok(KernelJob { launches, ..KernelJob::default() }.noted("accumulate", |note| note.accumulate(put)));
    }
    launches.extend([chain, walk]);
    let job = KernelJob { launches, scratch: chains.len() * size_of::<u64>(), ..KernelJob::default() };
    Ok(job.noted("accumulate", |note| note.accumulate(put)))
}

/// The index without the axes along which elements share one, except the axis that it chooses from.
fn distinct_indices(index: &BufferView, axis: usize) -> BufferView {
    let mut distinct = index.clone();
    for (at, dim) in distinct.dims.iter_mut().enumerate() {
        if dim.stride == 0 && at != axis {
            dim.extent = dim.extent.min(1);
        }
    }
    distinct
}

/// Writes for each index the next position along the axis with its value, times two, plus one for the first position of
/// a place that exists.
fn chain_launch(chains: &BufferView, put: &AccumulateInst) -> Result<KernelLaunch, Unsupported> {
    let (count, axis) = (chains.len(), put.axis);
    let ints = IndexInt::for_sizes(2 * count, chains.last_offset());
    let mut strides: Vec<usize> = chains.dims.iter().map(|dim| dim.stride).collect();
    let stride = ints.literal(std::mem::take(&mut strides[axis]));
    let mut w = SourceWriter::kernel_body();
    open_element_loop(&mut w, ints, count);
    let names = ints.split_index(&mut w, "i", &chains.shape(), "a");
    let line = ints.linear_offset(&names, &strides, 1);
    let at = names[axis].as_str();
    let [own, before, after] = [at, "j", "n"].map(|place| {
        TypedExpr::from_memory(chains.dtype, &format!("p0[{line} + {place} * {stride}]")).map(|value| value.text)
    });
    let (own, before, after) = (own?, before?, after?);
    let (ctype, limit) = (ints.ctype(), ints.literal(chains.dims[axis].extent));
    let places = put.output.dims[axis].extent;
    w.line(format!("const long long k = {own};"));
    w.line(format!("bool first = k >= 0 && k < {places}ll;"));
    w.line(format!("for ({ctype} j = 0; first && j < {at}; ++j) first = {before} != k;"));
    w.line(format!("{ctype} n = {at} + 1;"));
    w.line(format!("while (n < {limit} && {after} != k) ++n;"));
    w.line("q[i] = (unsigned long long)n * 2ull + (first ? 1ull : 0ull);");
    w.close_block();
    let params = vec![SymbolicAddress::View(chains.clone()), SymbolicAddress::Scratch(0)];
    Ok(element_launch(&[storage_ctype(chains.dtype)?, "unsigned long long"], params, count, w))
}

/// The C++ type of the elements that a write by index combines, or only moves.
fn element_ctype(put: &AccumulateInst) -> Result<&'static str, Unsupported> {
    match put.combine {
        Some(_) => storage_ctype(put.output.dtype),
        None => raw_ctype(put.output.dtype.byte_size()),
    }
}

/// The axes of a write by index other than its own, joined where possible: the strides of the value, the output, the
/// index and the chains.
fn other_axes(chains: &BufferView, put: &AccumulateInst) -> Result<IndexSpace, Unsupported> {
    let ctype = element_ctype(put)?;
    let mut operands = vec![KernelOperand::from_view(&put.value, ctype), KernelOperand::from_view(&put.output, ctype)];
    operands.push(KernelOperand::from_view(&put.index, storage_ctype(put.index.dtype)?));
    let mut positions = KernelOperand::index(0, chains.dims.len());
    let packed = row_major(&chains.shape());
    positions.strides = packed.iter().zip(&put.index.dims).map(|(dim, own)| dim.stride * own.stride.min(1)).collect();
    operands.push(positions);
    let mut extents = put.value.shape();
    extents.remove(put.axis);
    for operand in &mut operands {
        operand.strides.remove(put.axis);
    }
    let mut space = IndexSpace::new(&extents, operands);
    space.order_by(1);
    space.collapse_axes();
    Ok(space)
}

/// Walks along the chains.
fn walk_launch(chains: &BufferView, put: &AccumulateInst) -> Result<KernelLaunch, Unsupported> {
    let AccumulateInst { index, value, axis, output, .. } = put;
    let (ctype, axis) = (element_ctype(put)?, *axis);
    let space = other_axes(chains, put)?;
    let (n, count) = (index.dims[axis].extent, value.len());
    let reach = [value, output, index].map(BufferView::last_offset).into_iter().max().unwrap_or(0);
    let ints = IndexInt::for_sizes(2 * count, reach);
    let mut extents = vec![n];
    extents.extend(&space.extents);
    let mut w = SourceWriter::kernel_body();
    open_element_loop(&mut w, ints, count);
    let names = ints.split_index(&mut w, "i", &extents, "a");
    let [from, to, place, chain] = [0, 1, 2, 3].map(|k| ints.linear_offset(&names[1..], &space.operands[k].strides, 1));
    let step = ints.literal(row_major(&chains.shape())[axis].stride);
    w.line(format!("unsigned long long c = p1[{chain} + a0 * {step}];"));
    w.open_block("if (c & 1ull)");
    let place = format!("p0[{place} + a0 * {}]", ints.literal(index.dims[axis].stride));
    let place = TypedExpr::from_memory(index.dtype, &place)?.text;
    let place = format!("({})({place}) * {}", ints.ctype(), ints.literal(output.dims[axis].stride));
    w.line(format!("{ctype}* const y = q + ({place} + {to});"));
    let (index_type, limit) = (ints.ctype(), ints.literal(n));
    let next = format!("j = ({index_type})(p1[{chain} + j * {step}] >> 1)");
    let element = format!("p2[{from} + j * {}]", ints.literal(value.dims[axis].stride));
    let each = format!("for ({index_type} j = a0; j < {limit}; {next})");
    match put.combine {
        None => w.line(format!("{each} *y = {element};")),
        Some(op) => {
            let op = AccumulateOp::new(op, output.dtype)?;
            w.line(format!("{} s = {};", op.class.ctype(), TypedExpr::from_memory(output.dtype, "(*y)")?.text));
            w.open_block(each);
            w.line(format!("const {} x = {};", op.class.ctype(), TypedExpr::from_memory(value.dtype, &element)?.text));
            w.line(format!("s = {};", op.combine_values("s", "x")));
            w.close_block();
            w.line(format!("*y = {};", TypedExpr::new(op.class, "s").into_memory(output.dtype)?));
        }
    }
    w.close_all_blocks(2);
    let [index_at, value_at, output_at] = [index, value, output].map(|view| SymbolicAddress::View(view.clone()));
    let params = vec![index_at, SymbolicAddress::Scratch(0), value_at, output_at];
    let ctypes = [storage_ctype(index.dtype)?, "unsigned long long", ctype, ctype];
    Ok(element_launch(&ctypes, params, count, w))
}
