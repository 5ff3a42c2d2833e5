//! Large GEMMs of 16-bit matrices on Hopper: a kernel in several tile shapes, beside cuBLASLt's algorithms.
//!
//! Its text depends on the tile and on the layout of the factors, not on sizes. The matrices come as the driver's
//! tensor maps ([`TiledMatrix`] has their boxes), sizes as words.
//!
//! One launch may compute several products with the same right factor, its parts, and store the result of each part in
//! the memory of another rank: a product whose rows are sent to their owners.

use crate::gemm_shape::{GemmBias, GemmScales, GemmShape, MatrixElement, MatrixLayout};
use std::fmt::Write as _;

/// The only compute capability with these instructions.
pub const ARCHITECTURE: u32 = 90;
/// Threads of a block.
pub const THREADS: u32 = 384;
/// The matrices, each with its tensor maps: left factors, right factor, results. Words follow them.
pub const MATRICES: usize = 3;
/// The words: rows and columns of the result, and the length of the summed axis.
pub const SIZE_WORDS: usize = 3;
/// The most parts of a product, whose maps are parameters of the kernel.
pub const MOST_PARTS: u32 = 8;
/// A tensor map requires that a matrix's address and its step from row to row are multiples of this many bytes.
const MAP_ALIGNMENT: u64 = 16;
/// The operations of a GEMM from which on it pays to compile a kernel.
const WORTHWHILE: u64 = 1 << 30;
/// Rows of a tile.
const ROWS: u32 = 128;
/// Elements of a stage along the summed axis.
const DEPTH: u32 = 64;
/// The default rows and columns of a box: 64 elements are the 128 bytes that a swizzle spans.
const BOX: u32 = 64;

/// A tile and the order in which blocks cover the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TileShape {
    /// Columns of a tile; it has 128 rows.
    columns: u32,
    /// Chunks of the factors, 64 elements deep, that are loaded ahead.
    stages: u32,
    /// Blocks that share the columns of the right factor.
    cluster: u32,
    /// Row tiles (of all blocks of a cluster together) before the next column tile.
    group: u32,
}

/// The tiles to choose from, by columns: wide ones read less memory, narrow ones fit narrow results.
const TILES: [TileShape; 4] = [
    TileShape { columns: 256, stages: 4, cluster: 1, group: 16 },
    TileShape { columns: 256, stages: 4, cluster: 2, group: 4 },
    TileShape { columns: 192, stages: 4, cluster: 2, group: 8 },
    TileShape { columns: 128, stages: 5, cluster: 1, group: 16 },
];

/// A matrix that the kernel reads or writes in boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TiledMatrix {
    /// `bfloat16` or half precision.
    pub element: MatrixElement,
    /// Adjacent elements, and the number of such rows.
    pub extents: [u64; 2],
    /// Bytes from one row to the next.
    pub row_bytes: u64,
    /// Elements of a box in each direction.
    pub box_extents: [u32; 2],
}

/// The kernel for a GEMM: `result[m][n] = left[m][k] * right[k][n]`, all row-major.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WgmmaGemm {
    tile: TileShape,
    /// Of all matrices: `bfloat16` or half precision.
    element: MatrixElement,
    /// True if the left factor is stored `[k][m]`.
    left_by_column: bool,
    /// True if the right factor is stored `[k][n]`, else `[n][k]`.
    right_by_row: bool,
    /// `m`, `n` and `k`.
    sizes: [u64; SIZE_WORDS],
    /// Products with the same right factor, each with a left factor and a result.
    parts: u32,
    /// Left and right factor and result of a part.
    pub matrices: [TiledMatrix; MATRICES],
}

impl WgmmaGemm {
    /// The kernels that compute a GEMM. There are none for other types, scales, a bias, batches, addresses that tensor
    /// maps do not support, a single result of another rank, or small sizes.
    pub fn candidates(shape: &GemmShape) -> Vec<Self> {
        if !is_supported(shape) {
            return Vec::new();
        }
        TILES.into_iter().map(|tile| Self::new(shape, tile)).collect()
    }

    /// cuBLASLt's matrices are column-major: its right factor is the left one of the transposed GEMM.
    fn new(shape: &GemmShape, mut tile: TileShape) -> Self {
        let ((right, right_transposed), (left, left_transposed)) = (shape.a, shape.b);
        let (left_by_column, right_by_row) = (left_transposed, !right_transposed);
        if right_by_row && !tile.columns.is_multiple_of(BOX * tile.cluster) {
            tile.cluster = 1;
        }
        let left_box = if left_by_column { [BOX, DEPTH] } else { [DEPTH, ROWS] };
        let right_box = if right_by_row { [BOX, DEPTH] } else { [DEPTH, tile.columns / 2] };
        let depth = if left_transposed { left.columns } else { left.rows };
        let tiled = |layout, box_extents| TiledMatrix::new(shape.element, layout, box_extents);
        Self {
            tile,
            element: shape.element,
            left_by_column,
            right_by_row,
            parts: shape.parts,
            sizes: [shape.d.columns, shape.d.rows, depth],
            matrices: [tiled(left, left_box), tiled(right, right_box), tiled(shape.d, [BOX, BOX])],
        }
    }

    /// The short form of the tile: `128x256, 4 stages, cluster of 2, groups of 4`.
    pub fn tile_name(&self) -> String {
        let TileShape { columns, stages, cluster, group } = self.tile;
        format!("{ROWS}x{columns}, {stages} stages, cluster of {cluster}, groups of {group}")
    }

    /// The tensor maps of each matrix: one for each part of the left factor and of the result.
    pub fn map_counts(&self) -> [usize; MATRICES] {
        [self.parts as usize, 1, self.parts as usize]
    }

    /// The words that follow the tensor maps.
    pub fn size_words(&self) -> [u64; SIZE_WORDS] {
        self.sizes
    }

    /// Bytes of shared memory for a block: stages, four boxes of results, and the alignment to 1,024 bytes.
    pub fn shared_bytes(&self) -> u32 {
        let stage = 2 * DEPTH * (ROWS + self.tile.columns);
        self.tile.stages * stage + 4 * 2 * BOX * BOX + 1024
    }

    /// Blocks on a device of so many SMs: one on each, as long as there are tiles for them.
    pub fn blocks(&self, sms: u32) -> u32 {
        let TileShape { columns, cluster, .. } = self.tile;
        let [m, n, _] = self.sizes;
        let part_tiles = m.div_ceil(u64::from(ROWS * cluster)) * n.div_ceil(u64::from(columns));
        let tiles = part_tiles * u64::from(self.parts);
        let clusters = u64::from((sms / cluster).max(1)).min(tiles);
        u32::try_from(clusters).unwrap_or(1) * cluster
    }

    /// CUDA C++ for NVRTC.
    pub fn source(&self) -> String {
        let TileShape { columns, stages, cluster, group } = self.tile;
        let mut text = String::from("typedef unsigned long long Word;\n");
        let settings = [
            ("COLUMNS", columns),
            ("STAGES", stages),
            ("CLUSTER", cluster),
            ("GROUP", group),
            ("PARTS", self.parts),
            ("LEFT_BY_COLUMN", u32::from(self.left_by_column)),
            ("RIGHT_BY_ROW", u32::from(self.right_by_row)),
            ("HALF_PRECISION", u32::from(self.element == MatrixElement::F16)),
        ];
        for (name, value) in settings {
            let _ = writeln!(text, "#define {name} {value}");
        }
        text + &self.multiply_function() + include_str!("wgmma_gemm.cu")
    }

    /// The function that adds a product of 64 rows, 16 deep, to the sums of a warpgroup.
    fn multiply_function(&self) -> String {
        let columns = self.tile.columns;
        let element = if self.element == MatrixElement::F16 { "f16" } else { "bf16" };
        let count = columns / 2;
        let registers: Vec<String> = (0..count).map(|at| format!("%{at}")).collect();
        let sums: Vec<String> = (0..count).map(|at| format!("\"+f\"(sums[{at}])")).collect();
        let [left, right, keep] = [count, count + 1, count + 2];
        let (registers, sums) = (registers.join(", "), sums.join(", "));
        let transposes = format!("{}, {}", u32::from(self.left_by_column), u32::from(self.right_by_row));
        format!(
            "__device__ __forceinline__ void multiply(float (&sums)[{count}], Word left, Word right, int keep) {{\n  \
             asm volatile(\"{{ .reg .pred add; setp.ne.b32 add, %{keep}, 0; \"\n    \
             \"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{element}.{element} {{{registers}}}, %{left}, %{right}, add, 1, 1, {transposes}; }}\"\n    \
             : {sums} : \"l\"(left), \"l\"(right), \"r\"(keep));\n}}\n"
        )
    }
}

impl TiledMatrix {
    /// A column-major matrix of cuBLASLt, whose columns are the rows here.
    fn new(element: MatrixElement, layout: MatrixLayout, box_extents: [u32; 2]) -> Self {
        let row_bytes = 2 * layout.leading.unsigned_abs();
        Self { element, extents: [layout.rows, layout.columns], row_bytes, box_extents }
    }
}

/// True if the kernel computes this GEMM.
fn is_supported(shape: &GemmShape) -> bool {
    let types =
        matches!(shape.element, MatrixElement::Bf16 | MatrixElement::F16) && shape.factors == [shape.element; 2];
    let plain = shape.bias == GemmBias::None && shape.scales == GemmScales::None && shape.batch == 1;
    let parts = if shape.remote { 2..=MOST_PARTS } else { 1..=1 }.contains(&shape.parts);
    let [a, b, _, d] = shape.alignments;
    let aligned = [a, b, d].iter().all(|alignment| u64::from(*alignment) >= MAP_ALIGNMENT);
    let fits = |layout: &MatrixLayout| {
        let steps = layout.leading > 0 && (2 * layout.leading.unsigned_abs()).is_multiple_of(MAP_ALIGNMENT);
        steps && layout.rows.max(layout.columns) <= i32::MAX as u64
    };
    types
        && plain
        && parts
        && aligned
        && [&shape.a.0, &shape.b.0, &shape.d].into_iter().all(fits)
        && shape.flop_count() >= WORTHWHILE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both factors are stored row by row.
    fn gemm_shape(m: u64, n: u64, k: u64) -> GemmShape {
        GemmShape::dense(MatrixElement::Bf16, [m, n, k], [false, false])
    }

    #[test]
    fn sizes_and_boxes_are_those_of_the_row_major_product() {
        let kernels = WgmmaGemm::candidates(&gemm_shape(4096, 1536, 1024));
        assert_eq!(kernels.len(), TILES.len());
        let wide = &kernels[0];
        assert_eq!(wide.size_words(), [4096, 1536, 1024]);
        let [left, right, result] = wide.matrices;
        assert_eq!((left.extents, left.row_bytes, left.box_extents), ([1024, 4096], 2048, [64, 128]));
        assert_eq!((right.extents, right.row_bytes, right.box_extents), ([1536, 1024], 3072, [64, 64]));
        assert_eq!((result.extents, result.row_bytes, result.box_extents), ([1536, 4096], 3072, [64, 64]));
    }

    #[test]
    fn no_more_blocks_than_multiprocessors_or_tiles() {
        let blocks = |m, n| -> Vec<u32> {
            WgmmaGemm::candidates(&gemm_shape(m, n, 8192)).iter().map(|kernel| kernel.blocks(132)).collect()
        };
        assert_eq!(blocks(8192, 8192), [132; 4]);
        // 2 row tiles by 2, 2, 3 and 4 column tiles; where two blocks are a cluster, they take the row tiles.
        assert_eq!(blocks(256, 512), [4, 4, 6, 8]);
        assert_eq!(blocks(129, 512), [4, 4, 6, 8]);
    }

    #[test]
    fn a_block_has_as_much_shared_memory_as_a_multiprocessor_gives() {
        for kernel in WgmmaGemm::candidates(&gemm_shape(8192, 8192, 8192)) {
            // 227 KiB, less the barriers and the alignment.
            assert!(kernel.shared_bytes() <= 227 * 1024 - 1024, "{kernel:?}");
        }
    }

    #[test]
    fn parts_share_the_right_factor() {
        let whole = GemmShape { parts: 4, remote: true, ..gemm_shape(128, 512, 4096) };
        let kernels = WgmmaGemm::candidates(&whole);
        assert_eq!(kernels.len(), TILES.len());
        assert_eq!(kernels[0].map_counts(), [4, 1, 4]);
        // A tile of 128 rows has no rows of two parts: one row tile by 2, 2, 3 and 4 column tiles, in each of 4 parts.
        let blocks: Vec<u32> = kernels.iter().map(|kernel| kernel.blocks(132)).collect();
        assert_eq!(blocks, [8, 16, 12, 16]);
        assert!(kernels.iter().all(|kernel| kernel.source().contains("#define PARTS 4\n")));
        assert_eq!(WgmmaGemm::candidates(&GemmShape { parts: MOST_PARTS + 1, ..whole.clone() }), []);
        assert_eq!(WgmmaGemm::candidates(&GemmShape { remote: false, ..whole }), []);
    }

    #[test]
    fn other_products_have_no_kernel() {
        let whole = gemm_shape(4096, 4096, 4096);
        let refused = [
            GemmShape { element: MatrixElement::F32, factors: [MatrixElement::F32; 2], ..whole.clone() },
            GemmShape { element: MatrixElement::F16, ..whole.clone() },
            GemmShape { factors: [MatrixElement::Bf16, MatrixElement::F16], ..whole.clone() },
            GemmShape { bias: GemmBias::Rows, ..whole.clone() },
            GemmShape { scales: GemmScales::Whole, ..whole.clone() },
            GemmShape { batch: 2, ..whole.clone() },
            GemmShape { remote: true, ..whole.clone() },
            GemmShape { alignments: [256, 8, 256, 256], ..whole.clone() },
            gemm_shape(4096, 4092, 4096),
            gemm_shape(64, 64, 64),
        ];
        for shape in refused {
            assert_eq!(WgmmaGemm::candidates(&shape), [], "{shape:?}");
        }
        // The bias of a GEMM without one may have any address.
        assert!(!WgmmaGemm::candidates(&GemmShape { alignments: [16, 16, 2, 16], ..whole }).is_empty());
    }
}
