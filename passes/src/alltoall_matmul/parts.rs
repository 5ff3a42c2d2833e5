//! The axes by which tensors are divided into parts, and the exchanges that swap the two.
//!
//! A tensor of parts is `[part, device, ..]` or `[device, part, ..]`: each device has a part for, or of, each other one.
//! An exchange of all with all is a copy from one of the forms to the other.

use crate::support::motion::consecutive_rank_count;
use crate::support::reshard::{has_one_element, stored_domains};
use hostir::axes::logical_axes;
use hostir::ir::{AttrKey, ExprId, IterDomain, MeshId, OpId, ParallelType, Program, TensorId, Transfer};

/// The first two axes of a tensor of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartAxes {
    mesh: MeshId,
    device: ParallelType,
    /// The place of the device axis: 0, or 1 if parts come first.
    device_place: usize,
    /// The number of devices, and of parts.
    pub(super) ranks: u32,
}

impl PartAxes {
    /// The axes of a tensor; `None` for one without parts.
    pub(super) fn of_tensor(program: &Program, tensor: TensorId) -> Option<Self> {
        let (ranks, mesh) = (consecutive_rank_count(program, tensor)?, program.tensor(tensor).mesh?);
        let domains = stored_domains(program, tensor);
        let device_place = only_device_place(program, tensor, &domains)?;
        let parts = domains.get(1usize.checked_sub(device_place)?)?;
        let devices = &domains[device_place];
        let literal = program.exprs().as_int(parts.extent) == Some(i64::from(ranks));
        let is_count = !parts.is_broadcast() && (literal || parts.extent == devices.extent);
        is_count.then_some(Self { mesh, device: devices.parallel, device_place, ranks })
    }

    /// The same parts on the other side of an exchange.
    pub(super) fn exchanged(self) -> Self {
        Self { device_place: 1 - self.device_place, ..self }
    }

    /// The place of the device axis among the first two, which is 0 or 1.
    pub(super) fn device_place(self) -> usize {
        self.device_place
    }

    /// The indices of the device axis and of the parts, in the order of the axes.
    pub(super) fn in_order(self, device: ExprId, part: ExprId) -> [ExprId; 2] {
        if self.device_place == 0 { [device, part] } else { [part, device] }
    }

    /// The way in which the op of one part reads a tensor, as an operand of an op with so many axes.
    pub(super) fn operand_form(self, program: &Program, tensor: TensorId, axis_count: usize) -> Option<PartForm> {
        let domains = stored_domains(program, tensor);
        if logical_axes(program, tensor).has_parts() || program.tensor(tensor).mesh != Some(self.mesh) {
            return None;
        }
        if domains.iter().all(|domain| domain.parallel == ParallelType::Serial) && domains.len() + 2 <= axis_count {
            return Some(PartForm::Whole);
        }
        let [first, second, rest @ ..] = domains.as_slice() else { return None };
        let (devices, parts) = if self.device_place == 0 { (first, second) } else { (second, first) };
        let is_same = has_one_element(program, devices) && devices.parallel == ParallelType::Serial;
        let is_one = has_one_element(program, parts);
        let is_count = program.exprs().as_int(parts.extent) == Some(i64::from(self.ranks))
            || (devices.parallel == self.device && parts.extent == devices.extent);
        let fits = (is_same || devices.parallel == self.device)
            && (is_one || is_count)
            && rest.iter().chain([parts]).all(|domain| domain.parallel == ParallelType::Serial);
        (fits && domains.len() == axis_count).then_some(if is_one { PartForm::OfAll } else { PartForm::OfPart })
    }
}

/// The place of the only device axis of a tensor, whose other axes are on no streams; `None` if it has others.
fn only_device_place(program: &Program, tensor: TensorId, stored: &[IterDomain]) -> Option<usize> {
    let whole = !logical_axes(program, tensor).has_parts();
    let spread = program.domains(tensor).iter().filter(|domain| domain.parallel != ParallelType::Serial).count();
    let place = stored.iter().position(|domain| domain.parallel.is_device())?;
    (whole && spread == 1).then_some(place)
}

/// The way in which the op of one part reads an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PartForm {
    /// The part that the loop has computed, or that has arrived.
    Computed,
    /// The part of the same number.
    OfPart,
    /// The same for all parts, `[1, device, ..]`.
    OfAll,
    /// All of a tensor that is the same on all devices.
    Whole,
}

/// A copy by which each device sends a part to each other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) op: OpId,
    pub(super) source: TensorId,
    pub(super) result: TensorId,
    /// The axes of the result.
    pub(super) axes: PartAxes,
}

impl Exchange {
    /// The exchange that an op is; `None` for an op that swaps nothing between devices, or the reason why it is none of
    /// parts.
    pub(super) fn of_op(program: &Program, id: OpId) -> Option<Result<Self, &'static str>> {
        let op = program.op(id);
        let (source, result) = (op.input_tensors().next()?, op.output_tensors().next()?);
        let places = [source, result]
            .map(|tensor| stored_domains(program, tensor).iter().position(|domain| domain.parallel.is_device()));
        let [Some(from), Some(to)] = places else { return None };
        if op.kind.transfer() != Some(Transfer::Copy) || op.attr(AttrKey::Perm).is_some() || from == to {
            return None;
        }
        if consecutive_rank_count(program, result).is_none()
            || program.tensor(source).mesh != program.tensor(result).mesh
        {
            return Some(Err("its devices are not 0, 1, and so on in one row"));
        }
        let axes = PartAxes::of_tensor(program, result);
        let swaps = axes.filter(|axes| PartAxes::of_tensor(program, source) == Some(axes.exchanged()));
        Some(
            swaps
                .map(|axes| Self { op: id, source, result, axes })
                .ok_or("what it moves is not `[device, part, ..]` or `[part, device, ..]`"),
        )
    }
}
