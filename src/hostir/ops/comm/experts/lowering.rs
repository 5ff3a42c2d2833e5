//! Lowering of Dispatch and Combine: AllToAlls of slots, whose rows an index selects.
//!
//! A rank has `C` rows in the result of a Dispatch, `C / n` for each of the `n` ranks of the team. A token's slot at the
//! rank of its expert is its place among the tokens for that rank, by expert and then by token: a count of the tokens
//! before it, which running sums of a one-hot matrix give. Everything else is a read of rows by index.

use super::super::lowering::{contiguous_view, require_no_group, require_rank};
use super::words::{OUT_EXPERTS, OUT_RECEIVED, OUT_SENT, OUT_SOURCES, OUT_WEIGHTS};
use crate::axes::axis_text;
use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::ir::{AttrKey, DType, Op, OpId, TensorId, Value};
use crate::plan::{
    AccumulateInst, BufferView, CollectiveInst, CollectiveKind, CommSlot, ComposedKernel, Function, InstKind,
    PlanBuilder, RedOp, ScalarValue, StepOperand, ViewDim, emit_copy, emit_running_sums, emit_sum, emit_take,
    row_major, rows_of_view, unsharded_view,
};

/// A tensor of the op with its view on this rank, without axes over devices.
struct LocalTensor {
    tensor: TensorId,
    view: BufferView,
}

impl LocalTensor {
    fn operand(cx: &PlanBuilder<'_>, op: &Op, word: &str) -> Result<Self, Diag> {
        let Some(tensor) = op.kind.spec().named_operand(op, word).and_then(Value::as_tensor) else {
            return Err(cx.error_here(codes::NEEDED, format!("`{word}=` is unknown")));
        };
        let view = cx.input_view(tensor)?;
        Ok(Self { tensor, view: unsharded_view(cx, tensor, view) })
    }
    /// A result that the op has; an AllToAll can write it.
    fn result(cx: &mut PlanBuilder<'_>, op: &Op, word: &str) -> Result<Option<Self>, Diag> {
        let Some(tensor) = op.kind.spec().named_result(op, word).and_then(Value::as_tensor) else { return Ok(None) };
        let view = cx.output_view(tensor)?;
        let view = contiguous_view(cx, tensor, &view)?;
        Ok(Some(Self { tensor, view: unsharded_view(cx, tensor, view) }))
    }
    /// The result `out=`.
    fn out(cx: &mut PlanBuilder<'_>, op: &Op) -> Result<Self, Diag> {
        let out = Self::result(cx, op, "out")?;
        out.ok_or_else(|| cx.error_here(codes::NEEDED, "`out=` is unknown"))
    }
    fn row_count(&self) -> usize {
        self.view.dims.first().map_or(0, |dim| dim.extent)
    }
    /// The view as rows of one width: `[n]` is `[n, 1]`.
    fn as_rows(&self) -> BufferView {
        let mut view = self.view.clone();
        if view.dims.len() == 1 {
            view.dims.push(ViewDim { extent: 1, stride: 1 });
        }
        view
    }
    /// The elements of `[n]` or `[n, 1]`.
    fn as_column(&self) -> BufferView {
        let mut view = self.view.clone();
        view.dims.truncate(1);
        view
    }
    /// Fails unless the view has this number of rows, of a width if it is given, else of one element.
    fn require_shape(&self, cx: &PlanBuilder<'_>, rows: usize, width: Option<usize>, of: &Self) -> Result<(), Diag> {
        let shape = self.view.shape();
        let fits = match width {
            Some(width) => shape == [rows, width],
            None => shape == [rows] || shape == [rows, 1],
        };
        if fits {
            return Ok(());
        }
        let diag = cx.shape_error(self.tensor, &shape, of.tensor, &of.view.shape());
        let name = cx.quoted_tensor(self.tensor);
        Err(diag.with_note(match width {
            Some(width) => message!("{} needs the local shape [{}, {}]", name, rows, width),
            None => {
                message!(
                    "{} needs an element for each row, `{}`: [{}] on each rank",
                    name,
                    rows_text(cx, of.tensor),
                    rows
                )
            }
        }))
    }
}

/// A tensor's axes over devices and its axis of rows: `[x:4, t]`.
fn rows_text(cx: &PlanBuilder<'_>, tensor: TensorId) -> Message {
    let devices = cx.axes.stored_axes(tensor).take_while(|axis| axis.is_device_index()).count();
    let axes = cx.axes.stored_axes(tensor);
    let texts: Vec<Message> = axes.take(devices + 1).map(|axis| axis_text(cx.program, tensor, axis).into()).collect();
    message!("[{}]", Message::join(&texts, ", "))
}

/// The ranks that exchange tokens.
struct ExpertTeam {
    comm: CommSlot,
    members: usize,
}

impl ExpertTeam {
    /// The ranks of a tensor's mesh, else all.
    fn new(cx: &mut PlanBuilder<'_>, op: &Op, tensor: TensorId) -> Self {
        let mesh = cx.program.tensor_mesh(tensor).map(|mesh| mesh.devices.to_vec());
        let team = mesh.unwrap_or_else(|| (0..cx.env.ranks).collect());
        let members = team.len();
        Self { comm: cx.communicator_slot(team, cx.program.comm_backend(op), None), members }
    }
    /// The number of slots for each sending rank in a tensor.
    fn slots_of(&self, cx: &PlanBuilder<'_>, slots: &LocalTensor) -> Result<usize, Diag> {
        let rows = slots.row_count();
        if rows.is_multiple_of(self.members) {
            return Ok(rows / self.members);
        }
        let message = message!(
            "the {} rows of {} cannot be divided among {} ranks",
            rows,
            cx.quoted_tensor(slots.tensor),
            self.members
        );
        Err(cx.error_here(codes::SHAPES, message).with_note("each rank has a part of the rows for each sending rank"))
    }
    /// An AllToAll of equal parts, after which the stream goes on.
    fn exchange(&self, cx: &mut PlanBuilder<'_>, input: BufferView, output: BufferView) -> Result<(), Diag> {
        if input.is_empty() {
            return Ok(());
        }
        let work = cx.new_work();
        cx.emit_inst(InstKind::Collective(Box::new(CollectiveInst {
            comm: self.comm,
            kind: CollectiveKind::AllToAll,
            root: None,
            red_op: RedOp::Sum,
            input: Some(input),
            output: Some(output),
            work,
        })))?;
        cx.emit_inst(InstKind::WaitWork { work })
    }
}

/// The sizes of a Dispatch, and the expert of each token.
struct Routing {
    tokens: TensorId,
    experts: BufferView,
    token_count: usize,
    expert_count: usize,
    members: usize,
    /// The slots of each sending rank.
    capacity: usize,
}

/// The slots of a rank's tokens.
struct Slots {
    /// For each row that is sent: 1 plus the row of its token, or 0 without a token.
    sources: BufferView,
    /// The number of tokens for each rank.
    sent: BufferView,
}

/// `Dispatch`: tokens to slots, an AllToAll of each result.
pub(super) fn lower_dispatch(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    require_rank(cx)?;
    require_no_group(cx)?;
    let op = cx.program.op(id);
    let scratch = cx.scratch_start();
    let [tokens, experts, weights] = [
        LocalTensor::operand(cx, op, "in")?,
        LocalTensor::operand(cx, op, "topk_idx")?,
        LocalTensor::operand(cx, op, "topk_weights")?,
    ];
    let out = LocalTensor::out(cx, op)?;
    let width = tokens.view.dims.get(1).map_or(1, |dim| dim.extent);
    tokens.require_shape(cx, tokens.row_count(), Some(width), &out)?;
    out.require_shape(cx, out.row_count(), Some(width), &tokens)?;
    for column in [&experts, &weights] {
        column.require_shape(cx, tokens.row_count(), None, &tokens)?;
    }
    let team = ExpertTeam::new(cx, op, tokens.tensor);
    let routing = Routing {
        tokens: tokens.tensor,
        experts: experts.as_column(),
        token_count: tokens.row_count(),
        expert_count: expert_count(cx, op, team.members)?,
        members: team.members,
        capacity: team.slots_of(cx, &out)?,
    };
    let slots = routing.emit_slots(cx)?;
    let nothing = ScalarValue::Int(0);
    send_rows(cx, &team, &slots, &tokens, nothing, &out)?;
    let none = ScalarValue::Int(routing.expert_count as i64);
    for (word, column, empty) in [(OUT_EXPERTS, &experts, none), (OUT_WEIGHTS, &weights, nothing)] {
        if let Some(result) = LocalTensor::result(cx, op, word)? {
            result.require_shape(cx, out.row_count(), None, &out)?;
            send_rows(cx, &team, &slots, column, empty, &result)?;
        }
    }
    if let Some(result) = LocalTensor::result(cx, op, OUT_SOURCES)? {
        result.require_shape(cx, out.row_count(), None, &out)?;
        send_sources(cx, &team, &slots, &result)?;
    }
    send_counts(cx, op, &team, &slots, &tokens)?;
    cx.free_scratch_since(scratch)
}

/// The number of experts, which the ranks divide evenly.
fn expert_count(cx: &PlanBuilder<'_>, op: &Op, members: usize) -> Result<usize, Diag> {
    let Some(expr) = op.expr_attr(AttrKey::NumExperts) else {
        return Err(cx.error_here(codes::NEEDED, "`num_experts=` is unknown"));
    };
    let count = cx.eval_size(expr)?;
    if count > 0 && count.is_multiple_of(members) {
        return Ok(count);
    }
    Err(cx.error_here(codes::EXPERTS, super::checks::expert_count_message(count as i64, members)))
}

impl Routing {
    fn emit_slots(&self, cx: &mut PlanBuilder<'_>) -> Result<Slots, Diag> {
        let (tokens, experts) = (self.token_count, self.expert_count);
        let one_hot = self.emit_one_hot(cx)?;
        let totals = cx.new_scratch(self.tokens, &[experts], DType::Int)?;
        emit_sum(cx, one_hot.clone(), 0, totals.clone())?;
        let sent = cx.new_scratch(self.tokens, &[self.members], DType::Int)?;
        let by_rank = BufferView { dims: row_major(&[self.members, experts / self.members]), ..totals };
        emit_sum(cx, by_rank.clone(), 1, sent.clone())?;
        let first = self.emit_first_places(cx, by_rank)?;

        // The number of tokens of its expert up to each token.
        let running = emit_running_sums(cx, self.tokens, one_hot)?;
        let column = BufferView {
            dims: self.experts.dims.iter().copied().chain([ViewDim { extent: 1, stride: 0 }]).collect(),
            ..self.experts.clone()
        };
        let own = cx.new_scratch(self.tokens, &[tokens, 1], DType::Int)?;
        emit_take(cx, [running, column], 1, own.clone())?;
        let start = cx.new_scratch(self.tokens, &[tokens], DType::Int)?;
        emit_take(cx, [first, self.experts.clone()], 0, start.clone())?;
        let sources = self.emit_sources(cx, rows_only(own), start)?;
        Ok(Slots { sources, sent })
    }

    /// `[tokens, experts]`: 1 at each token's expert.
    fn emit_one_hot(&self, cx: &mut PlanBuilder<'_>) -> Result<BufferView, Diag> {
        let one_hot = cx.new_scratch(self.tokens, &[self.token_count, self.expert_count], DType::Int)?;
        let mut kernel = ComposedKernel::default();
        let mut experts = self.experts.clone();
        experts.dims.push(ViewDim { extent: self.expert_count, stride: 0 });
        let expert = kernel.input(experts);
        let is_own = kernel.test(Function::Eq, [expert, StepOperand::Index(1)]);
        kernel.integer(Function::Where, &[is_own, 1.into(), 0.into()]);
        kernel.emit(cx, one_hot.clone())?;
        Ok(one_hot)
    }

    /// For each expert, the number of tokens for experts before it on its rank; `totals` has those of each expert, by
    /// rank.
    fn emit_first_places(&self, cx: &mut PlanBuilder<'_>, totals: BufferView) -> Result<BufferView, Diag> {
        let (members, local) = (self.members, self.expert_count / self.members);
        let earlier = cx.new_scratch(self.tokens, &[members, local, local], DType::Int)?;
        let mut kernel = ComposedKernel::default();
        let mut repeated = totals;
        repeated.dims.insert(1, ViewDim { extent: local, stride: 0 });
        let count = kernel.input(repeated);
        let is_earlier = kernel.test(Function::Lt, [StepOperand::Index(2), StepOperand::Index(1)]);
        kernel.integer(Function::Where, &[is_earlier, count, 0.into()]);
        kernel.emit(cx, earlier.clone())?;
        let first = cx.new_scratch(self.tokens, &[members, local], DType::Int)?;
        emit_sum(cx, earlier, 2, first.clone())?;
        Ok(BufferView { dims: row_major(&[self.expert_count]), ..first })
    }

    /// The source of each slot. A token without a slot has an index out of range.
    fn emit_sources(&self, cx: &mut PlanBuilder<'_>, own: BufferView, start: BufferView) -> Result<BufferView, Diag> {
        let (all, local) = (self.members * self.capacity, self.expert_count / self.members);
        let sources = cx.new_scratch(self.tokens, &[all], DType::Int)?;
        cx.emit_inst(InstKind::Fill { dst: Box::new(sources.clone()), value: ScalarValue::Int(0) })?;
        if self.token_count == 0 {
            return Ok(sources);
        }
        let places = cx.new_scratch(self.tokens, &[self.token_count], DType::Int)?;
        let mut kernel = ComposedKernel::default();
        let (own, start) = (kernel.input(own), kernel.input(start));
        let expert = kernel.input(self.experts.clone());
        let through = kernel.integer(Function::Add, &[own, start]);
        let place = kernel.integer(Function::Sub, &[through, 1.into()]);
        let rank = kernel.integer(Function::Div, &[expert, local.into()]);
        let first = kernel.integer(Function::Mul, &[rank, self.capacity.into()]);
        let slot = kernel.integer(Function::Add, &[first, place]);
        let fits = kernel.test(Function::Lt, [place, self.capacity.into()]);
        kernel.integer(Function::Where, &[fits, slot, all.into()]);
        kernel.emit(cx, places.clone())?;
        let numbers = cx.new_scratch(self.tokens, &[self.token_count], DType::Int)?;
        let mut kernel = ComposedKernel::default();
        kernel.integer(Function::Add, &[StepOperand::Index(0), 1.into()]);
        kernel.emit(cx, numbers.clone())?;
        emit_accumulate(cx, places, numbers, sources.clone())?;
        Ok(sources)
    }
}

/// Adds rows to those of a view that an index of one axis names.
fn emit_accumulate(
    cx: &mut PlanBuilder<'_>,
    mut index: BufferView,
    value: BufferView,
    output: BufferView,
) -> Result<(), Diag> {
    let rest = value.dims.iter().skip(index.dims.len()).map(|dim| ViewDim { stride: 0, ..*dim });
    index.dims.extend(rest);
    let put = AccumulateInst { base: output.clone(), index, value, axis: 0, combine: Some(RedOp::Sum), output };
    cx.emit_inst(InstKind::Accumulate(Box::new(put)))
}

/// The view `[n]` of `[n, 1]`.
fn rows_only(mut view: BufferView) -> BufferView {
    view.dims.truncate(1);
    view
}

/// Sends a row for each slot: that of its token, or `empty` throughout.
fn send_rows(
    cx: &mut PlanBuilder<'_>,
    team: &ExpertTeam,
    slots: &Slots,
    tokens: &LocalTensor,
    empty: ScalarValue,
    out: &LocalTensor,
) -> Result<(), Diag> {
    let rows = tokens.as_rows();
    let [count, width] = [rows.dims[0].extent, rows.dims[1].extent];
    let padded = cx.new_scratch(tokens.tensor, &[count + 1, width], rows.dtype)?;
    cx.emit_inst(InstKind::Fill { dst: Box::new(rows_of_view(&padded, 0, 1)), value: empty })?;
    emit_copy(cx, rows, rows_of_view(&padded, 1, count))?;
    let sent = cx.new_scratch(tokens.tensor, &[out.row_count(), width], out.view.dtype)?;
    let mut sources = slots.sources.clone();
    sources.dims.push(ViewDim { extent: width, stride: 0 });
    emit_take(cx, [padded, sources], 0, sent.clone())?;
    team.exchange(cx, sent, out.view.clone())
}

/// Sends the token of each slot, or -1.
fn send_sources(cx: &mut PlanBuilder<'_>, team: &ExpertTeam, slots: &Slots, out: &LocalTensor) -> Result<(), Diag> {
    let sent = cx.new_scratch(out.tensor, &[out.row_count()], out.view.dtype)?;
    let mut kernel = ComposedKernel::default();
    let source = kernel.input(slots.sources.clone());
    kernel.integer(Function::Sub, &[source, 1.into()]);
    kernel.emit(cx, sent.clone())?;
    team.exchange(cx, sent, out.view.clone())
}

/// Stores the numbers of tokens for each rank, and exchanges them.
fn send_counts(
    cx: &mut PlanBuilder<'_>,
    op: &Op,
    team: &ExpertTeam,
    slots: &Slots,
    tokens: &LocalTensor,
) -> Result<(), Diag> {
    if let Some(result) = LocalTensor::result(cx, op, OUT_SENT)? {
        result.require_shape(cx, team.members, None, tokens)?;
        emit_copy(cx, slots.sent.clone(), result.as_column())?;
    }
    if let Some(result) = LocalTensor::result(cx, op, OUT_RECEIVED)? {
        result.require_shape(cx, team.members, None, tokens)?;
        let sent = cx.new_scratch(result.tensor, &[team.members], result.view.dtype)?;
        emit_copy(cx, slots.sent.clone(), sent.clone())?;
        team.exchange(cx, sent, result.view)?;
    }
    Ok(())
}

/// `Combine`: an AllToAll of the slots back, whose rows are added to those of their tokens. Rows without a token go to
/// a row of their own.
pub(super) fn lower_combine(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    require_rank(cx)?;
    require_no_group(cx)?;
    let op = cx.program.op(id);
    let scratch = cx.scratch_start();
    let input = LocalTensor::operand(cx, op, "in")?;
    let sources = LocalTensor::operand(cx, op, "src_idx")?;
    let out = LocalTensor::out(cx, op)?;
    let width = out.view.dims.get(1).map_or(1, |dim| dim.extent);
    out.require_shape(cx, out.row_count(), Some(width), &input)?;
    input.require_shape(cx, input.row_count(), Some(width), &out)?;
    sources.require_shape(cx, input.row_count(), None, &input)?;
    let team = ExpertTeam::new(cx, op, input.tensor);
    team.slots_of(cx, &input)?;

    let rows = cx.new_scratch(input.tensor, &[input.row_count(), width], input.view.dtype)?;
    let sent = contiguous_view(cx, input.tensor, &input.view)?;
    team.exchange(cx, sent, rows.clone())?;
    let returned = cx.new_scratch(sources.tensor, &[input.row_count()], sources.view.dtype)?;
    let sent = contiguous_view(cx, sources.tensor, &sources.view)?;
    team.exchange(cx, sent, returned.clone())?;
    let places = cx.new_scratch(sources.tensor, &[input.row_count()], DType::Int)?;
    let mut kernel = ComposedKernel::default();
    let source = kernel.input(returned);
    kernel.integer(Function::Add, &[source, 1.into()]);
    kernel.emit(cx, places.clone())?;

    let count = out.row_count();
    let sums = cx.new_scratch(out.tensor, &[count + 1, width], out.view.dtype)?;
    cx.emit_inst(InstKind::Fill { dst: Box::new(sums.clone()), value: ScalarValue::Int(0) })?;
    if !rows.is_empty() {
        emit_accumulate(cx, places, rows, sums.clone())?;
    }
    emit_copy(cx, rows_of_view(&sums, 1, count), out.view.clone())?;
    cx.free_scratch_since(scratch)
}
