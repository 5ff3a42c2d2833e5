//! The axes of tensors as the text means them (decision 5 of the design).
//!
//! Printed domains are loop domains: nvFuser moves device domains to the front. A tensor's axes are
//! its domains in printed order, with device domains alone put back where their number belongs; the
//! result of a permuting op keeps its printed order.

use crate::ir::{ExprId, IdVec, IterDomain, ParallelType, Program, TensorId};
use crate::ops::OpKind;

/// One logical axis, reductions included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Position among the printed domains; `u32::MAX` if it comes from `logical=`.
    pub printed: u32,
    /// Number of the domain in the text; `u32::MAX` for none.
    pub number: u32,
    /// Extent over all devices (of a broadcast: 1).
    pub extent: ExprId,
    /// Extent of an expanded broadcast.
    pub expanded: Option<ExprId>,
    /// What it is spread over.
    pub parallel: ParallelType,
    /// No storage.
    pub reduction: bool,
    /// Storage 1.
    pub broadcast: bool,
}

impl Axis {
    fn new(printed: usize, domain: &IterDomain) -> Self {
        Self {
            printed: printed as u32,
            number: domain.number,
            extent: domain.extent,
            expanded: domain.expanded,
            parallel: domain.parallel,
            reduction: domain.is_reduction(),
            broadcast: domain.is_broadcast(),
        }
    }
    /// Whether it is stored and spread over devices.
    pub fn sharded(&self) -> bool {
        self.parallel.is_device() && !self.reduction
    }
}

/// The logical axes of every tensor of a program.
pub struct AxesTable {
    axes: IdVec<TensorId, Vec<Axis>>,
}

impl AxesTable {
    /// Works the axes of all tensors out.
    pub fn new(program: &Program) -> Self {
        let mut permuted = IdVec::<TensorId, bool>::filled(false, program.tensors().len());
        for (_, op) in program.ops().iter() {
            if matches!(op.kind, OpKind::SetPermute | OpKind::SegmenterSetPermute) {
                for tensor in op.output_tensors() {
                    permuted[tensor] = true;
                }
            }
        }
        let ids = program.tensors().ids();
        Self { axes: ids.map(|tensor| logical(program, tensor, permuted[tensor])).collect() }
    }
    /// The axes of a tensor, reductions included.
    pub fn of(&self, tensor: TensorId) -> &[Axis] {
        &self.axes[tensor]
    }
    /// The stored axes of a tensor.
    pub fn stored(&self, tensor: TensorId) -> impl Iterator<Item = &Axis> {
        self.axes[tensor].iter().filter(|axis| !axis.reduction)
    }
}

fn logical(program: &Program, tensor: TensorId, permuted: bool) -> Vec<Axis> {
    if let Some(extents) = &program.tensor(tensor).logical {
        let plain = |&extent: &ExprId| Axis {
            printed: u32::MAX,
            number: u32::MAX,
            extent,
            expanded: None,
            parallel: ParallelType::Serial,
            reduction: false,
            broadcast: false,
        };
        return extents.iter().map(plain).collect();
    }
    let domains = program.domains(tensor);
    let printed: Vec<Axis> =
        domains.iter().enumerate().map(|(index, domain)| Axis::new(index, domain)).collect();
    if permuted || printed.iter().any(|axis| axis.number == u32::MAX) {
        return printed;
    }
    let (device, mut axes): (Vec<Axis>, Vec<Axis>) =
        printed.into_iter().partition(|axis| axis.parallel.is_device());
    for axis in device {
        let place = axes.iter().position(|other| other.number > axis.number);
        axes.insert(place.unwrap_or(axes.len()), axis);
    }
    axes
}
