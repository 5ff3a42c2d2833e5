//! Reductions whose results lie in runs: each lane accumulates its own results, and the rows of a block
//! share them.

use crate::codegen::index_space::{Ints, fits, pack, place, vector};
use crate::codegen::job::Launch;
use crate::codegen::reduce::reads::{Along, Reads};
use crate::codegen::reduce::{Reduction, flat};
use crate::codegen::source_writer::{Writer, kernel};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::ClassSource as _;
use crate::unsupported::Unsupported;

/// Lanes of a block along the results.
const LANES: usize = 32;
/// Elements of a lane that make it worth to cut a column.
const LONG: usize = 8;

/// How results are shared among threads.
struct Shape {
    /// Results of a lane.
    width: usize,
    /// Results along the innermost kept axis, in units of `width`.
    count: usize,
    /// Lanes of a block along them, and how many blocks they take.
    lanes: usize,
    blocks: usize,
    /// Threads of a block that share a result.
    rows: usize,
    /// Loads that a thread has under way.
    unroll: usize,
}

impl Shape {
    fn new(reduction: &Reduction<'_>) -> Self {
        let operands = reduction.result();
        let width = vector(&reduction.kept, Some(&reduction.reduced), operands);
        let count = reduction.kept.extents.last().copied().unwrap_or(1) / width;
        let lanes = count.next_power_of_two().min(LANES);
        let chunk = reduction.reduced.count().div_ceil(reduction.parts);
        let rows = (THREADS / lanes).min(chunk.next_power_of_two());
        let most = if operands > 2 { 2 } else { 4 };
        let unroll = (chunk / rows).clamp(1, most);
        let blocks = count.div_ceil(lanes);
        Self { width, count, lanes, blocks, rows, unroll: 1 << unroll.ilog2() }
    }
}

/// Blocks of a part: the runs of results.
fn blocks(reduction: &Reduction<'_>, shape: &Shape) -> usize {
    let outer = reduction.kept.extents.split_last().map_or(1, |(_, o)| o.iter().product());
    outer * shape.blocks
}

/// Into how many parts each column is cut, for a device with this many multiprocessors.
pub(super) fn parts(reduction: &Reduction<'_>, sms: usize) -> usize {
    let shape = Shape::new(reduction);
    let blocks = blocks(reduction, &shape);
    let most = reduction.reduced.count() / (shape.rows * LONG);
    if blocks < 2 * sms { (4 * sms).div_ceil(blocks).min(most) } else { 1 }
}

/// The launch.
pub(super) fn launch(reduction: &Reduction<'_>) -> Result<Launch, Unsupported> {
    let shape = Shape::new(reduction);
    let tiles = blocks(reduction, &shape) * reduction.parts;
    let reach = reduction.reach();
    let ints = Ints::for_sizes(reduction.reduced.count().max(tiles), reach);
    let mut w = Writer::body();
    let ctype = reduction.join.class.ctype();
    if shape.rows > 1 {
        w.line(format!(
            "__shared__ {ctype} part[{}][{}];",
            shape.rows / 2,
            shape.lanes * shape.width
        ));
    }
    w.open(format!(
        "for ({} tile = blockIdx.x; tile < {}; tile += gridDim.x)",
        ints.ctype(),
        ints.literal(tiles)
    ));
    let body = Body { reduction, shape: &shape, ints };
    let names = body.indices(&mut w);
    body.accumulate(&mut w, &names)?;
    body.combine(&mut w);
    body.store(&mut w, &names)?;
    w.close();
    let own = reduction.join.function();
    let threads = (shape.lanes * shape.rows) as u32;
    let text = kernel(&reduction.ctypes(), threads, &own, w);
    let grid = [tiles.min(BLOCKS) as u32, 1, 1];
    let block = [shape.lanes as u32, shape.rows as u32, 1];
    Ok(Launch { text, params: reduction.params(), grid, block })
}

struct Body<'a, 'b> {
    reduction: &'a Reduction<'b>,
    shape: &'a Shape,
    ints: Ints,
}

impl Body<'_, '_> {
    /// Splits the tile's number: the part, the kept indices and the lane's place among the results.
    fn indices(&self, w: &mut Writer) -> Vec<String> {
        let mut extents = vec![self.reduction.parts];
        extents.extend(self.reduction.kept.extents.iter().copied());
        if let Some(last) = extents[1..].last_mut() {
            *last = self.shape.blocks;
        }
        let names = self.ints.split(w, "tile", &extents, "t");
        let mut kept = names[1..].to_vec();
        if let Some(last) = kept.last_mut() {
            let lanes = self.ints.literal(self.shape.lanes);
            let index = self.ints.ctype();
            w.line(format!("const {index} column = {last} * {lanes} + threadIdx.x;"));
            *last = "column".to_owned();
        } else {
            w.line("const int column = threadIdx.x;");
        }
        kept
    }

    /// Each thread's own elements, into `acc`.
    fn accumulate(&self, w: &mut Writer, kept: &[String]) -> Result<(), Unsupported> {
        let (reduction, shape, ints) = (self.reduction, self.shape, self.ints);
        let reads = Reads {
            reduction,
            ints,
            along: Along::Kept,
            width: shape.width,
            unroll: shape.unroll,
            step: shape.rows,
        };
        reads.begin(w);
        let [start, end] = reads.range(w, "t0", reduction.reduced.count());
        w.open(format!("if (column < {})", ints.literal(shape.count)));
        reads.run(w, kept, [&format!("{start} + threadIdx.y"), &end])?;
        w.close();
        Ok(())
    }

    /// The values of a block's rows as one, a tree: `acc` of the first row.
    fn combine(&self, w: &mut Writer) {
        let shape = self.shape;
        if shape.rows == 1 {
            return;
        }
        w.line("#pragma unroll");
        w.open(format!("for (int h = {}; h > 0; h /= 2)", shape.rows / 2));
        w.open("if (threadIdx.y >= h && threadIdx.y < 2 * h)");
        w.unrolled("v", shape.width);
        let at = format!("[v * {} + threadIdx.x]", shape.lanes);
        w.line(format!("part[threadIdx.y - h]{at} = acc[v];"));
        w.close_all(2);
        w.line("__syncthreads();");
        w.open("if (threadIdx.y < h)");
        w.unrolled("v", shape.width);
        w.line(format!("acc[v] = join(acc[v], part[threadIdx.y]{at});"));
        w.close_all(2);
        w.line("__syncthreads();");
        w.close();
    }

    fn store(&self, w: &mut Writer, kept: &[String]) -> Result<(), Unsupported> {
        let (shape, reduction, ints) = (self.shape, self.reduction, self.ints);
        let count = ints.literal(shape.count);
        w.open(format!("if (threadIdx.y == 0 && column < {count})"));
        let result = reduction.result();
        let mut operand = reduction.kept.operands[result].clone();
        let mut whole = fits(&reduction.kept, None, result, shape.width);
        let mut offset = ints.offset(kept, &operand.strides, shape.width);
        if reduction.parts > 1 {
            // Parts lie one behind the other, each row-major.
            operand.ctype = reduction.join.class.ctype();
            operand.size = reduction.size();
            operand.strides = flat(&reduction.kept.extents);
            let rest = ints.offset(kept, &operand.strides, shape.width);
            offset = format!("t0 * {} + {rest}", ints.literal(reduction.kept.count()));
            whole = true;
        }
        if whole && shape.width > 1 {
            w.line(format!("{} y;", pack(operand.ctype, operand.size, shape.width)));
            w.unrolled("v", shape.width);
            w.line(format!("y.v[v] = {};", reduction.stored("acc[v]")?));
            w.close();
            w.line(format!("{} = y;", place(&operand, "q", &offset, shape.width, false)));
        } else {
            let stride = ints.literal(operand.strides.last().copied().unwrap_or(0));
            w.unrolled("v", shape.width);
            w.line(format!("q[{offset} + v * {stride}] = {};", reduction.stored("acc[v]")?));
            w.close();
        }
        w.close();
        Ok(())
    }
}
