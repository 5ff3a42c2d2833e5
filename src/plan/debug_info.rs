//! How messages about a plan name tensors, ops and iterations, without the program at hand.

use super::{Iteration, Origin, Plan};
use crate::diag::Span;
use crate::ir::{IdVec, OpId, Program, Symbol, TensorId};
use std::collections::BTreeMap;

/// Names of a program's tensors, ops and loop indices.
#[derive(Clone, Default, Debug)]
pub struct Labels {
    tensors: IdVec<TensorId, (String, Span)>,
    ops: IdVec<OpId, (String, Span)>,
    indices: BTreeMap<Symbol, String>,
}

impl Labels {
    /// The labels of a program.
    pub fn new(program: &Program) -> Self {
        let tensor = |id: TensorId| {
            let span = program.source().tensors.get(id).copied().unwrap_or_default();
            (program.tensor_name(id), span)
        };
        let label = |id: OpId| {
            let op = program.op(id);
            let name = op.kind.name();
            let results: Vec<String> =
                op.output_tensors().map(|tensor| program.tensor_name(tensor)).collect();
            let text = match (op.number(), results.is_empty()) {
                (Some(number), _) => format!("{name} {number}"),
                (None, true) => name.to_owned(),
                (None, false) => format!("{} = {name}", results.join(", ")),
            };
            (text, program.op_span(id))
        };
        Self {
            tensors: program.tensors().ids().map(tensor).collect(),
            ops: program.ops().ids().map(label).collect(),
            indices: BTreeMap::new(),
        }
    }
    /// Adds the loop indices that a plan names.
    pub fn add_indices(&mut self, program: &Program, plan: &Plan) {
        for (name, _) in plan.iterations.iter().flatten() {
            self.indices.entry(*name).or_insert_with(|| program.name(*name).to_owned());
        }
    }
    /// The tensor's name.
    pub fn tensor(&self, id: TensorId) -> &str {
        self.tensors.get(id).map_or("?", |(name, _)| name)
    }
    /// The place in the text where the tensor is written in full.
    pub fn tensor_span(&self, id: TensorId) -> Span {
        self.tensors.get(id).map(|(_, span)| *span).unwrap_or_default()
    }
    /// `Communication 39`, `T3 = matmul`.
    pub fn op(&self, id: OpId) -> &str {
        self.ops.get(id).map_or("?", |(text, _)| text)
    }
    /// The op's place in the text.
    pub fn span(&self, id: OpId) -> Span {
        self.ops.get(id).map(|(_, span)| *span).unwrap_or_default()
    }
    /// `StreamIdx=3, i7=0`; empty outside of loops.
    pub fn iteration(&self, iteration: &Iteration) -> String {
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
    pub fn origin(&self, plan: &Plan, origin: Origin) -> String {
        let iteration = self.iteration(plan.iteration(origin));
        let op = self.op(origin.op);
        if iteration.is_empty() { format!("`{op}`") } else { format!("`{op}` at {iteration}") }
    }
}
