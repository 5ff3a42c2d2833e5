//! The shift of stream indices that nvFuser's text leaves out.
//!
//! nvFuser makes a CollectivePermute for an axis on streams that is *swizzled*. There its evaluator takes shard
//! `( i + p ) % n` for index `i` of a ShardByStream, where `p` is the rank's position among the `n` devices of the mesh
//! (`HostIrEvaluator::handle(ShardByStream*)`, Swizzle1D); the text has `i`. A ShardByStream whose result a
//! CollectivePermute writes is swizzled, and so are those of its loop with the same index, because the ops of a loop
//! work on one shard.
//!
//! In the IR each index is explicit. An op whose text has no shift is marked ([`AttrKey::Swizzle`]), and `print` leaves
//! the shift out wherever a reader adds it again.

use crate::ir::scalar_names::loop_index;
use crate::ir::{
    AttrKey, AttrValue, BinaryOp, BlockId, Expr, ExprId, MeshCoordinate, MeshId, Op, OpId, ParallelType, Program,
    RankScalars, TensorId,
};
use rustc_hash::FxHashSet;

/// A ShardByStream whose index a reader shifts.
struct ImpliedShift {
    op: OpId,
    /// True if a CollectivePermute writes its result.
    is_written: bool,
}

/// The shift of one ShardByStream.
#[derive(Clone, Copy)]
struct IndexShift {
    /// The mesh whose coordinate is the rank's position; `None` if positions are the numbers of the ranks.
    mesh: Option<MeshId>,
    /// The number of devices along the inner axis of the mesh.
    devices: i64,
}

/// Adds the shifts that a text of the printed form leaves out to the indices of its program. (`hir 2` has explicit
/// indices, and `swizzle=true` after an index is the mark.)
pub(crate) fn add_index_shifts(program: &mut Program) {
    let cuts: Vec<OpId> = find_cuts(program);
    if cuts.is_empty() {
        return;
    }
    let mut shifted: Vec<OpId> = cuts.iter().copied().filter(|&id| said_shift(program.op(id)) == Some(true)).collect();
    let implied = find_implied_shifts(program, &|id| {
        let op = program.op(id);
        op.expr_attr(AttrKey::StreamIndex).filter(|_| said_shift(op).is_none())
    });
    shifted.extend(implied.into_iter().map(|shift| shift.op));
    for id in cuts {
        program.ops[id].attrs.retain(|(key, _)| *key != AttrKey::Swizzle);
    }
    for id in shifted {
        let index = program.op(id).expr_attr(AttrKey::StreamIndex);
        if let (Some(index), Some(shift)) = (index, IndexShift::of_op(program, id)) {
            let full = shift.apply(program, index);
            let op = &mut program.ops[id];
            op.set_attr(AttrKey::StreamIndex, &AttrValue::Expr(full));
            op.attrs.push((AttrKey::Swizzle, AttrValue::Bool(true)));
        }
    }
}

/// The program with the indices of its text: without the shifts that a reader of the printed form adds, and with
/// `swizzle=false` where a reader would add one that is not there. `None` if that is the program itself.
pub(crate) fn drop_index_shifts(program: &Program) -> Option<Program> {
    let permutes = program.ops().iter().any(|(_, op)| op.kind.is_permute());
    let cuts = if permutes { find_cuts(program) } else { Vec::new() };
    if cuts.is_empty() {
        return None;
    }
    let written: FxHashSet<OpId> = find_implied_shifts(program, &|id| text_index(program, id))
        .into_iter()
        .filter(|shift| shift.is_written && !is_marked(program, shift.op))
        .map(|shift| shift.op)
        .collect();
    let implied = find_implied_shifts(program, &|id| text_index(program, id).filter(|_| !written.contains(&id)));
    let mut said = program.clone();
    let unlike = implied.iter().map(|shift| shift.op).filter(|&id| !is_marked(program, id));
    for id in unlike.chain(written) {
        said.ops[id].attrs.push((AttrKey::Swizzle, AttrValue::Bool(false)));
    }
    for id in implied.iter().map(|shift| shift.op).filter(|&id| is_marked(program, id)) {
        if let Some(index) = text_index(program, id) {
            said.ops[id].set_attr(AttrKey::StreamIndex, &AttrValue::Expr(index));
        }
    }
    Some(said)
}

/// Returns true if the text of an op's index has no shift.
fn is_marked(program: &Program, id: OpId) -> bool {
    said_shift(program.op(id)) == Some(true)
}

/// The index of an op as its text says it.
fn text_index(program: &Program, id: OpId) -> Option<ExprId> {
    let index = program.op(id).expr_attr(AttrKey::StreamIndex)?;
    let shift = IndexShift::of_op(program, id).filter(|_| is_marked(program, id));
    Some(shift.and_then(|shift| shift.index_without(program, index)).unwrap_or(index))
}

/// Whether an op binds one of these tensors.
fn writes_any(program: &Program, id: OpId, tensors: &FxHashSet<TensorId>) -> bool {
    program.op(id).output_tensors().any(|tensor| tensors.contains(&tensor))
}

/// Every ShardByStream of a program.
fn find_cuts(program: &Program) -> Vec<OpId> {
    program.ops().iter().filter(|(_, op)| op.attr(AttrKey::StreamIndex).is_some()).map(|(id, _)| id).collect()
}

/// The value of `swizzle`, if the op has it.
fn said_shift(op: &Op) -> Option<bool> {
    match op.attr(AttrKey::Swizzle)? {
        AttrValue::Bool(said) => Some(*said),
        _ => None,
    }
}

/// Every ShardByStream whose index a reader shifts, by the index in the text: `None` for an op whose text states
/// whether it is shifted.
fn find_implied_shifts(program: &Program, text_index: &dyn Fn(OpId) -> Option<ExprId>) -> Vec<ImpliedShift> {
    let ranks = RankScalars::new(program);
    let mut found = Vec::new();
    let mut bodies = vec![program.body()];
    while let Some(body) = bodies.pop() {
        let mut ops = Vec::new();
        collect_body(program, body, &mut ops, &mut bodies);
        let permutes = ops.iter().map(|&id| program.op(id)).filter(|op| op.kind.is_permute());
        let written: FxHashSet<TensorId> = permutes.flat_map(Op::output_tensors).collect();
        if written.is_empty() {
            continue;
        }
        let cuts = ops.iter().copied().filter(|&id| program.op(id).attr(AttrKey::StreamIndex).is_some());
        let cuts: Vec<(OpId, ExprId)> = cuts.filter_map(|id| Some((id, text_index(id)?))).collect();
        let shared = cuts
            .iter()
            .filter(|(id, index)| writes_any(program, *id, &written) && !ranks.is_dependent(program, *index));
        let shared: FxHashSet<ExprId> = shared.map(|(_, index)| *index).collect();
        let implied = cuts.into_iter().filter(|(_, index)| shared.contains(index));
        found.extend(implied.map(|(op, _)| ImpliedShift { op, is_written: writes_any(program, op, &written) }));
    }
    found
}

/// The ops of a block and of the branches in it; adds the bodies of its loops to `bodies`.
fn collect_body(program: &Program, block: BlockId, ops: &mut Vec<OpId>, bodies: &mut Vec<BlockId>) {
    for &id in &program.block(block).ops {
        ops.push(id);
        let op = program.op(id);
        match loop_index(program, op) {
            Some(_) => bodies.extend(&op.blocks),
            None => op.blocks.iter().for_each(|&inner| collect_body(program, inner, ops, bodies)),
        }
    }
}

impl IndexShift {
    /// The shift of an op; `None` if its tensors have no mesh.
    fn of_op(program: &Program, id: OpId) -> Option<Self> {
        let op = program.op(id);
        let mut tensors = op.output_tensors().chain(op.input_tensors());
        let id = tensors.find_map(|tensor| program.tensor(tensor).mesh)?;
        let mesh = program.mesh(id);
        let plain = mesh.shape.len() == 1 && mesh.devices.iter().zip(0..).all(|(&device, place)| device == place);
        let devices = mesh.axis_extent(ParallelType::DIDx)?;
        Some(Self { mesh: (!plain).then_some(id), devices: i64::from(devices) })
    }

    /// `( ( index + rank ) % devices )`
    fn apply(self, program: &mut Program, index: ExprId) -> ExprId {
        let place = match self.mesh {
            Some(mesh) => Expr::MeshCoordinate(mesh, MeshCoordinate::Along(ParallelType::DIDx)),
            None => Expr::Name(program.names.intern("rank")),
        };
        let exprs = &mut program.exprs;
        let place = exprs.intern(place);
        let sum = exprs.intern_binary(BinaryOp::Add, index, place);
        let devices = exprs.intern_int(self.devices);
        exprs.intern_binary(BinaryOp::Mod, sum, devices)
    }

    /// The index from which an expression is shifted.
    fn index_without(self, program: &Program, full: ExprId) -> Option<ExprId> {
        let Expr::Binary(BinaryOp::Mod, sum, devices) = *program.expr(full) else { return None };
        let Expr::Binary(BinaryOp::Add, index, place) = *program.expr(sum) else { return None };
        let is_place = match (self.mesh, program.expr(place)) {
            (None, Expr::Name(name)) => program.name(*name) == "rank",
            (Some(mesh), Expr::MeshCoordinate(of, along)) => {
                *of == mesh && *along == MeshCoordinate::Along(ParallelType::DIDx)
            }
            _ => false,
        };
        (is_place && program.exprs().as_int(devices) == Some(self.devices)).then_some(index)
    }
}
