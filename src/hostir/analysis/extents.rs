//! Equal extents and known extents.
//!
//! Every axis link says that two extents are equal, and a device axis is as long as its mesh. These facts imply
//! equalities across the program (`i4` is `i3` where a matmul contracts them) and values. The scalars of a HostUnit
//! have a name space of their own.

use crate::axes::LastAxes;
use crate::ir::AxisLink;
use crate::ir::{ExprId, OpId, Partition, Program, TensorId, UnitId};
use rustc_hash::FxHashMap;

/// A contradiction: two values for one extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentConflict {
    /// The op that makes the two equal; `None` for an axis and its mesh.
    pub op: Option<OpId>,
    /// The tensor whose axis it is.
    pub tensor: TensorId,
    /// The extent as written.
    pub extent: ExprId,
    /// The extent that the op requires.
    pub needs: i64,
    /// The extent that is already known.
    pub is: i64,
}

/// Classes of equal extents.
#[derive(Default, Debug)]
pub struct ExtentClasses {
    ids: FxHashMap<(u32, ExprId), u32>,
    classes: Partition,
    /// By class.
    values: Vec<Option<i64>>,
    conflicts: Vec<ExtentConflict>,
}

fn scope_key(unit: Option<UnitId>) -> u32 {
    unit.map_or(0, |unit| unit.0 + 1)
}

impl ExtentClasses {
    /// The classes that follow from all ops of the program.
    pub fn new(program: &Program) -> Self {
        let mut extents = Self::of_meshes(program);
        let mut links = Vec::new();
        program.walk_with_units(&mut |op| {
            links.clear();
            program.op(op).kind.spec().axes(program, op, &mut links);
            extents.link_op(program, op, &links);
        });
        extents
    }
    /// The classes that follow from meshes alone; [`ExtentClasses::link_op`] adds the ops, in the order of the program.
    pub(crate) fn of_meshes(program: &Program) -> Self {
        let mut extents = Self::default();
        for tensor in program.tensors().ids() {
            extents.link_mesh_axes(program, tensor);
        }
        extents
    }
    /// Contradictory extents, in program order.
    pub fn conflicts(&self) -> &[ExtentConflict] {
        &self.conflicts
    }

    /// Equates the extent of a device axis with its mesh.
    pub(crate) fn link_mesh_axes(&mut self, program: &Program, tensor: TensorId) {
        let Some(mesh) = program.tensor_mesh(tensor) else { return };
        for domain in program.domains(tensor) {
            let Some(extent) = mesh.axis_extent(domain.parallel) else { continue };
            if program.exprs().as_int(domain.extent).is_some() {
                continue;
            }
            let id = self.extent_id(program, program.tensor(tensor).unit, domain.extent);
            let root = self.classes.class_of(id) as usize;
            let needs = i64::from(extent);
            match self.values[root] {
                Some(is) if is != needs => {
                    self.conflicts.push(ExtentConflict { op: None, tensor, extent: domain.extent, needs, is });
                }
                _ => self.values[root] = Some(needs),
            }
        }
    }

    /// Equates the extents that an op's links pair.
    pub(crate) fn link_op(&mut self, program: &Program, op: OpId, links: &[AxisLink]) {
        let (mut from, mut to) = (LastAxes::default(), LastAxes::default());
        for link in links.iter().filter(|link| !link.broadcast) {
            let ((source, source_axis), (target, target_axis)) = (link.from, link.to);
            let source_extent = from.axis_extent(program, source, source_axis);
            let target_extent = to.axis_extent(program, target, target_axis);
            if let (Some(a), Some(b)) = (source_extent, target_extent) {
                let from = AxisExtent { tensor: source, extent: a };
                self.unite_extents(program, op, from, AxisExtent { tensor: target, extent: b });
            }
        }
    }

    fn unite_extents(&mut self, program: &Program, op: OpId, from: AxisExtent, to: AxisExtent) {
        let (AxisExtent { tensor: s, extent: a }, AxisExtent { tensor: t, extent: b }) = (from, to);
        let (ids, int) = (program.exprs(), |e| program.exprs().as_int(e).is_some());
        if (a == b && program.tensor(s).unit == program.tensor(t).unit) || (int(a) && int(b)) {
            return;
        }
        let (x, y) =
            (self.extent_id(program, program.tensor(s).unit, a), self.extent_id(program, program.tensor(t).unit, b));
        let (x, y) = (self.classes.find_class(x), self.classes.find_class(y));
        if let (Some(needs), Some(is)) = (self.values[x as usize], self.values[y as usize])
            && needs != is
        {
            let (tensor, extent, needs, is) =
                if ids.as_int(b).is_some() { (s, a, is, needs) } else { (t, b, needs, is) };
            self.conflicts.push(ExtentConflict { op: Some(op), tensor, extent, needs, is });
            return;
        }
        let value = self.values[x as usize].or(self.values[y as usize]);
        if let Some((kept, _)) = self.classes.join_classes(x, y) {
            self.values[kept as usize] = value;
        }
    }

    fn extent_id(&mut self, program: &Program, unit: Option<UnitId>, extent: ExprId) -> u32 {
        let (classes, values) = (&mut self.classes, &mut self.values);
        let value = program.exprs().as_int(extent);
        *self.ids.entry((scope_key(unit), extent)).or_insert_with(|| {
            values.push(value);
            classes.add_element()
        })
    }
}

/// The extent of an axis of a tensor.
#[derive(Clone, Copy)]
struct AxisExtent {
    tensor: TensorId,
    extent: ExprId,
}
