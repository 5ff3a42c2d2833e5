//! Debug info: names of tensors, ops and iterations for messages about a plan, independent of the program.

use super::{InstOrigin, LoopIteration, Plan, StreamLabel, StreamSlot};
use crate::diag::message;
use crate::diag::{Message, PartKind, Quoted, Span};
use crate::ir::{ExprId, IdVec, OpId, Program, Symbol, TensorId, quoted_wait, statement_label};
use std::collections::BTreeMap;

/// The fault of an index that an op computes from its operands: `token 5 of T0 is beyond the capacity ..`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ComputedIndexFault {
    /// The diagnostic's code.
    pub code: &'static str,
    /// One element of the operand.
    pub item: &'static str,
    /// The fault of the element.
    pub finding: &'static str,
    /// The repair.
    pub note: &'static str,
    /// The things that an index among the operands counts, if it does not count along an axis: `expert`.
    pub counted: Option<&'static str>,
}

/// Names of a program's tensors, ops, loop indices and streams.
#[derive(Clone, Default, Debug)]
pub struct DebugInfo {
    tensors: IdVec<TensorId, (String, Span)>,
    ops: IdVec<OpId, (String, Span)>,
    indices: BTreeMap<Symbol, String>,
    /// Names that GetCurrentStream ops bind.
    streams: BTreeMap<ExprId, String>,
    /// The ops that run each op of a HostUnit.
    posts: BTreeMap<OpId, Vec<OpId>>,
    /// The statements that wait for communications and groups.
    waits: BTreeMap<OpId, Quoted>,
    /// The faults of indices that ops compute.
    index_faults: BTreeMap<OpId, ComputedIndexFault>,
    /// The size whose value is the number of ranks.
    rank_count: Option<String>,
    /// True if the program was read from a text in `hir 2`.
    is_hir2: bool,
}

impl DebugInfo {
    /// Collects the debug info of a program.
    pub fn new(program: &Program) -> Self {
        Self {
            tensors: program.tensors().ids().map(|id| tensor_label(program, id)).collect(),
            ops: program.ops().ids().map(|id| op_label(program, id)).collect(),
            indices: BTreeMap::new(),
            streams: BTreeMap::new(),
            posts: unit_posts(program),
            waits: wait_statements(program),
            index_faults: BTreeMap::new(),
            rank_count: program.source.rank_count.clone(),
            is_hir2: program.is_hir2(),
        }
    }
    /// The size whose value is the number of ranks: `p` of `mesh d = 0..p`.
    pub fn rank_count(&self) -> Option<&str> {
        self.rank_count.as_deref()
    }
    /// Returns true if the program was read from a text in `hir 2`, whose rules are stricter.
    pub fn is_hir2(&self) -> bool {
        self.is_hir2
    }
    /// Adds the loop indices and streams that a plan refers to.
    pub fn add_names(&mut self, program: &Program, plan: &Plan) {
        for (name, _) in plan.iterations.iter().flatten() {
            self.indices.entry(*name).or_insert_with(|| program.name(*name).to_owned());
        }
        for label in &plan.stream_labels {
            if let StreamLabel::Bound(expr) = label {
                self.streams.entry(*expr).or_insert_with(|| program.stream_text(*expr));
            }
        }
    }
    /// `2`: a stream as `Synchronize` names it; `None` if the program has no name for it.
    pub fn stream_operand(&self, plan: &Plan, stream: StreamSlot) -> Option<String> {
        match plan.stream_labels.get(stream.0 as usize)? {
            StreamLabel::Unnamed => None,
            StreamLabel::Bound(expr) => self.streams.get(expr).cloned(),
            StreamLabel::Index(index) => Some(index.to_string()),
        }
    }
    /// `Stream 2`, or `the caller's stream`: a stream in a sentence.
    pub fn stream_text(&self, plan: &Plan, stream: StreamSlot) -> String {
        plan.stream_number(stream).map_or_else(|| "the caller's stream".to_owned(), |number| format!("Stream {number}"))
    }
    /// A stream in a message, as in [`Self::stream_text`].
    pub fn quoted_stream(&self, plan: &Plan, stream: StreamSlot) -> Quoted {
        Quoted::new(PartKind::Stream, self.stream_text(plan, stream))
    }
    /// The statement that waits for a communication or group, in backquotes; `None` for other ops.
    pub fn quoted_wait(&self, post: OpId) -> Option<&Quoted> {
        self.waits.get(&post)
    }
    /// Adds the fault of an index that the op computes.
    pub fn add_index_fault(&mut self, id: OpId, fault: ComputedIndexFault) {
        self.index_faults.insert(id, fault);
    }
    /// The fault of an index that the op computes.
    pub fn index_fault(&self, id: OpId) -> Option<&ComputedIndexFault> {
        self.index_faults.get(&id)
    }
    /// The tensor's name.
    pub fn tensor_name(&self, id: TensorId) -> &str {
        self.tensors.get(id).map_or("?", |(name, _)| name)
    }
    /// The tensor's name in a message.
    pub fn quoted_tensor(&self, id: TensorId) -> Quoted {
        Quoted::new(PartKind::Tensor, self.tensor_name(id).to_owned())
    }
    /// The span at which the tensor is written in full.
    pub fn tensor_span(&self, id: TensorId) -> Span {
        self.tensors.get(id).map(|(_, span)| *span).unwrap_or_default()
    }
    /// `Communication 39`, `T3 = matmul`.
    pub fn op_label(&self, id: OpId) -> &str {
        self.ops.get(id).map_or("?", |(text, _)| text)
    }
    /// The statement's name in a message.
    pub fn quoted_statement(&self, id: OpId) -> Quoted {
        Quoted::new(PartKind::Statement, self.op_label(id).to_owned())
    }
    /// The span of the op's statement.
    pub fn op_span(&self, id: OpId) -> Span {
        self.ops.get(id).map(|(_, span)| *span).unwrap_or_default()
    }
    /// The PostOnStream ops that run an op; empty for ops that are in no HostUnit.
    pub fn op_posts(&self, id: OpId) -> &[OpId] {
        self.posts.get(&id).map_or(&[], Vec::as_slice)
    }
    /// `StreamIdx=3, i7=0`; empty outside of loops.
    pub fn iteration_text(&self, iteration: &LoopIteration) -> String {
        let parts: Vec<String> = iteration
            .iter()
            .map(|(name, value)| {
                let name = self.indices.get(name).map_or("?", String::as_str);
                format!("{name}={value}")
            })
            .collect();
        parts.join(", ")
    }
    /// `Communication 39 at StreamIdx=3`: an instruction's origin in words.
    pub fn origin_text(&self, plan: &Plan, origin: InstOrigin) -> Message {
        let iteration = self.iteration_text(plan.iteration_of(origin));
        let op = self.quoted_statement(origin.op);
        if iteration.is_empty() { message!("`{}`", op) } else { message!("`{}` at {}", op, iteration) }
    }
}

/// The PostOnStream ops of each op in a HostUnit.
fn unit_posts(program: &Program) -> BTreeMap<OpId, Vec<OpId>> {
    let mut posts: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    for id in program.ops().ids() {
        let Some(unit) = program.posted_unit(program.op(id)) else { continue };
        program.walk(program.units()[unit].body, &mut |op| posts.entry(op).or_default().push(id));
    }
    posts
}

fn wait_statements(program: &Program) -> BTreeMap<OpId, Quoted> {
    let posts = program.ops().iter().filter_map(|(id, op)| Some((id, op.number()?)));
    posts.map(|(id, number)| (id, quoted_wait(program, number))).collect()
}

fn tensor_label(program: &Program, id: TensorId) -> (String, Span) {
    let span = program.source().tensors.get(id).copied().unwrap_or_default();
    (program.tensor_name(id), span)
}

fn op_label(program: &Program, id: OpId) -> (String, Span) {
    (statement_label(program, id), program.op_span(id))
}
