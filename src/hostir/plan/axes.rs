//! The axes of all tensors of a program, computed once: a plan queries them at every op.

use crate::axes::{AxisList, LogicalAxis, logical_axes, stream_axis};
use crate::ir::{Expr, ExprId, IdVec, Program, TensorId};

/// The logical axes of every tensor of a program.
pub struct AxesTable {
    tensors: IdVec<TensorId, AxesEntry>,
}

struct AxesEntry {
    axes: AxisList,
    split: bool,
    stream: Option<StreamPart>,
}

/// The stored stream axis of a tensor.
#[derive(Clone, Copy, Debug)]
pub struct StreamPart {
    /// Its position among the stored axes.
    pub position: usize,
    /// Into how many parts it is cut.
    pub parts: ExprId,
}

impl AxesTable {
    /// Computes the axes of all tensors; results of views have `rf` domains that no split made.
    pub fn new(program: &Program) -> Self {
        let mut views = IdVec::<TensorId, bool>::filled(false, program.tensors().len());
        for (_, op) in program.ops().iter().filter(|(_, op)| op.kind.is_row_major_view()) {
            for result in op.output_tensors() {
                views[result] = true;
            }
        }
        let entry = |tensor| AxesEntry {
            axes: logical_axes(program, tensor).axes,
            split: logical_axes(program, tensor).split && is_split(program, tensor, views[tensor]),
            stream: stream_part(program, tensor),
        };
        Self { tensors: program.tensors().ids().map(entry).collect() }
    }
    /// The axes of a tensor, reductions included.
    pub fn axes_of(&self, tensor: TensorId) -> &[LogicalAxis] {
        &self.tensors[tensor].axes
    }
    /// The stored axes of a tensor.
    pub fn stored_axes(&self, tensor: TensorId) -> impl Iterator<Item = &LogicalAxis> {
        self.axes_of(tensor).iter().filter(|axis| !axis.is_reduction())
    }
    /// The stored stream axis of a tensor.
    pub fn stream_axis(&self, tensor: TensorId) -> Option<StreamPart> {
        self.tensors[tensor].stream
    }
    /// Returns true if the tensor cannot run without `logical=`, because splits made its domains. (`rf` also marks the
    /// domains of a view, which are its axes.)
    pub fn is_split(&self, tensor: TensorId) -> bool {
        self.tensors[tensor].split
    }
}

fn stream_part(program: &Program, tensor: TensorId) -> Option<StreamPart> {
    let stream = stream_axis(program, tensor)?;
    let before = &logical_axes(program, tensor).axes[..stream.axis as usize];
    let position = before.iter().filter(|axis| !axis.is_reduction()).count();
    Some(StreamPart { position, parts: stream.parts })
}

fn is_split(program: &Program, tensor: TensorId, by_view: bool) -> bool {
    let mut domains = program.domains(tensor).iter();
    program.tensor(tensor).logical.is_none()
        && domains.any(|domain| has_ceil_div(program, domain.extent, 0) || (domain.rfactor && !by_view))
}

fn has_ceil_div(program: &Program, expr: ExprId, depth: u32) -> bool {
    if depth > 100 {
        return false;
    }
    let depth = depth + 1;
    match program.expr(expr) {
        Expr::Call(name, args) => {
            program.name(*name) == "ceilDiv" || args.iter().any(|&arg| has_ceil_div(program, arg, depth))
        }
        Expr::Unary(_, a) | Expr::Set(a) => has_ceil_div(program, *a, depth),
        Expr::Binary(_, a, b) => has_ceil_div(program, *a, depth) || has_ceil_div(program, *b, depth),
        _ => false,
    }
}
