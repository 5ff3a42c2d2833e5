//! Matrix products for types and strides that cuBLASLt does not take: tiles through shared memory, any
//! strides.

use crate::codegen::alias;
use crate::codegen::index_space::{Ints, Operand, Space};
use crate::codegen::job::{Job, Launch};
use crate::codegen::source_writer::{Writer, kernel};
use crate::codegen::thread_mapping::BLOCKS;
use crate::codegen::types::{Class, ClassSource as _, Value, class, storage};
use crate::unsupported::Unsupported;
use hostir::plan::{Dim, Gemm, Scalar, View};

/// Rows and columns of the result that a block computes.
const TILE: usize = 64;
/// Products along the inner axis between two barriers.
const DEPTH: usize = 16;
/// Threads of a block along each side; each computes every 16th row and column of a tile.
const SIDE: usize = 16;
const THREADS: usize = SIDE * SIDE;

/// The job of a matrix product: `float` and narrower floats accumulate in float, `double` in double,
/// integers and truth values in 64 bits. If the result overlaps a factor, or the bias in another layout,
/// the reason is `overlap`.
pub fn gemm(gemm: &Gemm) -> Result<Job, Unsupported> {
    let product = Product::new(gemm)?;
    if gemm.out.is_empty() {
        return Ok(Job::default());
    }
    let job = Job { launches: vec![product.launch()?], ..Job::default() };
    Ok(job.noted("gemm", |note| note.gemm(gemm)))
}

struct Product<'a> {
    gemm: &'a Gemm,
    class: Class,
    /// The batch axes; operands are the factors, the bias if there is one, and the result.
    batches: Space,
    ints: Ints,
    /// Rows, columns and length of the inner axis.
    m: usize,
    n: usize,
    k: usize,
}

/// The last two axes of a view.
fn matrix(view: &View) -> [Dim; 2] {
    let rank = view.dims.len();
    [view.dims[rank - 2], view.dims[rank - 1]]
}

/// Where the indices of one tile lead.
struct Indices {
    batch: Vec<String>,
    row: String,
    column: String,
}

impl<'a> Product<'a> {
    fn new(gemm: &'a Gemm) -> Result<Self, Unsupported> {
        let rank = gemm.out.dims.len();
        let views: Vec<&View> =
            [&gemm.a, &gemm.b].into_iter().chain(&gemm.bias).chain([&gemm.out]).collect();
        if rank < 2 || views.iter().any(|view| view.dims.len() != rank) {
            return Err(Unsupported::Malformed("a product of factors that are no matrices"));
        }
        let ([a, b], out) = ([matrix(&gemm.a), matrix(&gemm.b)], matrix(&gemm.out));
        let shape = gemm.out.shape();
        let batch = |view: &&View| view.shape()[..rank - 2] == shape[..rank - 2];
        let (m, n, k) = (a[0].extent, b[1].extent, a[1].extent);
        let biased = gemm.bias.as_ref().is_none_or(|bias| bias.shape() == shape);
        if b[0].extent != k || shape[rank - 2..] != [m, n] || !biased || !views.iter().all(batch) {
            return Err(Unsupported::Malformed("a product of shapes that do not fit"));
        }
        alias::check([&gemm.a, &gemm.b], &gemm.out, false)?;
        alias::check(&gemm.bias, &gemm.out, true)?;
        if out.iter().any(|dim| dim.stride == 0 && dim.extent > 1) {
            return Err(Unsupported::Malformed("a result whose elements share memory"));
        }
        let mut operands = Vec::new();
        let mut reach = 0;
        for view in views {
            let mut operand = Operand::view(view, storage(view.dtype)?);
            reach = reach.max(view.reach());
            operand.strides.truncate(rank - 2);
            operands.push(operand);
        }
        let mut batches = Space::new(&shape[..rank - 2], operands);
        batches.collapse();
        let ints = Ints::for_sizes(gemm.out.len().max(k), reach + TILE);
        Ok(Self { gemm, class: class(gemm.a.dtype)?, batches, ints, m, n, k })
    }

    fn launch(&self) -> Result<Launch, Unsupported> {
        let mut tiles = self.batches.extents.clone();
        tiles.extend([self.m.div_ceil(TILE), self.n.div_ceil(TILE)]);
        let count: usize = tiles.iter().product();
        let ints = self.ints;
        let mut w = Writer::body();
        let ctype = self.class.ctype();
        w.line(format!("__shared__ {ctype} ta[{DEPTH}][{}];", TILE + 1));
        w.line(format!("__shared__ {ctype} tb[{DEPTH}][{}];", TILE + 1));
        w.line(format!("const int tx = threadIdx.x % {SIDE}, ty = threadIdx.x / {SIDE};"));
        let (index, limit) = (ints.ctype(), ints.literal(count));
        w.open(format!("for ({index} tile = blockIdx.x; tile < {limit}; tile += gridDim.x)"));
        let mut names = ints.split(&mut w, "tile", &tiles, "t");
        let column = format!("{} * {}", names.pop().unwrap_or_default(), ints.literal(TILE));
        let row = format!("{} * {}", names.pop().unwrap_or_default(), ints.literal(TILE));
        let at = Indices { batch: names, row, column };
        self.products(&mut w, &at)?;
        self.store(&mut w, &at)?;
        w.close();
        let text = kernel(&self.batches.ctypes(), THREADS as u32, "", w);
        let grid = [count.min(BLOCKS) as u32, 1, 1];
        Ok(Launch { text, params: self.batches.params(), grid, block: [THREADS as u32, 1, 1] })
    }

    /// Sums of products of a tile, into `acc`.
    fn products(&self, w: &mut Writer, at: &Indices) -> Result<(), Unsupported> {
        let ints = self.ints;
        let (index, k, depth) = (ints.ctype(), ints.literal(self.k), ints.literal(DEPTH));
        let each = TILE / SIDE;
        w.line(format!("{} acc[{each}][{each}] = {{}};", self.class.ctype()));
        w.open(format!("for ({index} start = 0; start < {k}; start += {depth})"));
        let a = matrix(&self.gemm.a);
        self.load(w, at, 0, ["ta", &at.row], [a[0], a[1]])?;
        let b = matrix(&self.gemm.b);
        self.load(w, at, 1, ["tb", &at.column], [b[1], b[0]])?;
        w.line("__syncthreads();");
        w.unrolled("d", DEPTH);
        w.unrolled("r", each);
        w.unrolled("c", each);
        let (x, y) = (format!("ta[d][ty + r * {SIDE}]"), format!("tb[d][tx + c * {SIDE}]"));
        w.line(match self.class {
            Class::I64 => format!("acc[r][c] = i_add(acc[r][c], i_mul({x}, {y}));"),
            Class::F64 | Class::F32 => format!("acc[r][c] += {x} * {y};"),
        });
        w.close_all(3);
        w.line("__syncthreads();");
        w.close();
        Ok(())
    }

    /// Loads a tile of a factor. `side` is its axis of the result, `inner` the one that is summed over;
    /// neighbouring threads take neighbouring elements.
    fn load(
        &self,
        w: &mut Writer,
        at: &Indices,
        operand: usize,
        [tile, first]: [&str; 2],
        [side, inner]: [Dim; 2],
    ) -> Result<(), Unsupported> {
        let ints = self.ints;
        let index = ints.ctype();
        let dtype = if operand == 0 { self.gemm.a.dtype } else { self.gemm.b.dtype };
        w.line("#pragma unroll");
        w.open(format!("for (int e = threadIdx.x; e < {}; e += {THREADS})", TILE * DEPTH));
        match inner.stride <= side.stride {
            true => w.line(format!("const int d = e % {DEPTH}, s = e / {DEPTH};")),
            false => w.line(format!("const int s = e % {TILE}, d = e / {TILE};")),
        }
        w.line(format!("const {index} x = {first} + s, y = start + d;"));
        let strides = &self.batches.operands[operand].strides;
        let offset = format!(
            "{} + x * {} + y * {}",
            ints.offset(&at.batch, strides, 1),
            ints.literal(side.stride),
            ints.literal(inner.stride)
        );
        let raw = format!("{}[{offset}]", self.batches.pointer(operand));
        let value = Value::load(dtype, &raw)?.into_class(self.class).text;
        let zero = self.class.literal(Scalar::Int(0)).text;
        let within = format!("x < {} && y < {}", ints.literal(side.extent), ints.literal(self.k));
        w.line(format!("{tile}[d][s] = {within} ? {value} : {zero};"));
        w.close();
        Ok(())
    }

    fn store(&self, w: &mut Writer, at: &Indices) -> Result<(), Unsupported> {
        let (ints, each) = (self.ints, TILE / SIDE);
        let index = ints.ctype();
        w.unrolled("r", each);
        w.unrolled("c", each);
        w.line(format!("const {index} x = {} + ty + r * {SIDE};", at.row));
        w.line(format!("const {index} y = {} + tx + c * {SIDE};", at.column));
        w.open(format!("if (x < {} && y < {})", ints.literal(self.m), ints.literal(self.n)));
        let offset = |operand: usize, view: &View| {
            let [row, column] = matrix(view);
            let strides = &self.batches.operands[operand].strides;
            let batch = ints.offset(&at.batch, strides, 1);
            let (row, column) = (ints.literal(row.stride), ints.literal(column.stride));
            format!("{batch} + x * {row} + y * {column}")
        };
        let mut sum = Value::new(self.class, "acc[r][c]");
        if let Some(bias) = &self.gemm.bias {
            let raw = format!("{}[{}]", self.batches.pointer(2), offset(2, bias));
            let bias = Value::load(bias.dtype, &raw)?.into_class(self.class).text;
            sum.text = match self.class {
                Class::I64 => format!("i_add(acc[r][c], {bias})"),
                Class::F64 | Class::F32 => format!("(acc[r][c] + {bias})"),
            };
        }
        let result = self.batches.operands.len() - 1;
        let out = &self.gemm.out;
        w.line(format!("q[{}] = {};", offset(result, out), sum.store(out.dtype)?));
        w.close_all(3);
        Ok(())
    }
}
