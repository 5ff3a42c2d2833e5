//! Products of matrices that tensor maps describe.

use crate::note::KernelMeaning;
use hostir::ir::DType;
use hostir::plan::{BufferId, BufferView, GemmInst, InstKind, ViewDim};
use std::ffi::c_int;

/// Bytes of a tensor map.
pub(crate) const MAP_BYTES: usize = 128;
pub(crate) const MAP_WORDS: usize = MAP_BYTES / 8;

/// The element type of a kernel's matrices, and the order in which its factors are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TiledGemm {
    left_by_column: bool,
    right_by_row: bool,
    element: DType,
    parts: usize,
}

/// A matrix: its address, the elements of a row and the rows, and the elements from one row to the next.
#[derive(Clone, Copy)]
struct MapContent {
    element: DType,
    address: u64,
    extents: [usize; 2],
    step: usize,
}

impl TiledGemm {
    /// The kernel of a source, if it is one of these.
    pub(crate) fn read(source: &str) -> Option<Self> {
        let set = |name: &str| source.contains(&format!("#define {name} 1\n"));
        let other = |name: &str| source.contains(&format!("#define {name} 0\n"));
        let known = |name: &str| set(name) || other(name);
        let parts = source.split_once("#define PARTS ")?.1.lines().next()?.parse().ok()?;
        let names = ["LEFT_BY_COLUMN", "RIGHT_BY_ROW", "HALF_PRECISION"];
        names.into_iter().all(known).then(|| Self {
            left_by_column: set("LEFT_BY_COLUMN"),
            right_by_row: set("RIGHT_BY_ROW"),
            element: if set("HALF_PRECISION") { DType::Half } else { DType::BFloat16 },
            parts,
        })
    }

    /// The bytes of the kernel's tensor maps, by parameter.
    pub(crate) fn map_bytes(&self) -> [usize; 3] {
        [self.parts, 1, self.parts].map(|count| count * MAP_BYTES)
    }

    /// The products of a launch with these words, and the addresses of its matrices; none if the maps are not of matrices that
    /// fit the sizes.
    pub(crate) fn meaning(&self, words: &[u64]) -> Option<(KernelMeaning, Vec<u64>)> {
        let (maps, sizes) = words.split_at_checked((2 * self.parts + 1) * MAP_WORDS)?;
        let [m, n, k] = <[u64; 3]>::try_from(sizes).ok()?.map(|size| size as usize);
        let maps: Vec<MapContent> = maps.chunks(MAP_WORDS).map(MapContent::read).collect::<Option<_>>()?;
        if maps.iter().any(|map| map.element != self.element) {
            return None;
        }
        let right = self.parts;
        let mut gemms = Vec::new();
        for part in 0..self.parts {
            let result = right + 1 + part;
            let gemm = GemmInst {
                a: maps[part].view(part, [m, k], self.left_by_column)?,
                b: maps[right].view(right, [k, n], !self.right_by_row)?,
                bias: None,
                scales: None,
                out: maps[result].view(result, [m, n], false)?,
            };
            gemms.push(InstKind::Gemm(Box::new(gemm)));
        }
        let addresses = maps.iter().map(|map| map.address).collect();
        Some((KernelMeaning::Instructions(gemms), addresses))
    }
}

impl MapContent {
    fn read(words: &[u64]) -> Option<Self> {
        let [address, inner, outer, step, element] = *words.first_chunk()?;
        let element = map_element(element as c_int)?;
        Some(Self { element, address, extents: [inner as usize, outer as usize], step: step as usize / 2 })
    }

    /// The matrix of so many rows and columns, whose columns lie one after the other in memory if it is stored so.
    fn view(&self, buffer: usize, [rows, columns]: [usize; 2], by_column: bool) -> Option<BufferView> {
        let (inner, outer) = if by_column { (rows, columns) } else { (columns, rows) };
        if self.extents != [inner, outer] {
            return None;
        }
        let [near, far] = [1, self.step];
        let strides = if by_column { [near, far] } else { [far, near] };
        let dims = [rows, columns].into_iter().zip(strides).map(|(extent, stride)| ViewDim { extent, stride });
        let dims = dims.collect::<Vec<_>>().into();
        Some(BufferView { buffer: BufferId(buffer as u32), offset: 0, dims, dtype: self.element })
    }
}

/// The element type of the driver's number for it, `CUtensorMapDataType`, if it has 16 bits.
fn map_element(number: c_int) -> Option<DType> {
    match number {
        6 => Some(DType::Half),
        9 => Some(DType::BFloat16),
        _ => None,
    }
}

/// The words of a map for a matrix: its description in the first words. None if the device takes no such map.
pub(crate) fn map_words(
    element: c_int,
    address: u64,
    extents: [u64; 2],
    row_bytes: u64,
    boxes: [u32; 2],
) -> Option<[u64; MAP_WORDS]> {
    map_element(element)?;
    let aligned = address.is_multiple_of(16) && row_bytes.is_multiple_of(16);
    let sized = boxes.iter().all(|extent| (1..=256).contains(extent)) && 2 * boxes[0] <= 128;
    if !(aligned && sized && 2 * extents[0] <= row_bytes) {
        return None;
    }
    let mut words = [0; MAP_WORDS];
    words[..5].copy_from_slice(&[address, extents[0], extents[1], row_bytes, element as u64]);
    Some(words)
}
