//! The plan builder: the state of one rank's host while it issues the program, and the functions that ops' `lower`
//! uses.
//!
//! The builder knows no op; the driver (`crate::lower`) runs blocks and calls the functions of the op table.

use super::axes::AxesTable;
use super::budget::PlanBudget;
use super::expr_value::{EvalError, ExprValue};
use super::inst_list::LoopRecorder;
use super::issued_communications::IssuedCommunications;
use super::loop_scope::{LoopScope, OuterIteration};
use super::scalar::EvalScope;
use super::stored_part::write_stored_once;
use super::stream_table::StreamTable;
use super::tensor_bindings::TensorBindings;
use super::{
    BufferKind, BufferView, CommSlot, EventId, ExtentEnv, Inst, InstKind, InstOrigin, IterationId, LoopIteration, Plan,
    PlanBuffer, PlanCommunicator, PlanPrint, PrintedValue, StreamLabel, StreamSlot, USER_STREAM, WorkSlot, row_major,
};
use crate::axes::LogicalAxis;
use crate::diag::message;
use crate::diag::{Diag, Message, Quoted, codes};
use crate::ir::functions::ScalarValue;
use crate::ir::{
    CommBackend, DType, Expr, ExprId, Id, IndexDefinitions, Op, OpId, Program, Symbol, TensorId, UnitId, bare_head,
    quoted_expr, quoted_head,
};
use std::cell::RefCell;

/// The state of one rank's host while it issues the program: ops' `lower` functions work on it.
pub struct PlanBuilder<'a> {
    /// The program.
    pub program: &'a Program,
    /// Sizes.
    pub env: &'a ExtentEnv,
    /// Logical axes of all tensors.
    pub axes: &'a AxesTable,
    /// The rank; `None` if the program runs on whole tensors (no tensor is sharded).
    pub rank: Option<u32>,
    /// The unit whose body is being lowered.
    pub unit: Option<UnitId>,
    /// The current stream.
    pub stream: StreamSlot,
    /// The plan so far.
    pub plan: Plan,
    /// Scalars that ops outside of the program's order define.
    definitions: IndexDefinitions,
    /// The op that is being lowered.
    pub(super) op: OpId,
    /// The loops around it.
    pub(crate) scope: LoopScope,
    /// The communications issued so far.
    pub(crate) communications: IssuedCommunications,
    streams: StreamTable,
    /// The memory of tensors.
    pub(crate) tensors: TensorBindings,
    pub(crate) budget: PlanBudget,
}

/// The measured bytes that the tables of a plan and of a CPU run need for each buffer.
const BUFFER_TABLES: usize = 512;

impl<'a> PlanBuilder<'a> {
    /// Starts the plan of `rank` (`None`: on whole tensors), with its inputs bound.
    ///
    /// # Errors
    /// If the inputs' shapes are unknown or differ from those of their aliases, or the budget does not suffice.
    pub(crate) fn new(
        program: &'a Program,
        env: &'a ExtentEnv,
        axes: &'a AxesTable,
        rank: Option<u32>,
        budget: PlanBudget,
    ) -> Result<Self, Diag> {
        let mut cx = Self {
            program,
            env,
            axes,
            rank,
            unit: None,
            stream: USER_STREAM,
            plan: Plan {
                rank: rank.unwrap_or(0),
                streams: 1,
                stream_labels: vec![StreamLabel::Unnamed],
                ..Plan::default()
            },
            definitions: IndexDefinitions::new(program),
            op: OpId(u32::MAX),
            scope: LoopScope::new(),
            communications: IssuedCommunications::new(program),
            streams: StreamTable::default(),
            tensors: TensorBindings::new(program),
            budget,
        };
        cx.plan.iterations.push(LoopIteration::new());
        cx.bind_inputs()?;
        cx.check_aliases()?;
        Ok(cx)
    }

    /// Returns the plan after the program's last op; the final memory of `kept` tensors follows the outputs'.
    ///
    /// # Errors
    /// If a coalescing group is still open.
    pub(crate) fn build_plan(mut self, kept: &[TensorId]) -> Result<Plan, Diag> {
        if let Some(start) = self.communications.open_group() {
            self.op = start;
            return Err(
                self.error_here(codes::POSTS, message!("`{}` has no `EndCoalescing`", quoted_head("StartCoalescing")))
            );
        }
        let outputs = self.program.outputs().iter().filter_map(|output| output.as_tensor());
        let outputs = outputs.chain(kept.iter().copied());
        let printed = std::mem::take(&mut self.plan.outputs);
        self.plan.outputs = outputs.map(|tensor| self.tensor_binding(tensor).cloned()).collect();
        self.plan.outputs.extend(printed);
        self.plan.insts.drop_build_state();
        Ok(self.plan)
    }

    fn bind_inputs(&mut self) -> Result<(), Diag> {
        let inputs = self.program.inputs().iter().filter_map(|input| input.as_tensor());
        for (index, tensor) in inputs.enumerate() {
            if !self.is_in_mesh(tensor) {
                self.plan.inputs.push(None);
                continue;
            }
            let shape = self.local_shape(tensor)?;
            let view = self.tensor_buffer(tensor, &shape, BufferKind::Input(index as u32))?;
            self.plan.inputs.push(Some(view.clone()));
            self.bind_tensor(tensor, view);
        }
        Ok(())
    }

    /// Checks that an alias has the shape of its original, and stores as much.
    fn check_aliases(&self) -> Result<(), Diag> {
        for &(new, original) in self.program.aliases().unwrap_or_default() {
            if !self.is_in_mesh(new) || !self.is_in_mesh(original) {
                continue;
            }
            let (mut left, mut right) = (self.local_shape(new)?, self.local_shape(original)?);
            if left == right {
                (left, right) = (self.stored_shape(new)?, self.stored_shape(original)?);
            }
            if left != right {
                return Err(self
                    .shape_error(new, &left, original, &right)
                    .with_note("an alias is another name of a tensor, so it has the same shape"));
            }
        }
        Ok(())
    }

    // ---- messages ----

    /// An error at the op that is being lowered, with the iteration and the rank in a note.
    pub fn error_here(&self, code: &'static str, message: impl Into<Message>) -> Diag {
        let span = if self.op.index() < self.program.ops().len() {
            self.program.op_span(self.op)
        } else {
            self.program.source().header
        };
        let mut diag = Diag::error(code, span, message);
        let mut place: Vec<String> =
            self.scope.indices.iter().map(|(name, value)| format!("{}={value}", self.program.name(*name))).collect();
        if self.env.ranks > 1
            && let Some(rank) = self.rank
        {
            place.push(format!("rank {rank}"));
        }
        if !place.is_empty() {
            diag = diag.with_note(message!("at {}", place.join(", ")));
        }
        diag
    }
    /// The tensor's name.
    pub fn tensor_name(&self, tensor: TensorId) -> String {
        self.program.tensor_name(tensor)
    }
    /// The tensor's name in a message.
    pub fn quoted_tensor(&self, tensor: TensorId) -> Quoted {
        self.program.quoted_tensor(tensor)
    }

    /// Adds what a print shows; the copies of tensors follow the outputs.
    pub(crate) fn add_print(&mut self, values: Vec<(String, PrintedValue)>) {
        let tensors = values.iter().filter_map(|(_, value)| match value {
            PrintedValue::Tensor(view) => Some(Some(view.clone())),
            PrintedValue::Scalar(_) => None,
        });
        self.plan.outputs.extend(tensors);
        let origin = InstOrigin { op: self.op, iteration: self.scope.iteration };
        self.plan.notes.prints.push(PlanPrint { origin, values });
    }

    /// Starts to record the rounds of a loop.
    pub(crate) fn record_loop(&self) -> LoopRecorder {
        LoopRecorder::new(&self.plan.insts)
    }
    /// A round of a loop has been issued: it is stored once with those before it, if it is like them.
    pub(crate) fn end_round(&mut self, recorder: &mut LoopRecorder) {
        let bytes = recorder.end_round(&mut self.plan.insts);
        self.budget.refund_bytes(bytes);
    }
    /// The last round of a loop has been issued.
    pub(crate) fn end_loop(&mut self, mut recorder: LoopRecorder) {
        recorder.close_run(&mut self.plan.insts);
    }

    // ---- running ops ----

    /// Sets the op that instructions and errors belong to; returns the previous one.
    pub(crate) fn enter_op(&mut self, op: OpId) -> OpId {
        std::mem::replace(&mut self.op, op)
    }
    /// Returns to the enclosing op.
    pub(crate) fn leave_op(&mut self, outer: OpId) {
        self.op = outer;
    }
    /// Begins an iteration of a loop, or a branch (no index); `cut` is the index by which its body cuts tensors.
    ///
    /// # Errors
    /// If the plan gets too large.
    pub(crate) fn enter_iteration(
        &mut self,
        index: Option<(Symbol, i64)>,
        cut: Option<ExprId>,
    ) -> Result<OuterIteration, Diag> {
        let outer = self.scope.outer();
        if let Some((index, value)) = index {
            self.scope.bind_index(index, value, IterationId(self.plan.iterations.len() as u32));
            self.charge_bytes(size_of::<LoopIteration>())?;
            let grown = self.plan.iterations.try_reserve(1);
            grown.map_err(|_| self.error_here(codes::NO_MEMORY, "out of memory: cannot allocate the plan"))?;
            self.plan.iterations.push(self.scope.indices.clone());
        }
        self.scope.stream_indices.extend(cut);
        Ok(outer)
    }
    /// Ends an iteration or a branch.
    pub(crate) fn leave_iteration(&mut self, outer: OuterIteration) {
        self.scope.restore(outer);
    }
    /// Appends an instruction.
    ///
    /// # Errors
    /// If it gives a stored element several values, or the plan becomes too large.
    pub fn emit_inst(&mut self, mut kind: InstKind) -> Result<(), Diag> {
        write_stored_once(&mut kind).map_err(|axis| self.several_values_error(&kind, axis))?;
        if !self.plan.insts.reserve_one() {
            return Err(self.error_here(codes::NO_MEMORY, "out of memory: cannot allocate the plan"));
        }
        let queue_bytes = kind.queue_bytes();
        let origin = InstOrigin { op: self.op, iteration: self.scope.iteration };
        let bytes = self.plan.insts.push(Inst { kind, stream: self.stream, origin });
        self.charge_bytes(bytes + queue_bytes)
    }
    /// The number of instructions so far.
    pub(crate) fn inst_count(&self) -> usize {
        self.plan.insts.len()
    }
    /// Takes back the instructions from this number on, which the op that is being lowered has appended.
    pub(crate) fn take_insts(&mut self, start: usize) -> Vec<InstKind> {
        self.plan.insts.take_tail(start).into_iter().map(|inst| inst.kind).collect()
    }
    /// The op that is being lowered.
    pub(crate) fn current_op(&self) -> OpId {
        self.op
    }
    /// The indices of the loops around the op that is being lowered, with their values, the outermost first.
    pub(crate) fn loop_indices(&self) -> &[(Symbol, i64)] {
        &self.scope.indices
    }
    /// Returns true while a loop's iteration is being lowered.
    pub(crate) fn is_in_loop(&self) -> bool {
        !self.scope.indices.is_empty()
    }
    /// Adds a completion handle.
    pub fn new_work(&mut self) -> WorkSlot {
        self.plan.works += 1;
        WorkSlot(self.plan.works - 1)
    }
    /// Adds an event.
    pub fn new_event(&mut self) -> EventId {
        self.plan.events += 1;
        EventId(self.plan.events - 1)
    }
    /// Returns the communicator of a team, a backend and a name, and adds it if it is new.
    pub fn communicator_slot(&mut self, team: Vec<u32>, backend: CommBackend, name: Option<&str>) -> CommSlot {
        let communicator = PlanCommunicator { team, backend, name: name.map(Box::from) };
        self.communications.communicator_slot(communicator, &mut self.plan.communicators)
    }

    // ---- scalars ----

    pub(super) fn eval_scope(&self) -> EvalScope<'_> {
        EvalScope {
            program: self.program,
            env: self.env,
            unit: self.unit,
            rank: self.rank,
            locals: &self.scope.locals,
            definitions: &self.definitions,
            known: RefCell::default(),
        }
    }
    /// Evaluates an expression.
    ///
    /// # Errors
    /// If the expression has no value, for example because a name is not bound or a division is by zero.
    pub fn eval_scalar(&self, expr: ExprId) -> Result<ScalarValue, Diag> {
        self.eval_scope().eval_expr(expr).map_err(|error| self.eval_error(error))
    }
    /// Evaluates the elements of an array.
    ///
    /// # Errors
    /// If an element has no value.
    pub fn eval_array(&self, elements: &[ExprId]) -> Result<ExprValue, Diag> {
        let values: Result<Vec<ExprValue>, Diag> = elements.iter().map(|&element| self.eval_value(element)).collect();
        ExprValue::array(values?).map_err(|error| self.eval_error(error))
    }
    /// Evaluates an expression that may be an array or a struct.
    ///
    /// # Errors
    /// If the expression has no value.
    pub fn eval_value(&self, expr: ExprId) -> Result<ExprValue, Diag> {
        self.eval_scope().eval_value(expr).map_err(|error| self.eval_error(error))
    }
    /// Evaluates an expression to an integer.
    ///
    /// # Errors
    /// If the expression has no value, or one that is no integer.
    pub fn eval_int(&self, expr: ExprId) -> Result<i64, Diag> {
        self.eval_scope().eval_int(expr).map_err(|error| self.eval_error(error))
    }
    /// Evaluates an expression to a size.
    ///
    /// # Errors
    /// If the expression has no value, or one that is no integer or is negative.
    pub fn eval_size(&self, expr: ExprId) -> Result<usize, Diag> {
        let value = self.eval_int(expr)?;
        usize::try_from(value).map_err(|_| self.error_here(codes::SIZE, message!("a size is {}", value)))
    }
    /// The error for an expression without a value.
    pub fn eval_error(&self, error: EvalError) -> Diag {
        match error {
            EvalError::Unknown(name) => {
                let name = self.program.name(name);
                let (diag, option) = (
                    self.error_here(codes::NO_VALUE, message!("`{}` has no value here", name)),
                    Quoted::set_option(name, "..."),
                );
                diag.with_note(match self.program.is_hir2() {
                    true => message!("give it one in a line above, `{} = ..`, or use `{}` if it is an extent", name, option),
                    false => message!("nvFuser prints the name of a scalar without its definition; write the expression in place of `{}`, or use `{}` if it is an extent", name, option),
                })
            }
            EvalError::NoInteger(expr, value) => {
                let text = quoted_expr(self.program, expr);
                let is = if text.printed() == value.to_string() { String::new() } else { format!(", {value},") };
                let kind = match value {
                    ScalarValue::Bool(_) => "truth value",
                    ScalarValue::Complex(..) => "complex number",
                    _ => "real number",
                };
                self.error_here(codes::NO_INTEGER, message!("`{}`{} is a {}, but an integer is required", text, is, kind))
                    .with_note(match self.program.is_hir2() {
                        true => "indices, bounds, streams, peers, roots and extents must be integers; `i64(x)` converts a real",
                        false => "indices, bounds, streams, peers, roots and extents must be integers; `(int64_t)( x )` converts a real",
                    })
            }
            EvalError::Invalid(text) => self.error_here(codes::NO_VALUE, text),
        }
    }

    // ---- streams ----

    /// Returns the stream of an operand `Stream e`: the one bound by a GetCurrentStream, else one by index.
    ///
    /// # Errors
    /// If the index cannot be evaluated or is negative, or no GetCurrentStream has bound the stream's address.
    pub fn stream_slot(&mut self, expr: ExprId) -> Result<StreamSlot, Diag> {
        if let Some(slot) = self.streams.named_stream(expr) {
            return Ok(slot);
        }
        if let Expr::Hex(_) = self.program.expr(expr) {
            let message =
                message!("{} was not bound by {}", self.program.stream_name(expr), bare_head("GetCurrentStream"));
            return Err(self.error_here(codes::NO_VALUE, message));
        }
        let index = self.stream_index(expr)?;
        Ok(self.streams.indexed_stream(index, &mut self.plan))
    }

    /// Binds a stream's name to the current stream, unless it is bound. A number and an address are names; the name
    /// of a computed index is its value.
    ///
    /// # Errors
    /// If a computed index cannot be evaluated or is negative.
    pub fn bind_current_stream(&mut self, expr: ExprId) -> Result<(), Diag> {
        let label = match self.program.expr(expr) {
            Expr::Int(_) | Expr::Hex(_) => StreamLabel::Bound(expr),
            _ => StreamLabel::Index(self.stream_index(expr)?),
        };
        self.streams.bind_label(label, self.stream, &mut self.plan);
        Ok(())
    }

    fn stream_index(&mut self, expr: ExprId) -> Result<i64, Diag> {
        match self.eval_int(expr)? {
            index if index < 0 => {
                Err(self.error_here(codes::OUT_OF_RANGE, message!("the index of the stream is {}", index)))
            }
            index => Ok(index),
        }
    }

    // ---- tensors ----

    /// Removes the bindings of a unit's tensors.
    pub(crate) fn end_unit(&mut self, unit: UnitId) -> Result<(), Diag> {
        for tensor in self.tensors.tensors_of_unit(unit).to_vec() {
            self.rebind_tensor(tensor, None)?;
        }
        Ok(())
    }

    /// The local shape of a tensor's stored axes; a sharded axis has extent 1, and an expanded broadcast has its
    /// expanded extent.
    ///
    /// # Errors
    /// If an extent cannot be evaluated or is negative, a broadcast's extent is not 1, or splits made the tensor's
    /// axes and no `logical=` gives them.
    pub fn local_shape(&self, tensor: TensorId) -> Result<Vec<usize>, Diag> {
        self.check_splits(tensor)?;
        let unit = self.program.tensor(tensor).unit;
        let scope = EvalScope { unit, ..self.eval_scope() };
        let mut shape = Vec::new();
        for axis in self.axes.stored_axes(tensor) {
            if self.rank.is_some() && axis.is_device_index() {
                shape.push(1);
                continue;
            }
            let expr = axis.expanded.unwrap_or(axis.extent);
            let extent = scope.eval_int(expr).map_err(|error| self.eval_error(error))?;
            if axis.is_broadcast() && axis.expanded.is_none() && extent != 1 {
                let message = message!(
                    "a broadcast axis of {} has extent {}, but must have extent 1",
                    self.quoted_tensor(tensor),
                    extent
                );
                let note =
                    "write `{1 ex ..}` for a broadcast that is expanded, or an `i` axis with elements of its own";
                return Err(self.error_here(codes::BROADCAST_SIZE, message).with_note(note));
            }
            let size = usize::try_from(extent).map_err(|_| {
                let message = message!("an axis of {} has size {}", self.quoted_tensor(tensor), extent);
                self.error_here(codes::SIZE, message)
            })?;
            shape.push(match axis.parts.filter(|_| self.rank.is_some()) {
                Some(parts) => self.part_size(tensor, size, parts)?,
                None => size,
            });
        }
        Ok(shape)
    }

    /// The offset of a random op without a seed: the number of those that ran before it.
    pub(crate) fn next_random_offset(&mut self) -> i64 {
        let offset = self.scope.random_draws;
        self.scope.random_draws += 1;
        offset
    }

    /// Refuses domains made by splits without `logical=`.
    fn check_splits(&self, tensor: TensorId) -> Result<(), Diag> {
        if !self.axes.is_split(tensor) {
            return Ok(());
        }
        let name = self.quoted_tensor(tensor);
        let message = message!("the shape of {} is unknown, because its axes result from splits", name);
        let mut diag = self.error_here(codes::SPLIT_AXES, message).with_note(self.split_note(tensor));
        // Before the first op runs, the declaration is wrong.
        let declared = self.program.source().tensors.get(tensor).copied();
        if let (Some(span), Some(primary)) =
            (declared.filter(|_| self.op.index() >= self.program.ops().len()), &mut diag.primary)
        {
            primary.span = span;
        }
        Err(diag)
    }

    /// Adds a buffer of this shape.
    ///
    /// # Errors
    /// If the buffer is too large for an address, exceeds the memory limit, or the plan becomes too large.
    pub fn new_buffer(&mut self, tensor: TensorId, shape: &[usize], kind: BufferKind) -> Result<BufferView, Diag> {
        self.add_buffer(tensor, shape, self.program.tensor(tensor).dtype, kind)
    }

    /// Adds scratch memory of this shape, which [`Self::free_scratch`] ends; messages name it after a tensor.
    ///
    /// # Errors
    /// As [`Self::new_buffer`].
    pub fn new_scratch(&mut self, tensor: TensorId, shape: &[usize], dtype: DType) -> Result<BufferView, Diag> {
        self.add_buffer(tensor, shape, dtype, BufferKind::Temp)
    }

    /// Ends the lifetime of scratch memory.
    ///
    /// # Errors
    /// If the plan becomes too large.
    pub fn free_scratch(&mut self, view: &BufferView) -> Result<(), Diag> {
        let entry = &self.plan.buffers[view.buffer];
        self.budget.release_memory((entry.elements * entry.dtype.byte_size()) as u64);
        self.emit_inst(InstKind::Free { buffer: view.buffer })
    }

    fn add_buffer(
        &mut self,
        tensor: TensorId,
        shape: &[usize],
        dtype: DType,
        kind: BufferKind,
    ) -> Result<BufferView, Diag> {
        let elements = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.byte_size()));
        let (Some(elements), Some(bytes)) = (elements, bytes) else {
            let message = message!("{} of shape {} is too large", self.quoted_tensor(tensor), format!("{shape:?}"));
            return Err(self.error_here(codes::TOO_LARGE, message));
        };
        let live_bytes = self.budget.hold_memory(bytes as u64);
        self.plan.peak_bytes = self.plan.peak_bytes.max(live_bytes);
        if live_bytes > self.budget.memory {
            let message = message!(
                "{} of shape {} raises the buffers of one rank to {} bytes; the limit is {}",
                self.quoted_tensor(tensor),
                format!("{shape:?}"),
                live_bytes,
                self.budget.memory
            );
            let mut diag = self.error_here(codes::TOO_LARGE, message);
            // Inputs have their memory before the first op.
            let declared = self.program.source().tensors.get(tensor).copied();
            let input = matches!(kind, BufferKind::Input(_));
            if let (true, Some(span), Some(place)) = (input, declared, &mut diag.primary) {
                place.span = span;
            }
            return Err(diag);
        }
        self.charge_bytes(size_of::<PlanBuffer>() + BUFFER_TABLES)?;
        let buffer = self.plan.buffers.push(PlanBuffer { elements, dtype, tensor, kind });
        self.plan.buffer_shapes.push(shape.iter().copied().collect());
        self.tensors.add_buffer();
        if !matches!(kind, BufferKind::Input(_)) {
            self.emit_inst(InstKind::Alloc { buffer })?;
        }
        Ok(BufferView { buffer, offset: 0, dims: row_major(shape), dtype })
    }

    fn bind_tensor(&mut self, tensor: TensorId, view: BufferView) {
        self.tensors.bind(self.program.memory_tensor(tensor), view);
    }

    /// Binds a tensor to a view, or to nothing; memory without any remaining binding is freed.
    ///
    /// # Errors
    /// If the plan becomes too large.
    pub fn rebind_tensor(&mut self, tensor: TensorId, view: Option<BufferView>) -> Result<(), Diag> {
        let Some(buffer) = self.tensors.rebind(self.program.memory_tensor(tensor), view) else { return Ok(()) };
        let entry = &self.plan.buffers[buffer];
        if !matches!(entry.kind, BufferKind::Input(_)) {
            self.budget.release_memory((entry.elements * entry.dtype.byte_size()) as u64);
            self.emit_inst(InstKind::Free { buffer })?;
        }
        Ok(())
    }

    /// Returns the view to which a tensor is bound.
    pub fn tensor_binding(&self, tensor: TensorId) -> Option<&BufferView> {
        self.tensors.view(self.program.memory_tensor(tensor))
    }

    /// The view of a tensor that an op reads.
    ///
    /// # Errors
    /// If the tensor has no memory on this rank: the rank is not in its mesh, it was freed, or nothing has written it.
    pub fn input_view(&self, tensor: TensorId) -> Result<BufferView, Diag> {
        if let Some(view) = self.tensor_binding(tensor) {
            return Ok(view.clone());
        }
        if let Some(error) = self.ended_error(tensor) {
            return Err(error);
        }
        let name = self.quoted_tensor(tensor);
        if !self.is_in_mesh(tensor) {
            let message = message!("{} is not on this rank: its mesh does not contain the rank", name);
            return Err(self.error_here(codes::NO_MEMORY_HERE, message));
        }
        Err(self.freed_error(tensor).unwrap_or_else(|| {
            let input = self.program.inputs().iter().any(|input| input.as_tensor() == Some(tensor));
            let what = if input { "its memory was freed" } else { "it was not written before" };
            self.error_here(codes::NO_MEMORY_HERE, message!("{} has no value here: {}", name, what))
        }))
    }

    /// The view that an op writes: the tensor's binding, else a new allocation.
    ///
    /// # Errors
    /// As [`Self::allocate_tensor`], if the tensor is not bound.
    pub fn output_view(&mut self, tensor: TensorId) -> Result<BufferView, Diag> {
        match self.tensor_binding(tensor) {
            Some(view) => Ok(view.clone()),
            None => match self.ended_error(tensor) {
                Some(error) => Err(error),
                None => self.allocate_tensor(tensor),
            },
        }
    }

    /// The first operand tensor.
    ///
    /// # Errors
    /// If the op has fewer tensor operands.
    pub fn operand_tensor(&self, op: &Op, index: usize) -> Result<TensorId, Diag> {
        op.input_tensors().nth(index).ok_or_else(|| {
            let name = quoted_head(op.kind.name());
            self.error_here(codes::CANNOT_RUN, message!("`{}` needs {} tensors", name, index + 1))
        })
    }
    /// The result tensor.
    ///
    /// # Errors
    /// If the op has no tensor result.
    pub fn result_tensor(&self, op: &Op) -> Result<TensorId, Diag> {
        op.output_tensors().next().ok_or_else(|| {
            self.error_here(codes::CANNOT_RUN, message!("`{}` needs a result tensor", quoted_head(op.kind.name())))
        })
    }

    /// The position of an axis among a tensor's stored axes, by its printed domain; `Err(axis)` for a
    /// reduction.
    pub fn stored_position(&self, tensor: TensorId, axis: &LogicalAxis) -> Option<usize> {
        self.axes.stored_axes(tensor).position(|other| other == axis)
    }

    /// The error for two shapes that do not fit.
    pub fn shape_error(&self, a: TensorId, left: &[usize], b: TensorId, right: &[usize]) -> Diag {
        let whole = [a, b].map(|tensor| self.whole_shape(tensor));
        let is_whole =
            whole.iter().zip([left, right]).all(|(whole, shape)| whole.as_ref().is_ok_and(|whole| whole == shape));
        let local = if is_whole { "" } else { "local " };
        let message = message!(
            "{} of {}shape {} does not match {} of {}shape {}",
            self.quoted_tensor(a),
            local,
            format!("{left:?}"),
            self.quoted_tensor(b),
            local,
            format!("{right:?}")
        );
        self.error_here(codes::SHAPES, message)
    }

    /// The error for a result that has another shape than the one that its op makes.
    pub fn result_shape_error(&self, made: &[usize], result: TensorId, found: &[usize]) -> Diag {
        let name = quoted_head(self.program.op(self.op).kind.name());
        let result = self.quoted_tensor(result);
        let operand = self.program.op(self.op).input_tensors().next();
        let given = operand.and_then(|operand| Some((operand, self.input_view(operand).ok()?.shape())));
        let of_operand = match given {
            Some((operand, shape)) => {
                message!(" of {}, which has {},", self.quoted_tensor(operand), format!("{shape:?}"))
            }
            None => Message::default(),
        };
        let (made, found) = (format!("{made:?}"), format!("{found:?}"));
        let message = message!("`{}`{} makes the shape {}, but {} has {}", name, of_operand, made, result, found);
        self.error_here(codes::SHAPES, message)
    }

    /// Element type of a tensor.
    pub fn tensor_dtype(&self, tensor: TensorId) -> DType {
        self.program.tensor(tensor).dtype
    }
}
