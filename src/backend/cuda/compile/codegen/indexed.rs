//! Reads and sums where an index tensor says. A kernel cannot report an index outside of its axis: such a read
//! gives bits of 0, and what such an index would add is dropped.

use crate::codegen::copy::raw;
use crate::codegen::index_space::{Ints, Operand, Space};
use crate::codegen::job::{Job, Launch, Param};
use crate::codegen::source_writer::{Writer, kernel};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::{Class, ClassSource as _, Value, class, storage};
use crate::codegen::{alias, copy};
use crate::unsupported::Unsupported;
use hostir::plan::{Accumulate, Dim, Take, View};

/// Opens the loop over a flat index `i` below `count`.
fn each(w: &mut Writer, ints: Ints, count: usize) {
    let (ctype, threads) = (ints.ctype(), ints.literal(THREADS));
    w.open(format!(
        "for ({ctype} i = {} * {threads} + threadIdx.x; i < {}; i += gridDim.x * {threads})",
        ints.built_in("blockIdx.x"),
        ints.literal(count),
    ));
}

/// The launch of a kernel that [`each`] element of `count` has a thread of.
fn launch(ctypes: &[&str], params: Vec<Param>, count: usize, w: Writer) -> Launch {
    let text = kernel(ctypes, THREADS as u32, "", w);
    let blocks = count.div_ceil(THREADS).clamp(1, BLOCKS);
    Launch { text, params, grid: [blocks as u32, 1, 1], block: [THREADS as u32, 1, 1] }
}

/// Whether some elements of a result have one place.
fn repeats(view: &View) -> bool {
    view.dims.iter().any(|dim| dim.stride == 0 && dim.extent > 1)
}

/// The job of a read by index. Elements are only moved, 16 bytes at a time where runs of them are. If the
/// result overlaps what is read, the reason is `overlap`.
pub fn take(take: &Take) -> Result<Job, Unsupported> {
    let (input, index, output) = (&take.input, &take.index, &take.output);
    let shape = output.shape();
    let agrees = |view: &View| view.dims.len() == shape.len();
    if !agrees(input) || index.shape() != shape || take.axis >= shape.len() {
        return Err(Unsupported::Malformed("a read by index of shapes that do not fit"));
    }
    alias::check([input, index], output, false)?;
    if repeats(output) {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let mut chosen = input.dims[take.axis];
    let mut first = Operand::view(input, raw(input.dtype.size())?);
    first.strides[take.axis] = 0;
    let chooses = Operand::view(index, storage(index.dtype)?);
    let result = Operand::view(output, raw(output.dtype.size())?);
    let mut space = Space::new(&shape, vec![first, chooses, result]);
    space.order_by(2);
    space.collapse();
    widen(&mut space, &mut chosen)?;
    if output.is_empty() {
        return Ok(Job::default());
    }
    let launches = vec![reading(&space, index, chosen, input.reach())?];
    Ok(Job { launches, ..Job::default() }.noted("take", |note| note.take(take)))
}

/// Joins pairs of elements along the last axis, up to 16 bytes, while one index holds for all of a pair.
fn widen(space: &mut Space, chosen: &mut Dim) -> Result<(), Unsupported> {
    let Some(last) = space.extents.len().checked_sub(1) else { return Ok(()) };
    loop {
        let fits = |k: usize| {
            let operand = &space.operands[k];
            operand.strides[last] == 1
                && operand.strides[..last].iter().all(|stride| stride % 2 == 0)
                && operand.align.is_multiple_of(2 * operand.size)
                && operand.size < 16
        };
        let alone = space.operands[1].strides[last] == 0 && chosen.stride.is_multiple_of(2);
        if !alone || !space.extents[last].is_multiple_of(2) || !fits(0) || !fits(2) {
            break;
        }
        space.extents[last] /= 2;
        chosen.stride /= 2;
        for operand in [0, 2] {
            let operand = &mut space.operands[operand];
            operand.size *= 2;
            operand.ctype = raw(operand.size)?;
            operand.strides[..last].iter_mut().for_each(|stride| *stride /= 2);
        }
    }
    Ok(())
}

fn reading(space: &Space, index: &View, chosen: Dim, reach: usize) -> Result<Launch, Unsupported> {
    let count = space.count();
    let ints = Ints::for_sizes(count, space.reach().max(reach));
    let mut w = Writer::body();
    each(&mut w, ints, count);
    let names = ints.split(&mut w, "i", &space.extents, "a");
    let at = |operand: usize| ints.offset(&names, &space.operands[operand].strides, 1);
    let place = Value::load(index.dtype, &format!("p1[{}]", at(1)))?.text;
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
    w.close();
    Ok(launch(&space.ctypes(), space.params(), count, w))
}

/// The job of a sum by index, in the order of the index, in what the type computes in: the bits of the CPU
/// backend. The result may lie in the place of the base; if it overlaps anything otherwise, the reason is
/// `overlap`.
///
/// The rows of the value that go to one row are a chain. A first kernel finds for each row of the value the
/// next one of its chain, and whether it is the chain's first; the last kernel adds along the chains.
pub fn accumulate(put: &Accumulate) -> Result<Job, Unsupported> {
    let Accumulate { base, index, value, output } = put;
    let shape = output.shape();
    let rest = |view: &View| view.dims.len() == shape.len() && view.shape()[1..] == shape[1..];
    let fits = !shape.is_empty() && base.shape() == shape && rest(value);
    if !fits || index.shape() != value.shape()[..1] || value.dtype != output.dtype {
        return Err(Unsupported::Malformed("a sum by index of shapes or types that do not fit"));
    }
    alias::check([index, value], output, false)?;
    alias::check([base], output, true)?;
    if repeats(output) {
        return Err(Unsupported::Malformed("a result whose elements share memory"));
    }
    let mut launches = Vec::new();
    if !alias::same(base, output) {
        launches.extend(copy(base, output)?.launches);
    }
    let (chain, sums) = (chains(index, shape[0])?, sums(put)?);
    if value.is_empty() {
        return Ok(
            Job { launches, ..Job::default() }.noted("accumulate", |note| note.accumulate(put))
        );
    }
    launches.extend([chain, sums]);
    let job = Job { launches, scratch: index.len() * size_of::<u64>(), ..Job::default() };
    Ok(job.noted("accumulate", |note| note.accumulate(put)))
}

/// Writes for each `j` the next place of the index with its value, times two, plus one for the first place
/// of a row that there is.
fn chains(index: &View, rows: usize) -> Result<Launch, Unsupported> {
    let count = index.len();
    let stride = index.dims[0].stride;
    let ints = Ints::for_sizes(2 * count, index.reach());
    let at = |place: &str| {
        let raw = format!("p0[{place} * {}]", ints.literal(stride));
        Value::load(index.dtype, &raw).map(|value| value.text)
    };
    let (own, before, behind) = (at("i")?, at("j")?, at("n")?);
    let (ctype, limit) = (ints.ctype(), ints.literal(count));
    let mut w = Writer::body();
    each(&mut w, ints, count);
    w.line(format!("const long long k = {own};"));
    w.line(format!("bool first = k >= 0 && k < {rows}ll;"));
    w.line(format!("for ({ctype} j = 0; first && j < i; ++j) first = {before} != k;"));
    w.line(format!("{ctype} n = i + 1;"));
    w.line(format!("while (n < {limit} && {behind} != k) ++n;"));
    w.line("q[i] = (unsigned long long)n * 2ull + (first ? 1ull : 0ull);");
    w.close();
    let params = vec![Param::View(index.clone()), Param::Scratch(0)];
    Ok(launch(&[storage(index.dtype)?, "unsigned long long"], params, count, w))
}

/// Adds along the chains.
fn sums(put: &Accumulate) -> Result<Launch, Unsupported> {
    let Accumulate { index, value, output, .. } = put;
    let ctype = storage(output.dtype)?;
    let mut operands = vec![Operand::view(value, ctype), Operand::view(output, ctype)];
    for operand in &mut operands {
        operand.strides.remove(0);
    }
    // The rows stay apart, the other axes are joined.
    let mut space = Space::new(&output.shape()[1..], operands);
    space.order_by(1);
    space.collapse();
    let (n, count) = (index.len(), value.len());
    let ints = Ints::for_sizes(2 * count, value.reach().max(output.reach()).max(index.reach()));
    let mut extents = vec![n];
    extents.extend(&space.extents);
    let mut w = Writer::body();
    each(&mut w, ints, count);
    let names = ints.split(&mut w, "i", &extents, "a");
    let columns: Vec<String> =
        [0, 1].map(|k| ints.offset(&names[1..], &space.operands[k].strides, 1)).into();
    w.line("unsigned long long c = p1[a0];");
    w.open("if (c & 1ull)");
    let place = format!("p0[a0 * {}]", ints.literal(index.dims[0].stride));
    let row = Value::load(index.dtype, &place)?.text;
    let row = format!("({})({row}) * {}", ints.ctype(), ints.literal(output.dims[0].stride));
    w.line(format!("{ctype}* const y = q + ({row} + {});", columns[1]));
    let kind = class(output.dtype)?;
    w.line(format!("{} s = {};", kind.ctype(), Value::load(output.dtype, "(*y)")?.text));
    let (index_type, limit) = (ints.ctype(), ints.literal(n));
    w.open(format!("for ({index_type} j = a0; j < {limit}; j = ({index_type})(p1[j] >> 1))"));
    let from = format!("p2[j * {} + {}]", ints.literal(value.dims[0].stride), columns[0]);
    let one = Value::load(value.dtype, &from)?.text;
    w.line(match kind {
        Class::I64 => format!("s = i_add(s, {one});"),
        Class::F64 | Class::F32 => format!("s = s + {one};"),
    });
    w.close();
    w.line(format!("*y = {};", Value::new(kind, "s").store(output.dtype)?));
    w.close_all(2);
    let params = [index, value, output].map(|view| Param::View(view.clone()));
    let [index_at, value_at, output_at] = params;
    let params = vec![index_at, Param::Scratch(0), value_at, output_at];
    let ctypes = [storage(index.dtype)?, "unsigned long long", ctype, ctype];
    Ok(launch(&ctypes, params, count, w))
}
