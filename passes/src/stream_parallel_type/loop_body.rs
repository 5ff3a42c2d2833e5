//! The body of a loop over streams under construction: its ops, and the slices that they work on.

use super::config::Config;
use crate::support::builder::{CollectiveSpec, OpBuilder, printed_domain};
use hostir::analysis::MappedAxis;
use hostir::ir::{ExprId, IterDomain, MemoryType, OpId, Program, TensorId};
use hostir::plan::CollectiveKind;
use rustc_hash::FxHashMap;

/// The body of one loop.
pub(super) struct LoopBody<'b, 'e, 'p> {
    pub(super) build: &'b mut OpBuilder<'e, 'p>,
    pub(super) config: &'b Config,
    /// The part of each tensor that an iteration works on.
    pub(super) index: ExprId,
    slices: FxHashMap<TensorId, TensorId>,
    /// Its ops so far.
    pub(super) ops: Vec<OpId>,
    /// Ops for the end of the iteration.
    pub(super) epilogue: Vec<OpId>,
}

impl<'b, 'e, 'p> LoopBody<'b, 'e, 'p> {
    /// A body that starts with `ops`. Its iterations will work on parts `index`.
    pub(super) fn new(build: &'b mut OpBuilder<'e, 'p>, config: &'b Config, index: ExprId, ops: Vec<OpId>) -> Self {
        Self { build, config, index, slices: FxHashMap::default(), ops, epilogue: Vec::new() }
    }

    pub(super) fn program(&self) -> &Program {
        self.build.program()
    }

    /// The ops of an iteration; those for its end come last.
    pub(super) fn finish(mut self) -> Vec<OpId> {
        self.ops.append(&mut self.epilogue);
        self.ops
    }

    /// The slice of a tensor in this iteration; appends the op that makes it if it is new.
    pub(super) fn slice(&mut self, tensor: TensorId, axis: MappedAxis) -> TensorId {
        if let Some(&slice) = self.slices.get(&tensor) {
            return slice;
        }
        let slice = self.select(tensor, axis, self.index);
        self.slices.insert(tensor, slice);
        slice
    }

    /// Appends the select of a slice of a tensor.
    pub(super) fn select(&mut self, tensor: TensorId, axis: MappedAxis, at: ExprId) -> TensorId {
        let slice = self.new_slice(tensor, axis);
        let domain = printed_domain(self.program(), tensor, axis.printed);
        self.ops.push(self.build.build_select(slice, tensor, domain, at));
        slice
    }

    /// A tensor without one axis, its domains in logical order.
    pub(super) fn new_slice(&mut self, tensor: TensorId, axis: MappedAxis) -> TensorId {
        let program = self.program();
        let domains: Vec<IterDomain> = program
            .logical_axes(tensor)
            .iter()
            .filter(|&&printed| printed != axis.printed)
            .map(|&printed| program.domains(tensor)[printed as usize])
            .collect();
        self.build.new_tensor(tensor, MemoryType::Local, &domains)
    }

    /// Appends a collective whose root is the iteration's number, on the devices of `input`'s whole tensor, and the
    /// Wait for it.
    pub(super) fn collective(&mut self, kind: CollectiveKind, whole: TensorId, input: TensorId, output: TensorId) {
        let team = self.program().tensor_mesh(whole).map(|mesh| mesh.devices.clone());
        let root = self.build.stream_index_expr();
        let (op, number) = self.build.build_communication(&CollectiveSpec {
            kind,
            team: &team.unwrap_or_default(),
            root: Some(root),
            input,
            output,
            backend: self.config.backend,
            red_op: None,
        });
        let wait = self.build.build_wait(number);
        self.ops.extend([op, wait]);
    }
}
