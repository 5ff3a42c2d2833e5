//! Tensors, their iteration domains, and device meshes.

use super::expr::MeshCoordinate;
use super::ids::{ExprId, MeshId, UnitId};
use super::names::Symbol;
use super::types::{DType, IterType, MemoryType, ParallelType};
use rustc_hash::{FxHashMap, FxHashSet};

/// One axis as printed: `iS0{i0}`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IterDomain {
    /// The kind of the axis: iteration, reduction, broadcast, ...
    pub iter: IterType,
    /// The parallel type over which the axis is distributed.
    pub parallel: ParallelType,
    /// The number in the text; `None` when left out.
    pub number: Option<u32>,
    /// Extent over all devices.
    pub extent: ExprId,
    /// First index, if not 0.
    pub start: Option<ExprId>,
    /// Stop, if not the extent.
    pub stop: Option<ExprId>,
    /// Extent of an expanded broadcast (`bS3{1 ex i5}`).
    pub expanded: Option<ExprId>,
    /// `rf`: true if an rfactor made the axis.
    pub rfactor: bool,
    /// `_p`: true if the axis is padded to a warp.
    pub padded: bool,
    /// `_c`: true if the axis is clustered.
    pub clustered: bool,
}

impl IterDomain {
    /// An axis of indices from 0 to its extent, without a number.
    pub fn new(iter: IterType, parallel: ParallelType, extent: ExprId) -> Self {
        Self {
            iter,
            parallel,
            number: None,
            extent,
            start: None,
            stop: None,
            expanded: None,
            rfactor: false,
            padded: false,
            clustered: false,
        }
    }
    /// A broadcast axis that is not distributed; `one` is the scalar 1.
    pub fn broadcast(one: ExprId) -> Self {
        Self::new(IterType::Broadcast, ParallelType::Serial, one)
    }
    /// Whether the axis has no storage.
    #[inline]
    pub fn is_reduction(&self) -> bool {
        self.iter == IterType::Reduction
    }
    /// Whether the axis is a broadcast.
    #[inline]
    pub fn is_broadcast(&self) -> bool {
        self.iter == IterType::Broadcast
    }
    /// Returns true if the axis is sharded: distributed over devices and stored.
    #[inline]
    pub fn is_sharded(&self) -> bool {
        self.parallel.is_device() && !self.is_reduction()
    }

    /// Returns true if the axis is distributed over devices or streams.
    #[inline]
    pub fn is_distributed(&self) -> bool {
        self.parallel.is_device() || self.parallel == ParallelType::Stream
    }
}

/// A device mesh: devices in row-major order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeviceMesh {
    /// Extents, outermost first; the innermost is `deviceIdx.x`.
    pub shape: Vec<u32>,
    /// Device ids.
    pub devices: Vec<u32>,
}

impl DeviceMesh {
    /// The extent that a device parallel type spans (1 where the mesh has fewer axes).
    pub fn axis_extent(&self, parallel: ParallelType) -> Option<u32> {
        let inside = parallel.mesh_axis_from_inside()?;
        let rank = self.shape.len();
        Some(if inside < rank { self.shape[rank - 1 - inside] } else { 1 })
    }
    /// The device's position along the mesh axis of a device parallel type.
    pub fn device_coordinate(&self, device: u32, parallel: ParallelType) -> Option<u32> {
        self.coordinate_at(self.index_of(device)? as u32, parallel)
    }
    /// The coordinate of the device at an index of the list of devices.
    fn coordinate_at(&self, mut index: u32, parallel: ParallelType) -> Option<u32> {
        let inside = parallel.mesh_axis_from_inside()?;
        for (from_inside, extent) in self.shape.iter().rev().enumerate() {
            if from_inside == inside {
                return Some(index % extent);
            }
            index /= extent;
        }
        Some(0)
    }
    /// The devices with the coordinates of a device along all other axes, in order along this one.
    pub fn line_through(&self, device: u32, parallel: ParallelType) -> Option<Vec<u32>> {
        let inside = parallel.mesh_axis_from_inside()?;
        let index = self.index_of(device)?;
        let stride = self.shape.iter().rev().take(inside).map(|&extent| extent as usize).product::<usize>().max(1);
        let extent = self.axis_extent(parallel)?.max(1) as usize;
        let first = index - index / stride % extent * stride;
        (0..extent).map(|place| self.devices.get(first + place * stride).copied()).collect()
    }
    /// The index of a device in the list. Meshes of all devices have each at its own number.
    fn index_of(&self, device: u32) -> Option<usize> {
        let own = device as usize;
        if self.devices.get(own) == Some(&device) { Some(own) } else { self.devices.iter().position(|&d| d == device) }
    }
    /// The coordinates that the mesh has: one along each axis, and its size.
    pub fn mesh_coordinates(&self) -> impl Iterator<Item = (MeshCoordinate, &'static str)> + '_ {
        MeshCoordinate::ALL.iter().copied().filter(|(coordinate, _)| match coordinate {
            MeshCoordinate::Size => true,
            MeshCoordinate::Along(axis) => axis.mesh_axis_from_inside().is_some_and(|at| at < self.shape.len()),
        })
    }
    /// The coordinate of a word, `x`, `y`, `z` or `size`, that the mesh has.
    pub fn find_coordinate(&self, word: &str) -> Option<MeshCoordinate> {
        self.mesh_coordinates().find(|(_, known)| *known == word).map(|(coordinate, _)| coordinate)
    }
    /// A coordinate of a device; `None` for a device outside of the mesh.
    pub fn coordinate_value(&self, device: Option<u32>, coordinate: MeshCoordinate) -> Option<i64> {
        match coordinate {
            MeshCoordinate::Size => Some(self.devices.len() as i64),
            MeshCoordinate::Along(axis) => self.device_coordinate(device?, axis).map(i64::from),
        }
    }
    /// Returns true if all devices of another mesh are in this one.
    pub fn contains_mesh(&self, other: &DeviceMesh) -> bool {
        if self.devices == other.devices {
            return true;
        }
        let own: FxHashSet<u32> = self.devices.iter().copied().collect();
        other.devices.iter().all(|device| own.contains(device))
    }
    /// Returns true if the devices of another mesh have the same coordinates in this one.
    pub fn agrees_with_mesh(&self, other: &DeviceMesh, parallel: ParallelType) -> bool {
        if self == other {
            return true;
        }
        let own: FxHashMap<u32, u32> = self.devices.iter().copied().zip(0..).collect();
        other.devices.iter().zip(0..).all(|(device, index)| {
            let here = own.get(device).and_then(|&index| self.coordinate_at(index, parallel));
            here == other.coordinate_at(index, parallel)
        })
    }
    /// Returns true if the device is in the mesh.
    pub fn contains(&self, device: u32) -> bool {
        self.index_of(device).is_some()
    }
}

/// One tensor declaration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// The number: `3` of `T3`.
    pub number: u32,
    /// The name that the user gave.
    pub name: Option<Symbol>,
    /// The memory type.
    pub memory: MemoryType,
    /// Element type.
    pub dtype: DType,
    /// First domain in the program's domain arena.
    pub domains_start: u32,
    /// One past the last.
    pub domains_end: u32,
    /// Text such as `ca_pos( 3 ) produce_pos( 2 )`; empty for none.
    pub positions: Symbol,
    /// Mesh; `None` means every rank.
    pub mesh: Option<MeshId>,
    /// The axes, outermost first: positions among the printed domains. `None` if the domains are printed in
    /// axis order.
    pub axes: Option<Box<[u32]>>,
    /// True if the reader of the text found that some domain is a part of a split axis: the numbers suggest it, and the
    /// ops do not contradict (see [`looks_split`](super::order::has_split_numbers)), or an extent is a quotient.
    pub split: bool,
    /// Extents of the axes before all splits: those of `logical=`, or, with `split`, those that the reader inferred.
    pub logical: Option<Box<[ExprId]>>,
    /// The unit the tensor belongs to; `None` for the host program's own.
    pub unit: Option<UnitId>,
}

impl Tensor {
    /// Returns true if the reader of the text inferred the axes before the splits, which no text gives.
    pub fn has_inferred_axes(&self) -> bool {
        self.split && self.logical.is_some()
    }

    /// Returns true if two declarations differ in more than memory, name and positions.
    pub(crate) fn differs_in_type(&self, other: &Tensor) -> bool {
        let Tensor { number, name: _, memory: _, dtype, domains_start, domains_end, positions: _, .. } = self;
        let Tensor { mesh, axes, split, logical, unit, .. } = self;
        (number, dtype, domains_start, domains_end)
            != (&other.number, &other.dtype, &other.domains_start, &other.domains_end)
            || (mesh, axes, split, logical, unit)
                != (&other.mesh, &other.axes, &other.split, &other.logical, &other.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceMesh, ParallelType};

    /// The devices that a loop over all coordinates finds.
    #[test]
    fn lines_through_devices() {
        let devices: Vec<u32> = (0..24).map(|place| 30 - place).collect();
        let mesh = DeviceMesh { shape: vec![2, 3, 4], devices };
        let at = |z: u32, y: u32, x: u32| 30 - (z * 12 + y * 4 + x);
        for z in 0..2 {
            for y in 0..3 {
                for x in 0..4 {
                    let line = |axis| mesh.line_through(at(z, y, x), axis);
                    assert_eq!(line(ParallelType::DIDx), Some((0..4).map(|x| at(z, y, x)).collect()));
                    assert_eq!(line(ParallelType::DIDy), Some((0..3).map(|y| at(z, y, x)).collect()));
                    assert_eq!(line(ParallelType::DIDz), Some((0..2).map(|z| at(z, y, x)).collect()));
                }
            }
        }
        assert_eq!(mesh.line_through(31, ParallelType::DIDx), None);
        let row = DeviceMesh { shape: vec![3], devices: vec![0, 2, 1] };
        assert_eq!(row.line_through(2, ParallelType::DIDx), Some(vec![0, 2, 1]));
        assert_eq!(row.line_through(2, ParallelType::DIDy), Some(vec![2]));
    }
}
