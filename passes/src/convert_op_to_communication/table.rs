//! The communications that replace an op: nvFuser's decision table.

use super::change::{ShardingChange, operand_result_links, outer_axis, sharding_changes};
use hostir::analysis::tensor_sharding;
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Message, Quoted};
use hostir::ir::{
    AttrKey, DeviceMesh, OpId, ParallelType, Program, TensorId, Transfer, bare_head, op_display_name, quoted_axis,
    quoted_expr, quoted_op,
};
use hostir::plan::{CollectiveKind, RedOp, starts_from_identity};
use rustc_hash::FxHashSet;

/// convert-op-to-communication: an op with several operands that needs data of other devices.
const CONVERT_OPERANDS: &str = "H0340";
/// convert-op-to-communication: an op that is neither a copy nor a reduction.
const CONVERT_OP: &str = "H0341";
/// convert-op-to-communication: a gathered or scattered axis that is not the outermost one.
pub(super) const CONVERT_INNER: &str = "H0342";
/// convert-op-to-communication: an op that changes the sharding of several axes.
const CONVERT_AXES: &str = "H0343";
/// convert-op-to-communication: a reduction across devices that does not reduce exactly one sharded axis.
const CONVERT_REDUCED: &str = "H0344";
/// convert-op-to-communication: a ReduceScatter between different meshes.
const CONVERT_MESHES: &str = "H0345";
/// convert-op-to-communication: a mesh of several dimensions where one is needed.
const CONVERT_DIMENSIONS: &str = "H0346";
/// convert-op-to-communication: a communication for each of very many devices.
const CONVERT_MEMBERS: &str = "H0347";
/// convert-op-to-communication: devices that cannot be paired.
const CONVERT_SIZES: &str = "H0348";
/// convert-op-to-communication: a reduce operation that communications do not support.
const CONVERT_RED_OP: &str = "H0349";
/// convert-op-to-communication: a reduction across devices with an initial value.
const CONVERT_INITIAL: &str = "H0240";
/// convert-op-to-communication: a tensor without a mesh where the other side has one.
const CONVERT_NO_MESH: &str = "H0350";

/// The maximum number of members of all communications of one op: the text lists each.
const MOST_MEMBERS: usize = 1 << 24;

/// The communications that an op becomes.
#[derive(Debug)]
pub(super) struct CommDecision {
    /// Their type.
    pub(super) kind: CollectiveKind,
    /// The reduce operation, if it is not the default.
    pub(super) red_op: Option<RedOp>,
    pub(super) input: TensorId,
    pub(super) output: TensorId,
    /// In the order they are posted.
    pub(super) posts: Vec<PlannedComm>,
    /// True if each rank takes part in exactly one of the communications: one for each row of the mesh.
    pub(super) rows: bool,
}

/// One communication.
#[derive(Debug)]
pub(super) struct PlannedComm {
    /// Devices in team order.
    pub(super) team: Vec<u32>,
    /// The root's device.
    pub(super) root: Option<u32>,
}

type DecisionResult<T> = Result<T, Box<Diag>>;

/// One op with what the table asks about it.
struct ReshardingQuery<'a> {
    program: &'a Program,
    id: OpId,
    input: TensorId,
    output: TensorId,
    sender: &'a DeviceMesh,
    receiver: &'a DeviceMesh,
}

/// The communications of a resharding op.
pub(super) fn decide_communication(program: &Program, id: OpId) -> DecisionResult<CommDecision> {
    let (input, output) = single_tensors(program, id)?;
    let (sender, receiver) = (require_mesh(program, id, input)?, require_mesh(program, id, output)?);
    let question = ReshardingQuery { program, id, input, output, sender, receiver };
    match program.op(id).kind.transfer() {
        Some(Transfer::Copy) => question.decide_set_op(),
        Some(Transfer::Reduction) => question.decide_reduction_op(),
        None => Err(question.error_at_op(
            CONVERT_OP,
            format!(
                "`{}` needs data of other devices, but only `Set` and `reduction` can become communications",
                op_display_name(program, id)
            )
            .into(),
            "move the data with a `Set` before or after it: --pass=insert-reshardings",
        )),
    }
}

/// One tensor in, one tensor out.
fn single_tensors(program: &Program, id: OpId) -> DecisionResult<(TensorId, TensorId)> {
    let op = program.op(id);
    let name = quoted_op(program, id);
    if let (&[a], &[b]) = (op.operands.as_slice(), op.results.as_slice())
        && let (Some(input), Some(output)) = (a.as_tensor(), b.as_tensor())
    {
        return Ok((input, output));
    }
    let message = message!(
        "`{}` needs data of other devices and has {} operands, but a communication has one",
        name,
        op.operands.len()
    );
    let note = "move the data of each operand with a `Set` before it: --pass=insert-reshardings";
    Err(Box::new(Diag::error(CONVERT_OPERANDS, program.op_span(id), message).with_note(note)))
}

fn require_mesh(program: &Program, id: OpId, tensor: TensorId) -> DecisionResult<&DeviceMesh> {
    program.tensor_mesh(tensor).ok_or_else(|| {
        let message = message!(
            "{} has no device mesh, so the devices that send or receive are unknown",
            program.quoted_tensor(tensor)
        );
        let note = "give both tensors a mesh: `(DeviceMesh{0 1})` after the domains";
        Box::new(Diag::error(CONVERT_NO_MESH, program.op_span(id), message).with_note(note))
    })
}

/// The device type over which the table counts a tensor as sharded: none on a mesh of one device.
fn is_sharded(program: &Program, tensor: TensorId, mesh: &DeviceMesh) -> bool {
    mesh.devices.len() > 1 && tensor_sharding(program, tensor).is_sharded()
}

impl ReshardingQuery<'_> {
    fn error_at_op(&self, code: &'static str, message: Message, note: impl Into<Message>) -> Box<Diag> {
        Box::new(Diag::error(code, self.program.op_span(self.id), message).with_note(note))
    }
    fn mesh_text(&self, tensor: TensorId) -> String {
        self.program.mesh_name(self.program.tensor(tensor).mesh)
    }
    fn has_same_mesh(&self) -> bool {
        self.sender == self.receiver
    }

    fn decide_set_op(&self) -> DecisionResult<CommDecision> {
        let change = self.single_change()?;
        let (mut from, mut to) =
            (is_sharded(self.program, self.input, self.sender), is_sharded(self.program, self.output, self.receiver));
        if let Some(change) = change.filter(|_| self.has_same_mesh()) {
            // Other device types may stay as they are.
            from &= !change.gained;
            to &= change.gained;
        }
        match (from, to, change) {
            (false, true, _) => self.decide_scatter(),
            (true, false, Some(change)) if self.has_same_mesh() => {
                Ok(self.row_decision(CollectiveKind::Allgather, None, change.device))
            }
            (true, false, _) => self.decide_gather(),
            (true, true, _) => self.decide_send_receive(),
            (false, false, _) => self.decide_broadcast(),
        }
    }

    fn decide_reduction_op(&self) -> DecisionResult<CommDecision> {
        self.check_initial()?;
        let device = self.reduced_device()?;
        let change = self.single_change()?;
        let red_op = self.reduction_op()?;
        if let Some(lost) = change.filter(|change| !change.gained) {
            return Err(self.combined_gather_error(lost));
        }
        if is_sharded(self.program, self.output, self.receiver) && (change.is_some() || !self.has_same_mesh()) {
            return self.decide_reduce_scatter(device, change, red_op);
        }
        if self.has_same_mesh() {
            return Ok(self.row_decision(CollectiveKind::Allreduce, red_op, device));
        }
        self.decide_reduce(red_op)
    }

    /// Checks the initial value: a communication has none, so each member would add it, or none.
    fn check_initial(&self) -> DecisionResult<()> {
        let op = self.program.op(self.id);
        let (Some((_, false)), Some(initial)) =
            (starts_from_identity(self.program, self.id), op.expr_attr(AttrKey::Init))
        else {
            return Ok(());
        };
        let message = message!(
            "the reduction across devices has the initial value `{}`, but a communication has none",
            quoted_expr(self.program, initial)
        );
        let note = "combine the value with the result in a separate op: --pass=insert-reshardings";
        Err(self.error_at_op(CONVERT_INITIAL, message, note))
    }

    fn combined_gather_error(&self, lost: ShardingChange) -> Box<Diag> {
        let axes = logical_axes(self.program, lost.sharded.0).axes;
        let printed = axes[lost.sharded.1 as usize].printed as usize;
        let message = message!(
            "the reduction across devices must also gather `{}` of {}, but a communication does only one of them",
            quoted_axis(self.program, &self.program.domains(lost.sharded.0)[printed]),
            self.program.quoted_tensor(lost.sharded.0)
        );
        let note = "keep the axis sharded in the result, and gather it with a `Set` after the reduction";
        self.error_at_op(CONVERT_AXES, message, note)
    }

    /// The one axis that changes its device type, if there is one. It must be the outermost one.
    fn single_change(&self) -> DecisionResult<Option<ShardingChange>> {
        let found = sharding_changes(self.program, self.id, self.input, self.output);
        if let [_, _, ..] = found.as_slice() {
            let message = message!(
                "{} axes change their sharding from {} to {}, but a communication can change only one",
                found.len(),
                self.program.quoted_tensor(self.input),
                self.program.quoted_tensor(self.output)
            );
            let note = "replicate the tensor with one `Set`, and shard the result with another";
            return Err(self.error_at_op(CONVERT_AXES, message, note));
        }
        let Some(change) = found.first().copied() else { return Ok(None) };
        for (tensor, axis) in std::iter::once(change.sharded).chain(change.whole) {
            if let Some(outer) = outer_axis(self.program, tensor, axis) {
                return Err(self.inner_axis_error(tensor, axis, quoted_axis(self.program, &outer)));
            }
        }
        Ok(Some(change))
    }

    fn inner_axis_error(&self, tensor: TensorId, axis: u32, outer: Quoted) -> Box<Diag> {
        let printed = logical_axes(self.program, tensor).axes[axis as usize].printed;
        let message = message!(
            "`{}` of {} is gathered or scattered, but is inside axis `{}`",
            quoted_axis(self.program, &self.program.domains(tensor)[printed as usize]),
            self.program.quoted_tensor(tensor),
            outer
        );
        let note = "permute the axis to the front, move the data, and permute back: --pass=reorder-sharded-axis; or make the outer axis stream-parallel: --pass=stream-parallel-type";
        self.error_at_op(CONVERT_INNER, message, note)
    }

    /// The device type of the one axis that a reduction reduces.
    fn reduced_device(&self) -> DecisionResult<ParallelType> {
        let (from, to) = (logical_axes(self.program, self.input), logical_axes(self.program, self.output));
        let name = self.program.quoted_tensor(self.input);
        let reduced = to.axes.iter().filter(|axis| axis.is_reduction()).count();
        if reduced != 1 {
            let message =
                message!("the reduction across devices reduces {} axes, but a communication reduces only one", reduced);
            let note = "first reduce the axes within a device, then the sharded axis in a second op";
            return Err(self.error_at_op(CONVERT_REDUCED, message, note));
        }
        let links = operand_result_links(self.program, self.id);
        let link = links.iter().find(|link| to.axes[link.to.1 as usize].is_reduction());
        let device = match link {
            Some(link) => from.axes[link.from.1 as usize].device_type(),
            // Loops of splits: the device loop that the result no longer has.
            None if from.has_parts() || to.has_parts() => {
                sharding_changes(self.program, self.id, self.input, self.output)
                    .iter()
                    .find(|change| !change.gained)
                    .map(|change| change.device)
            }
            // A broadcast is reduced.
            None => None,
        };
        device.ok_or_else(|| {
            let message = message!("the reduced axis of {} is not sharded", name);
            let note = "insert a `Set` that shards the axis before the reduction, or one that moves the result after it: --pass=insert-reshardings";
            self.error_at_op(CONVERT_REDUCED, message, note)
        })
    }

    /// The reduce operation, where it is not the default.
    fn reduction_op(&self) -> DecisionResult<Option<RedOp>> {
        let op = self.program.op(self.id);
        let word = op.word_attr(AttrKey::ReduceOp).map_or("add", |word| self.program.name(word));
        Ok(match word {
            "add" => None,
            "mul" => Some(RedOp::Product),
            "min" | "fmin" => Some(RedOp::Min),
            "max" | "fmax" => Some(RedOp::Max),
            "bitwise_and" => Some(RedOp::And),
            "bitwise_or" => Some(RedOp::Or),
            "bitwise_xor" => Some(RedOp::Xor),
            _ => {
                let message = message!("communications do not support the reduction `{}`", word);
                let note = "use add, mul, min, max, bitwise_and, bitwise_or or bitwise_xor, or gather the operand with a `Set` and reduce it on each device";
                return Err(self.error_at_op(CONVERT_RED_OP, message, note));
            }
        })
    }

    // ---- rows of the table ----

    fn make_decision(&self, kind: CollectiveKind, posts: Vec<PlannedComm>) -> CommDecision {
        let (input, output) = (self.input, self.output);
        CommDecision { kind, red_op: None, input, output, posts, rows: false }
    }

    /// One communication along each row of the mesh.
    fn row_decision(&self, kind: CollectiveKind, red_op: Option<RedOp>, device: ParallelType) -> CommDecision {
        let posts = mesh_rows(self.sender, device);
        let posts = posts.into_iter().map(|team| PlannedComm { team, root: None }).collect();
        CommDecision { red_op, rows: true, ..self.make_decision(kind, posts) }
    }

    fn decide_reduce_scatter(
        &self,
        device: ParallelType,
        change: Option<ShardingChange>,
        red_op: Option<RedOp>,
    ) -> DecisionResult<CommDecision> {
        if !self.has_same_mesh() {
            let message = message!(
                "the reduced tensor is on {} and its operand on {}, but a {} has one mesh",
                self.mesh_text(self.output),
                self.mesh_text(self.input),
                bare_head("ReduceScatter")
            );
            let note = "insert a `Set` that moves to the other mesh, before or after the reduction";
            return Err(self.error_at_op(CONVERT_MESHES, message, note));
        }
        if let Some(change) = change.filter(|change| change.device != device) {
            let message = message!(
                "the reduced axis is sharded over `{}`, but the result over `{}`",
                device.name(),
                change.device.name()
            );
            let note = "reduce with one op, and shard the result with a `Set`";
            return Err(self.error_at_op(CONVERT_AXES, message, note));
        }
        Ok(self.row_decision(CollectiveKind::ReduceScatter, red_op, device))
    }

    fn decide_reduce(&self, red_op: Option<RedOp>) -> DecisionResult<CommDecision> {
        self.require_one_dimensional(CollectiveKind::Reduce, &[self.input, self.output])?;
        let decision = self.make_decision(CollectiveKind::Reduce, self.comm_per_receiver(CollectiveKind::Reduce)?);
        Ok(CommDecision { red_op, ..decision })
    }

    fn decide_gather(&self) -> DecisionResult<CommDecision> {
        self.require_one_dimensional(CollectiveKind::Gather, &[self.input])?;
        Ok(self.make_decision(CollectiveKind::Gather, self.comm_per_receiver(CollectiveKind::Gather)?))
    }

    /// One communication of the senders for each receiving device, which is the root.
    fn comm_per_receiver(&self, kind: CollectiveKind) -> DecisionResult<Vec<PlannedComm>> {
        let (senders, receivers) = (self.sender.devices.len(), self.receiver.devices.len());
        if senders.saturating_mul(receivers) > MOST_MEMBERS {
            let message = message!(
                "this op needs a {} of {} devices for each of {} devices; all of them together may have \
                 {} members",
                bare_head(kind.name()),
                senders,
                receivers,
                MOST_MEMBERS
            );
            let note =
                "combine the data on one device, or on all devices of the operand's mesh, and broadcast the result";
            return Err(self.error_at_op(CONVERT_MEMBERS, message, note));
        }
        let receivers = self.receiver.devices.iter();
        Ok(receivers.map(|&root| rooted_comm(&self.sender.devices, root)).collect())
    }

    fn decide_scatter(&self) -> DecisionResult<CommDecision> {
        self.require_one_dimensional(CollectiveKind::Scatter, &[self.output])?;
        let senders = &self.sender.devices;
        // A root that does not receive is one more member of the team.
        let receivers: FxHashSet<u32> = self.receiver.devices.iter().copied().collect();
        let receives = senders.iter().find(|&device| receivers.contains(device));
        let posts = receives.or(senders.first()).map(|&root| rooted_comm(&self.receiver.devices, root));
        Ok(self.make_decision(CollectiveKind::Scatter, posts.into_iter().collect()))
    }

    fn decide_send_receive(&self) -> DecisionResult<CommDecision> {
        self.require_one_dimensional(CollectiveKind::SendRecv, &[self.input, self.output])?;
        let (senders, receivers) = (&self.sender.devices, &self.receiver.devices);
        if senders.len() != receivers.len() {
            let message = message!(
                "{} has {} devices and {} has {}, so they cannot be paired",
                self.mesh_text(self.input),
                senders.len(),
                self.mesh_text(self.output),
                receivers.len()
            );
            let note = "use meshes of equal size, or replicate the tensor in between with a `Set`";
            return Err(self.error_at_op(CONVERT_SIZES, message, note));
        }
        let pairs = senders.iter().zip(receivers).map(|(&from, &to)| plan_send_receive(from, to));
        Ok(self.make_decision(CollectiveKind::SendRecv, pairs.collect()))
    }

    fn decide_broadcast(&self) -> DecisionResult<CommDecision> {
        self.require_one_dimensional(CollectiveKind::Broadcast, &[self.input, self.output])?;
        let posts = self.sender.devices.first().map(|&root| rooted_comm(&self.receiver.devices, root));
        Ok(self.make_decision(CollectiveKind::Broadcast, posts.into_iter().collect()))
    }

    fn require_one_dimensional(&self, kind: CollectiveKind, tensors: &[TensorId]) -> DecisionResult<()> {
        for &tensor in tensors {
            let mesh = self.program.tensor_mesh(tensor);
            let dimensions = mesh.map_or(1, |mesh| mesh.shape.len());
            if dimensions != 1 {
                let message = message!(
                    "this op needs a {}, which requires one-dimensional meshes, but {} is on {}",
                    bare_head(kind.name()),
                    self.program.quoted_tensor(tensor),
                    self.mesh_text(tensor)
                );
                let note = "gather and reduce within the mesh first, or write the mesh with one dimension";
                return Err(self.error_at_op(CONVERT_DIMENSIONS, message, note));
            }
        }
        Ok(())
    }
}

/// The communication of one sender with its receiver.
fn plan_send_receive(from: u32, to: u32) -> PlannedComm {
    let team = if from == to { vec![from] } else { vec![from, to] };
    PlannedComm { team, root: Some(from) }
}

/// The devices, followed by the root if it is not one of them.
fn rooted_comm(devices: &[u32], root: u32) -> PlannedComm {
    let mut team = devices.to_vec();
    if !team.contains(&root) {
        team.push(root);
    }
    PlannedComm { team, root: Some(root) }
}

/// The rows of a mesh along a device type, each in mesh order, by their first devices.
fn mesh_rows(mesh: &DeviceMesh, device: ParallelType) -> Vec<Vec<u32>> {
    let inside = device.mesh_axis_from_inside().unwrap_or(0);
    let extents = mesh.shape.iter().rev().map(|&extent| extent as usize);
    let step: usize = extents.clone().take(inside).product();
    let length = extents.clone().nth(inside).unwrap_or(1).max(1);
    let starts = (0..mesh.devices.len()).filter(|at| (at / step).is_multiple_of(length));
    starts
        .map(|start| {
            let row = (0..length).map(|k| start + k * step);
            row.filter_map(|at| mesh.devices.get(at).copied()).collect()
        })
        .collect()
}
