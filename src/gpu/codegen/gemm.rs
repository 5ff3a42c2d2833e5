//! GEMMs for types and strides that cuBLASLt does not support: tiles through shared memory, any strides.

use crate::codegen::alias;
use crate::codegen::index_space::{IndexInt, IndexSpace, KernelOperand};
use crate::codegen::job::{KernelJob, KernelLaunch};
use crate::codegen::source_writer::{SourceWriter, kernel_source};
use crate::codegen::thread_mapping::BLOCKS;
use crate::codegen::types::{ClassSource as _, ComputeClass, TypedExpr, compute_class, storage_ctype};
use crate::unsupported::Unsupported;
use hostir::plan::{BufferView, GemmInst, ScalarValue, ViewDim};

/// Rows and columns of the result that a block computes.
const TILE: usize = 64;
/// Steps along the inner axis between two barriers.
const DEPTH: usize = 16;
/// Threads of a block along each side; each computes every 16th row and column of a tile.
const SIDE: usize = 16;
const THREADS: usize = SIDE * SIDE;

/// The job of a GEMM: `float` and narrower floats accumulate in float, `double` in double, integers and truth values in
/// 64 bits. If the result overlaps a factor, or the bias in another layout, the reason is `overlap`.
///
/// # Errors
/// [`Unsupported`] if shapes do not fit, the result overlaps an operand or itself, or kernels do not compute with a
/// type.
pub fn generate_gemm(gemm: &GemmInst) -> Result<KernelJob, Unsupported> {
    let kernel = GemmKernel::new(gemm)?;
    if gemm.out.is_empty() {
        return Ok(KernelJob::default());
    }
    let job = KernelJob { launches: vec![kernel.build_launch()?], ..KernelJob::default() };
    Ok(job.noted("gemm", |note| note.gemm(gemm)))
}

struct GemmKernel<'a> {
    gemm: &'a GemmInst,
    class: ComputeClass,
    /// The batch axes; operands are the factors, the bias and the scales if present, and the result.
    batches: IndexSpace,
    ints: IndexInt,
    /// Rows, columns and length of the inner axis.
    m: usize,
    n: usize,
    k: usize,
}

/// The last two axes of a view.
fn matrix_dims(view: &BufferView) -> [ViewDim; 2] {
    let rank = view.dims.len();
    [view.dims[rank - 2], view.dims[rank - 1]]
}

/// The index expressions of the elements of one tile.
struct TileIndices {
    batch: Vec<String>,
    row: String,
    column: String,
}

impl<'a> GemmKernel<'a> {
    fn new(gemm: &'a GemmInst) -> Result<Self, Unsupported> {
        let rank = gemm.out.dims.len();
        let views: Vec<&BufferView> = gemm.read_views().chain([&gemm.out]).collect();
        if rank < 2 || views.iter().any(|view| view.dims.len() != rank) {
            return Err(Unsupported::Malformed("a product of factors that are no matrices"));
        }
        let ([a, b], out) = ([matrix_dims(&gemm.a), matrix_dims(&gemm.b)], matrix_dims(&gemm.out));
        let shape = gemm.out.shape();
        let batched = views.iter().all(|view| view.shape()[..rank - 2] == shape[..rank - 2]);
        let (m, n, k) = (a[0].extent, b[1].extent, a[1].extent);
        let fits = gemm.bias.iter().chain(gemm.scale_views()).all(|view| view.shape() == shape);
        if b[0].extent != k || shape[rank - 2..] != [m, n] || !fits || !batched {
            return Err(Unsupported::Malformed("a product of shapes that do not fit"));
        }
        alias::check_overlap([&gemm.a, &gemm.b].into_iter().chain(gemm.scale_views()), &gemm.out, false)?;
        alias::check_overlap(&gemm.bias, &gemm.out, true)?;
        if out.iter().any(|dim| dim.stride == 0 && dim.extent > 1) {
            return Err(Unsupported::Malformed("a result whose elements share memory"));
        }
        let mut operands = Vec::new();
        let mut reach = 0;
        for view in views {
            let mut operand = KernelOperand::from_view(view, storage_ctype(view.dtype)?);
            reach = reach.max(view.last_offset());
            operand.strides.truncate(rank - 2);
            operands.push(operand);
        }
        let mut batches = IndexSpace::new(&shape[..rank - 2], operands);
        batches.collapse_axes();
        let ints = IndexInt::for_sizes(gemm.out.len().max(k), reach + TILE);
        Ok(Self { gemm, class: compute_class(gemm.a.dtype)?, batches, ints, m, n, k })
    }

    fn build_launch(&self) -> Result<KernelLaunch, Unsupported> {
        let mut tiles = self.batches.extents.clone();
        tiles.extend([self.m.div_ceil(TILE), self.n.div_ceil(TILE)]);
        let count: usize = tiles.iter().product();
        let ints = self.ints;
        let mut w = SourceWriter::kernel_body();
        let ctype = self.class.ctype();
        w.line(format!("__shared__ {ctype} ta[{DEPTH}][{}];", TILE + 1));
        w.line(format!("__shared__ {ctype} tb[{DEPTH}][{}];", TILE + 1));
        w.line(format!("const int tx = threadIdx.x % {SIDE}, ty = threadIdx.x / {SIDE};"));
        let (index, limit) = (ints.ctype(), ints.literal(count));
        w.open_block(format!("for ({index} tile = blockIdx.x; tile < {limit}; tile += gridDim.x)"));
        let mut names = ints.split_index(&mut w, "tile", &tiles, "t");
        let column = format!("{} * {}", names.pop().unwrap_or_default(), ints.literal(TILE));
        let row = format!("{} * {}", names.pop().unwrap_or_default(), ints.literal(TILE));
        let at = TileIndices { batch: names, row, column };
        self.write_tile_sums(&mut w, &at)?;
        self.write_tile_store(&mut w, &at)?;
        w.close_block();
        let text = kernel_source(&self.batches.param_ctypes(), THREADS as u32, "", w);
        let grid = [count.min(BLOCKS) as u32, 1, 1];
        Ok(KernelLaunch { text, params: self.batches.kernel_params(), grid, block: [THREADS as u32, 1, 1] })
    }

    /// Writes the sums of a tile, into `acc`.
    fn write_tile_sums(&self, w: &mut SourceWriter, at: &TileIndices) -> Result<(), Unsupported> {
        let ints = self.ints;
        let (index, k, depth) = (ints.ctype(), ints.literal(self.k), ints.literal(DEPTH));
        let each = TILE / SIDE;
        w.line(format!("{} acc[{each}][{each}] = {{}};", self.class.ctype()));
        w.open_block(format!("for ({index} start = 0; start < {k}; start += {depth})"));
        let a = matrix_dims(&self.gemm.a);
        self.write_tile_load(w, at, 0, ["ta", &at.row], [a[0], a[1]])?;
        let b = matrix_dims(&self.gemm.b);
        self.write_tile_load(w, at, 1, ["tb", &at.column], [b[1], b[0]])?;
        w.line("__syncthreads();");
        w.open_unrolled_loop("d", DEPTH);
        w.open_unrolled_loop("r", each);
        w.open_unrolled_loop("c", each);
        let (x, y) = (format!("ta[d][ty + r * {SIDE}]"), format!("tb[d][tx + c * {SIDE}]"));
        w.line(match self.class {
            ComputeClass::I64 | ComputeClass::U64 => format!("acc[r][c] = i_add(acc[r][c], i_mul({x}, {y}));"),
            ComputeClass::F64 | ComputeClass::F32 => format!("acc[r][c] += {x} * {y};"),
        });
        w.close_all_blocks(3);
        w.line("__syncthreads();");
        w.close_block();
        Ok(())
    }

    /// Loads a tile of a factor. `side` is its axis of the result, `inner` the summed one; neighbouring threads take
    /// neighbouring elements.
    fn write_tile_load(
        &self,
        w: &mut SourceWriter,
        at: &TileIndices,
        operand: usize,
        [tile, first]: [&str; 2],
        [side, inner]: [ViewDim; 2],
    ) -> Result<(), Unsupported> {
        let ints = self.ints;
        let index = ints.ctype();
        let dtype = if operand == 0 { self.gemm.a.dtype } else { self.gemm.b.dtype };
        w.line("#pragma unroll");
        w.open_block(format!("for (int e = threadIdx.x; e < {}; e += {THREADS})", TILE * DEPTH));
        match inner.stride <= side.stride {
            true => w.line(format!("const int d = e % {DEPTH}, s = e / {DEPTH};")),
            false => w.line(format!("const int s = e % {TILE}, d = e / {TILE};")),
        }
        w.line(format!("const {index} x = {first} + s, y = start + d;"));
        let strides = &self.batches.operands[operand].strides;
        let offset = format!(
            "{} + x * {} + y * {}",
            ints.linear_offset(&at.batch, strides, 1),
            ints.literal(side.stride),
            ints.literal(inner.stride)
        );
        let raw = format!("{}[{offset}]", self.batches.pointer_name(operand));
        let value = TypedExpr::from_memory(dtype, &raw)?.into_class(self.class).text;
        let zero = self.class.literal(ScalarValue::Int(0)).text;
        let within = format!("x < {} && y < {}", ints.literal(side.extent), ints.literal(self.k));
        w.line(format!("{tile}[d][s] = {within} ? {value} : {zero};"));
        w.close_block();
        Ok(())
    }

    fn write_tile_store(&self, w: &mut SourceWriter, at: &TileIndices) -> Result<(), Unsupported> {
        let (ints, each) = (self.ints, TILE / SIDE);
        let index = ints.ctype();
        w.open_unrolled_loop("r", each);
        w.open_unrolled_loop("c", each);
        w.line(format!("const {index} x = {} + ty + r * {SIDE};", at.row));
        w.line(format!("const {index} y = {} + tx + c * {SIDE};", at.column));
        w.open_block(format!("if (x < {} && y < {})", ints.literal(self.m), ints.literal(self.n)));
        let mut sum = TypedExpr::new(self.class, "acc[r][c]");
        let first = 2 + usize::from(self.gemm.bias.is_some());
        for (scale, operand) in self.gemm.scale_views().iter().zip(first..) {
            let factor = self.tile_element(at, operand, scale)?;
            sum.text = match self.class {
                ComputeClass::I64 | ComputeClass::U64 => format!("i_mul({}, {factor})", sum.text),
                ComputeClass::F64 | ComputeClass::F32 => format!("({} * {factor})", sum.text),
            };
        }
        if let Some(bias) = &self.gemm.bias {
            let bias = self.tile_element(at, 2, bias)?;
            sum.text = match self.class {
                ComputeClass::I64 | ComputeClass::U64 => format!("i_add({}, {bias})", sum.text),
                ComputeClass::F64 | ComputeClass::F32 => format!("({} + {bias})", sum.text),
            };
        }
        let result = self.batches.operands.len() - 1;
        let out = &self.gemm.out;
        w.line(format!("q[{}] = {};", self.tile_offset(at, result, out), sum.into_memory(out.dtype)?));
        w.close_all_blocks(3);
        Ok(())
    }

    /// The element at `x` and `y` of an operand, in the type that the kernel computes in.
    fn tile_element(&self, at: &TileIndices, operand: usize, view: &BufferView) -> Result<String, Unsupported> {
        let raw = format!("{}[{}]", self.batches.pointer_name(operand), self.tile_offset(at, operand, view));
        Ok(TypedExpr::from_memory(view.dtype, &raw)?.into_class(self.class).text)
    }

    /// The offset of the element at `x` and `y` in an operand that is a matrix of a batch.
    fn tile_offset(&self, at: &TileIndices, operand: usize, view: &BufferView) -> String {
        let (ints, [row, column]) = (self.ints, matrix_dims(view));
        let batch = ints.linear_offset(&at.batch, &self.batches.operands[operand].strides, 1);
        let (row, column) = (ints.literal(row.stride), ints.literal(column.stride));
        format!("{batch} + x * {row} + y * {column}")
    }
}
