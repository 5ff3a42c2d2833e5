//! Reductions whose elements lie in runs: a group of lanes, up to a block, has one result at a time.

use crate::codegen::index_space::{Ints, vector};
use crate::codegen::job::Launch;
use crate::codegen::reduce::Reduction;
use crate::codegen::reduce::reads::{Along, Reads};
use crate::codegen::source_writer::{Writer, kernel};
use crate::codegen::thread_mapping::{BLOCKS, THREADS};
use crate::codegen::types::ClassSource as _;
use crate::unsupported::Unsupported;

/// Lanes of a warp.
const WARP: usize = 32;
/// Accesses of a lane that make it worth to cut a row.
const LONG: usize = 8;

/// How a row is read.
struct Shape {
    /// Elements an access.
    width: usize,
    /// Accesses of a whole row.
    count: usize,
    /// Lanes of a row: a power of 2 up to [`WARP`], or [`THREADS`].
    lanes: usize,
    /// Accesses that a lane has under way.
    unroll: usize,
}

impl Shape {
    fn new(reduction: &Reduction<'_>) -> Self {
        let operands = reduction.result();
        let width = vector(&reduction.reduced, Some(&reduction.kept), operands);
        let count = reduction.reduced.count() / width;
        let chunk = count.div_ceil(reduction.parts);
        let lanes = match chunk {
            0..=32 => chunk.next_power_of_two(),
            33..=511 => WARP,
            _ => THREADS,
        };
        let most = if operands > 2 { 2 } else { 4 };
        let unroll = (chunk / lanes).clamp(1, most);
        Self { width, count, lanes, unroll: 1 << unroll.ilog2() }
    }
}

/// Into how many parts each row is cut, for a device with this many multiprocessors.
pub(super) fn parts(reduction: &Reduction<'_>, sms: usize) -> usize {
    let shape = Shape::new(reduction);
    let rows = reduction.kept.count();
    let most = shape.count / (THREADS * LONG);
    let cut = shape.lanes == THREADS && rows < 2 * sms;
    if cut { (4 * sms).div_ceil(rows).min(most) } else { 1 }
}

/// The launch.
pub(super) fn launch(reduction: &Reduction<'_>) -> Result<Launch, Unsupported> {
    let shape = Shape::new(reduction);
    let rows = reduction.kept.count() * reduction.parts;
    let groups = THREADS / shape.lanes;
    let ints = Ints::for_sizes(reduction.reduced.count().max(rows), reduction.reach());
    let mut w = Writer::body();
    if shape.lanes > WARP {
        let ctype = reduction.join.class.ctype();
        w.line(format!("__shared__ {ctype} part[{}];", THREADS / WARP));
    }
    w.open(format!(
        "for ({} first = {} * {groups}; first < {}; first += gridDim.x * {groups})",
        ints.ctype(),
        ints.built_in("blockIdx.x"),
        ints.literal(rows)
    ));
    w.line(format!("const {} row = first + threadIdx.x / {};", ints.ctype(), shape.lanes));
    let body = Body { reduction, shape: &shape, ints, rows };
    body.accumulate(&mut w)?;
    body.combine(&mut w);
    body.store(&mut w)?;
    w.close();
    let own = reduction.join.function();
    let text = kernel(&reduction.ctypes(), THREADS as u32, &own, w);
    let grid = [rows.div_ceil(groups).min(BLOCKS) as u32, 1, 1];
    Ok(Launch { text, params: reduction.params(), grid, block: [THREADS as u32, 1, 1] })
}

struct Body<'a, 'b> {
    reduction: &'a Reduction<'b>,
    shape: &'a Shape,
    ints: Ints,
    rows: usize,
}

impl Body<'_, '_> {
    /// Splits a row's number into the kept axes' indices; a row's parts are neighbours.
    fn row(&self, w: &mut Writer) -> Vec<String> {
        let row = match self.reduction.parts {
            1 => "row".to_owned(),
            parts => format!("row / {}", self.ints.literal(parts)),
        };
        self.ints.split(w, &row, &self.reduction.kept.extents, "a")
    }

    /// Each lane's own elements, into `acc`.
    fn accumulate(&self, w: &mut Writer) -> Result<(), Unsupported> {
        let (reduction, shape, ints) = (self.reduction, self.shape, self.ints);
        let reads = Reads {
            reduction,
            ints,
            along: Along::Reduced,
            width: shape.width,
            unroll: shape.unroll,
            step: shape.lanes,
        };
        reads.begin(w);
        w.open(format!("if (row < {})", ints.literal(self.rows)));
        let kept = self.row(w);
        let part = format!("row % {}", ints.literal(reduction.parts));
        let [start, end] = reads.range(w, &part, shape.count);
        let start = format!("{start} + threadIdx.x % {}", shape.lanes);
        reads.run(w, &kept, [&start, &end])?;
        w.close();
        Ok(())
    }

    /// The lanes' values as one, a tree: `total` of the first lane of a group.
    fn combine(&self, w: &mut Writer) {
        let (shape, ctype) = (self.shape, self.reduction.join.class.ctype());
        if shape.width > 1 {
            w.line("#pragma unroll");
            w.open(format!("for (int h = {}; h > 0; h /= 2)", shape.width / 2));
            w.line("#pragma unroll");
            w.line("for (int v = 0; v < h; ++v) acc[v] = join(acc[v], acc[v + h]);");
            w.close();
        }
        w.line(format!("{ctype} total = acc[0];"));
        let lanes = shape.lanes.min(WARP);
        if lanes > 1 {
            w.line("#pragma unroll");
            w.open(format!("for (int h = {}; h > 0; h /= 2)", lanes / 2));
            w.line("total = join(total, __shfl_xor_sync(0xffffffffu, total, h));");
            w.close();
        }
        if shape.lanes > WARP {
            let warps = THREADS / WARP;
            w.line("if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = total;");
            w.line("__syncthreads();");
            w.open("if (threadIdx.x == 0)");
            w.line(format!("for (int k = 1; k < {warps}; ++k) total = join(total, part[k]);"));
            w.close();
            w.line("__syncthreads();");
        }
    }

    fn store(&self, w: &mut Writer) -> Result<(), Unsupported> {
        let (reduction, last) = (self.reduction, self.ints.literal(self.rows));
        w.open(format!("if (row < {last} && threadIdx.x % {} == 0)", self.shape.lanes));
        let offset = match reduction.parts {
            1 => {
                let names = self.row(w);
                let result = &reduction.kept.operands[reduction.result()];
                self.ints.offset(&names, &result.strides, 1)
            }
            _ => "row".to_owned(),
        };
        w.line(format!("q[{offset}] = {};", reduction.stored("total")?));
        w.close();
        Ok(())
    }
}
