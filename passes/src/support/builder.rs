//! Builds new ops, tensors and scalars for passes.

use super::derived_names::DerivedNames;
use hostir::ir::edit::Edit;
use hostir::ir::order::first_free_number;
use hostir::ir::{
    AttrKey, AttrValue, BinaryOp, BlockId, DType, DomainId, Expr, ExprId, IterDomain, MemoryType, Op, OpId,
    ParallelType, Program, RootAs, Symbol, Tensor, TensorId, Value,
};
use hostir::ir::{CommBackend, MessageDirection, MessageProtocol};
use hostir::ops::comm::{collective_op, group_end_op, group_start_op, memory_exchange_op, message_op, wait_op};
use hostir::ops::control::{branch_op, loop_over_domain_op};
use hostir::ops::copy::{copy_op, permute_op};
use hostir::ops::launch::post_op;
use hostir::ops::memory::{allocation_op, deallocation_op, slice_op};
use hostir::ops::pointwise::pointwise_op;
use hostir::ops::reduce::reduction_op;
use hostir::ops::shape::{broadcast_op, view_op};
use hostir::ops::stream::{stream_choice_op, stream_naming_op, synchronization_op};
use hostir::plan::{CollectiveKind, RedOp};
use rustc_hash::FxHashSet;

/// Makes ops in an edit, with numbers that the program does not have yet.
pub(crate) struct OpBuilder<'e, 'p> {
    pub(crate) edit: &'e mut Edit<'p>,
    /// The op that new ops come from: they inherit its place in the text.
    pub(crate) origin: OpId,
    next_tensor: u32,
    next_domain: u32,
    next_number: u32,
    next_unit: u32,
    next_stream: i64,
    names: DerivedNames,
    /// Tensors whose names were derived here.
    derived: FxHashSet<TensorId>,
}

/// A communication that is about to be made.
pub(crate) struct CollectiveSpec<'a> {
    /// Its type.
    pub(crate) kind: CollectiveKind,
    /// Devices in team order.
    pub(crate) team: &'a [u32],
    /// The device that sends or receives the whole tensor, by its number or its position in the team, as the program's
    /// style counts.
    pub(crate) root: Option<ExprId>,
    /// The tensor that is sent.
    pub(crate) input: TensorId,
    /// The tensor that is received.
    pub(crate) output: TensorId,
    /// The backend that carries it.
    pub(crate) backend: CommBackend,
    /// The reduce operation, if it is not the default, `sum`.
    pub(crate) red_op: Option<RedOp>,
}

impl<'e, 'p> OpBuilder<'e, 'p> {
    pub(crate) fn new(edit: &'e mut Edit<'p>) -> Self {
        let program = edit.program();
        let tensors = program.tensors().iter().map(|(_, tensor)| tensor.number);
        let next_tensor = first_free_number(tensors);
        let next_domain = first_free_number(program.all_domains().filter_map(|domain| domain.number));
        let next_number = first_free_number(program.ops().iter().filter_map(|(_, op)| op.number()));
        let next_unit = first_free_number(program.units().iter().map(|(_, unit)| unit.number));
        let next_stream = next_constant_stream(program);
        let origin = OpId(0);
        let (names, derived) = (DerivedNames::default(), FxHashSet::default());
        Self { edit, origin, next_tensor, next_domain, next_number, next_unit, next_stream, names, derived }
    }
    pub(crate) fn program(&self) -> &Program {
        self.edit.program()
    }

    // ---- scalars ----

    pub(crate) fn int_expr(&mut self, value: i64) -> ExprId {
        self.edit.intern_expr(Expr::Int(value))
    }
    pub(crate) fn name_expr(&mut self, text: &str) -> ExprId {
        let name = self.edit.intern_name(text);
        self.edit.intern_expr(Expr::Name(name))
    }
    pub(crate) fn binary_expr(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        self.edit.intern_expr(Expr::Binary(op, a, b))
    }
    /// An extent divided by a number of parts: `( i0 / 4 )`, or a literal of a literal.
    pub(crate) fn part_extent_expr(&mut self, extent: ExprId, parts: i64) -> ExprId {
        match self.program().exprs().as_int(extent) {
            Some(value) => self.int_expr(value / parts),
            None => {
                let parts = self.int_expr(parts);
                self.binary_expr(BinaryOp::Div, extent, parts)
            }
        }
    }
    /// `StreamIdx`
    pub(crate) fn stream_index_expr(&mut self) -> ExprId {
        self.name_expr("StreamIdx")
    }
    /// `( StreamIdx % numberOfStreams )`: the stream of an iteration.
    pub(crate) fn worker_stream_expr(&mut self) -> ExprId {
        let (index, streams) = (self.stream_index_expr(), self.name_expr("numberOfStreams"));
        self.binary_expr(BinaryOp::Mod, index, streams)
    }
    /// The product of the extents of the stored domains, from the left; literals are folded together.
    pub(crate) fn element_count_expr(&mut self, tensor: TensorId) -> ExprId {
        hostir::style::stored_size(self.edit, tensor)
    }

    // ---- tensors ----

    /// A new number for a domain.
    pub(crate) fn next_domain_number(&mut self) -> u32 {
        self.next_domain = self.next_domain.saturating_add(1);
        self.next_domain - 1
    }
    /// A new tensor of the type and mesh of `like`, with these domains under new numbers. If `like` has a name of the
    /// user's, the new tensor has one that is derived from it.
    pub(crate) fn new_tensor(&mut self, like: TensorId, memory: MemoryType, domains: &[IterDomain]) -> TensorId {
        let domains: Vec<IterDomain> =
            domains.iter().map(|domain| IterDomain { number: Some(self.next_domain_number()), ..*domain }).collect();
        let name = self.names.derive_name(self.edit, like);
        let old = self.program().tensor(like);
        let tensor = Tensor {
            number: self.next_tensor,
            name,
            memory,
            dtype: old.dtype,
            domains_start: 0,
            domains_end: 0,
            positions: Symbol(0),
            mesh: old.mesh,
            axes: None,
            split: false,
            logical: None,
            unit: old.unit,
        };
        self.next_tensor = self.next_tensor.saturating_add(1);
        let span = self.program().op_span(self.origin);
        let new = self.edit.add_tensor(tensor, &domains, span);
        if name.is_some() {
            self.derived.insert(new);
        }
        new
    }
    /// Removes the derived name of a slice: `hir 2` writes an unnamed slice in place of its uses, `G[at]`.
    fn drop_derived_name(&mut self, tensor: TensorId) {
        if !self.derived.remove(&tensor) {
            return;
        }
        let old = self.program().tensor(tensor).clone();
        if let Some(name) = old.name {
            self.names.release_name(self.edit.program(), name);
        }
        self.edit.set_tensor(tensor, Tensor { name: None, ..old });
    }
    /// Numbers the stored axes of a permuting op's result as nvFuser does, in the order of its operand's axes:
    /// axis k is axis `order[k]` of the operand.
    pub(crate) fn number_permuted_axes(&mut self, tensor: TensorId, order: &[usize]) {
        let program = self.program();
        let domains = program.domains(tensor);
        let stored: Vec<u32> =
            program.logical_axes(tensor).into_iter().filter(|&at| !domains[at as usize].is_reduction()).collect();
        let mut numbers: Vec<Option<u32>> = stored.iter().map(|&at| domains[at as usize].number).collect();
        numbers.sort_unstable();
        for (&at, &place) in stored.iter().zip(order) {
            let id = printed_domain(self.program(), tensor, at);
            let old = *self.program().domain(id);
            let number = numbers.get(place).copied().unwrap_or(old.number);
            self.edit.set_domain(id, IterDomain { number, ..old });
        }
    }
    /// Puts a tensor into global memory.
    pub(crate) fn make_global(&mut self, tensor: TensorId) {
        let old = self.program().tensor(tensor);
        if !matches!(old.memory, MemoryType::Global | MemoryType::Symmetric) {
            let new = Tensor { memory: MemoryType::Global, ..old.clone() };
            self.edit.set_tensor(tensor, new);
        }
    }

    /// Puts a tensor into memory that all devices can write.
    pub(crate) fn make_symmetric(&mut self, tensor: TensorId) {
        let new = Tensor { memory: MemoryType::Symmetric, ..self.program().tensor(tensor).clone() };
        self.edit.set_tensor(tensor, new);
    }

    // ---- ops ----

    pub(crate) fn push(&mut self, op: Op) -> OpId {
        self.edit.add_op(op, self.origin)
    }
    fn word_attr(&mut self, text: &str) -> AttrValue {
        AttrValue::Word(self.edit.intern_name(text))
    }
    fn next_number(&mut self) -> u32 {
        self.next_number = self.next_number.saturating_add(1);
        self.next_number - 1
    }
    /// `T = ALLOCATE(...)` in global memory (or in the tensor's, if that is symmetric).
    pub(crate) fn build_allocate(&mut self, tensor: TensorId) -> OpId {
        self.make_global(tensor);
        let memory = self.program().tensor(tensor).memory;
        let size = self.element_count_expr(tensor);
        let mut op = allocation_op(tensor);
        op.attrs = vec![
            (AttrKey::Buffer, AttrValue::Bool(true)),
            (AttrKey::MemType, self.word_attr(memory.word())),
            (AttrKey::Size, AttrValue::Expr(size)),
            (AttrKey::ZeroInit, AttrValue::Bool(false)),
            (AttrKey::ResetsToZero, AttrValue::Bool(false)),
            (AttrKey::Keep, AttrValue::Bool(true)),
        ];
        self.push(op)
    }
    /// An ALLOCATE of a tensor that shares the memory of another one.
    pub(crate) fn build_shared_allocation(&mut self, tensor: TensorId, original: TensorId) -> OpId {
        let id = self.build_allocate(tensor);
        let mut op = self.program().op(id).clone();
        // Bound again each time: there is nothing to keep.
        op.attrs.retain(|(key, _)| *key != AttrKey::Keep);
        op.attrs.push((AttrKey::Alias, AttrValue::Tensor(original)));
        self.edit.set_op(id, op);
        id
    }
    /// An ALLOCATE of a tensor without memory, in the program's own style.
    pub(crate) fn build_new_allocation(&mut self, tensor: TensorId) -> OpId {
        let id = self.build_allocate(tensor);
        if self.program().style().short_allocate {
            let mut op = self.program().op(id).clone();
            op.attrs.retain(|(key, _)| matches!(key, AttrKey::MemType | AttrKey::ZeroInit));
            op.attrs.push((AttrKey::Keep, AttrValue::Bool(false)));
            self.edit.set_op(id, op);
        }
        id
    }
    /// `Deallocate { T }`
    pub(crate) fn build_deallocate(&mut self, tensor: TensorId) -> OpId {
        self.push(deallocation_op(tensor))
    }
    /// `out = HirAliasSelect( input, axis = domain, index = index )`
    pub(crate) fn build_select(&mut self, out: TensorId, input: TensorId, axis: DomainId, index: ExprId) -> OpId {
        self.drop_derived_name(out);
        self.push(slice_op(input, axis, index).with_result(Value::Tensor(out)))
    }
    /// `out = Set( input, cache_op=Streaming )`
    pub(crate) fn build_set(&mut self, out: TensorId, input: TensorId) -> OpId {
        let cache_op = self.edit.intern_name("Streaming");
        self.push(copy_op(Value::Tensor(input), cache_op).with_result(Value::Tensor(out)))
    }
    /// `out = Set.Permute( input, cache_op=Streaming )`: axis k of `out` is axis `order[k]` of `input`.
    pub(crate) fn build_permute(&mut self, out: TensorId, input: TensorId, order: &[usize]) -> OpId {
        let cache_op = self.edit.intern_name("Streaming");
        self.push(permute_op(input, cache_op, order).with_result(Value::Tensor(out)))
    }
    /// `out = view( input )`
    pub(crate) fn build_view(&mut self, out: TensorId, input: TensorId) -> OpId {
        self.push(view_op(input).with_result(Value::Tensor(out)))
    }
    /// `out = broadcast( input, flags = {true, false} )`
    pub(crate) fn build_broadcast(&mut self, out: TensorId, input: TensorId, flags: Box<[bool]>) -> OpId {
        self.push(broadcast_op(input, flags).with_result(Value::Tensor(out)))
    }
    /// `out = a * b;`: a function of two tensors, element by element.
    pub(crate) fn build_pointwise(&mut self, function: &str, out: TensorId, operands: [TensorId; 2]) -> OpId {
        let function = self.edit.intern_name(function);
        let operands = operands.map(Value::Tensor).into();
        self.push(pointwise_op(function, operands).with_result(Value::Tensor(out)))
    }
    /// The identity of a reduction over elements of a type, as nvFuser prints it.
    pub(crate) fn identity_expr(&mut self, how: RedOp, dtype: DType) -> ExprId {
        let value = how.identity_value(dtype);
        let expr = if dtype.is_float() {
            let (dtype, text) = match value.as_f64() {
                f64::INFINITY => (DType::Double, "inf"),
                f64::NEG_INFINITY => (DType::Double, "-inf"),
                1.0 => (dtype, "1"),
                _ => (dtype, "0"),
            };
            Expr::Typed(dtype, self.edit.intern_name(text))
        } else if dtype == DType::Bool {
            Expr::Bool(value.as_bool())
        } else {
            Expr::Int(value.as_i64())
        };
        self.edit.intern_expr(expr)
    }
    /// `out = reduction( input, op = add, initial value = float(0), allreduce = false )`
    pub(crate) fn build_sum(&mut self, out: TensorId, input: TensorId) -> OpId {
        let dtype = self.program().tensor(out).dtype;
        let zero = self.identity_expr(RedOp::Sum, dtype);
        let add = self.edit.intern_name("add");
        self.push(reduction_op(input, add, zero).with_result(Value::Tensor(out)))
    }
    /// A new number for a HostUnit.
    pub(crate) fn next_unit_number(&mut self) -> u32 {
        self.next_unit = self.next_unit.saturating_add(1);
        self.next_unit - 1
    }
    /// `PostOnStream (HostUnit0, Inputs:{..}, Outputs:{..})`
    pub(crate) fn build_post_on_stream(
        &mut self,
        unit: u32,
        operands: impl Iterator<Item = Value>,
        results: &[TensorId],
    ) -> OpId {
        let mut op = post_op(unit);
        op.operands.extend(operands);
        op.results.extend(results.iter().map(|&tensor| Value::Tensor(tensor)));
        self.push(op)
    }
    /// A name for the stream that a GetCurrentStream binds.
    pub(crate) fn new_stream_name(&mut self) -> ExprId {
        self.next_stream = self.next_stream.saturating_add(1);
        self.int_expr(self.next_stream - 1)
    }
    pub(crate) fn build_get_current_stream(&mut self, stream: ExprId) -> OpId {
        self.push(stream_naming_op(stream))
    }
    pub(crate) fn build_set_current_stream(&mut self, stream: ExprId) -> OpId {
        self.push(stream_choice_op(stream))
    }
    pub(crate) fn build_synchronize(&mut self, stream: ExprId) -> OpId {
        self.push(synchronization_op(stream))
    }
    /// `FOR StreamIdx in iStreamIdx2{i0}:`
    pub(crate) fn build_stream_loop(&mut self, domain: DomainId, body: Vec<OpId>) -> OpId {
        let index = self.stream_index_expr();
        self.build_index_loop(index, domain, body)
    }
    /// `FOR i1 in iS2{i0}:`
    pub(crate) fn build_index_loop(&mut self, index: ExprId, domain: DomainId, body: Vec<OpId>) -> OpId {
        let block = self.edit.add_block(body);
        let mut op = loop_over_domain_op(index, domain);
        op.blocks.push(block);
        self.push(op)
    }
    /// `IF Manual <condition>:`, with an ELSE unless that is empty.
    pub(crate) fn build_branch(&mut self, condition: ExprId, then: Vec<OpId>, other: Vec<OpId>) -> OpId {
        let mut blocks: Vec<BlockId> = vec![self.edit.add_block(then)];
        if !other.is_empty() {
            blocks.push(self.edit.add_block(other));
        }
        let mut op = branch_op(self.edit.intern_name("Manual"), condition);
        op.blocks.extend(blocks);
        self.push(op)
    }
    pub(crate) fn build_start_coalescing(&mut self) -> OpId {
        self.push(group_start_op())
    }
    /// `EndCoalescing 32` and its number.
    pub(crate) fn build_end_coalescing(&mut self) -> (OpId, u32) {
        let number = self.next_number();
        (self.push(group_end_op(number)), number)
    }
    /// `P2PCommunication 30 (type=recv, buffer=.., peer=.., backend=..)` and its number.
    pub(crate) fn build_p2p(
        &mut self,
        direction: MessageDirection,
        buffer: TensorId,
        peer: ExprId,
        backend: CommBackend,
    ) -> (OpId, u32) {
        let number = self.next_number();
        let kind = self.edit.intern_name(direction.word());
        let backend = self.word_attr(backend.word());
        let op = Op { number: Some(number), ..message_op(kind, peer, backend) };
        let buffer = Value::Tensor(buffer);
        let op = match direction {
            MessageDirection::Recv => op.with_result(buffer),
            MessageDirection::Send => op.with_operand(buffer),
        };
        (self.push(op), number)
    }
    /// Makes the sender of a message copy: `protocol=put`.
    pub(crate) fn set_put_protocol(&mut self, post: OpId) {
        let mut op = self.program().op(post).clone();
        op.attrs.push((AttrKey::Protocol, self.word_attr(MessageProtocol::Put.word())));
        self.edit.set_op(post, op);
    }
    /// Makes the handle of a communication an element of an array of handles.
    pub(crate) fn set_handle_element(&mut self, post: OpId, element: ExprId) {
        let mut op = self.program().op(post).clone();
        op.attrs.push((AttrKey::Element, AttrValue::Expr(element)));
        self.edit.set_op(post, op);
    }
    /// `ShareMemHandles(P2PCommunication 30 (...), P2PCommunication 31 (...), `: names these communications.
    pub(crate) fn build_share_mem_handles(&mut self, posts: &[OpId]) -> OpId {
        let mut op = memory_exchange_op();
        for &post in posts {
            // The text has each twice: here and where it starts.
            let named = self.program().op(post).clone();
            op.operands.push(Value::Op(self.push(named)));
        }
        self.push(op)
    }
    /// `Communication 39 (type=Allgather, ...)` and its number.
    pub(crate) fn build_communication(&mut self, what: &CollectiveSpec<'_>) -> (OpId, u32) {
        let number = self.next_number();
        let mut op = Op { number: Some(number), ..collective_op(what.input, what.output) };
        let team = what.team.iter().map(|&device| i64::from(device)).collect();
        op.attrs = vec![(AttrKey::Type, self.word_attr(what.kind.name())), (AttrKey::Team, AttrValue::Ints(team))];
        if let Some(root) = what.root {
            op.attrs.push((AttrKey::Root, AttrValue::Expr(root)));
            if self.program().style().call_form {
                op.attrs.push((AttrKey::RootAs, self.word_attr(RootAs::Position.word())));
            }
        }
        if let Some(red_op) = what.red_op {
            op.attrs.push((AttrKey::RedOp, self.word_attr(red_op.word())));
        }
        if self.program().style().backend || what.backend != CommBackend::default() {
            op.attrs.push((AttrKey::Backend, self.word_attr(what.backend.word())));
        }
        (self.push(op), number)
    }
    /// The root of a team as the program's style writes it: the device, since 2026 its position.
    pub(crate) fn root_expr(&mut self, team: &[u32], device: u32) -> ExprId {
        let position = team.iter().position(|&member| member == device);
        match position.filter(|_| self.program().style().call_form) {
            Some(position) => self.int_expr(position as i64),
            None => self.int_expr(i64::from(device)),
        }
    }
    /// `Wait Communication 39`
    pub(crate) fn build_wait(&mut self, number: u32) -> OpId {
        self.push(wait_op(number))
    }
}

/// One more than the largest constant stream.
fn next_constant_stream(program: &Program) -> i64 {
    let streams = program.ops().iter().flat_map(|(_, op)| op.operands.iter().chain(&op.results));
    let numbers = streams.filter_map(|value| match value {
        Value::Stream(expr) => program.exprs().as_int(*expr),
        _ => None,
    });
    numbers.max().map_or(0, |largest| largest.saturating_add(1))
}

/// The domain of a tensor at a place among its printed domains.
pub(crate) fn printed_domain(program: &Program, tensor: TensorId, printed: u32) -> DomainId {
    DomainId(program.tensor(tensor).domains_start + printed)
}

/// Whether a domain is on the streams and stored.
pub(crate) fn is_stored_stream_domain(domain: &IterDomain) -> bool {
    domain.parallel == ParallelType::Stream
}
