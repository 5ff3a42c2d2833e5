//! fuse-accumulate: turns the sum with a GEMM's result into an accumulating GEMM.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::rewrite;
use hostir::analysis::is_resharding;
use hostir::analysis::storage::{StorageClasses, TensorAccess, count_mentions, visit_accesses};
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, BlockId, DType, GemmForm, Op, OpEffect, OpId, OpKind, Program, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// fuse-accumulate: a matmul and a sum became one GEMM.
const FUSED: &str = "H0337";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "fuse-accumulate",
    summary: "Add to a product inside of its GEMM",
    description: "\
Turns a `matmul` and the sum of its result and a tensor of the same shape and type into one `matmul_add`, at the
place of the sum. Only the sum may read the product, which the program neither returns nor binds to memory of
another tensor; both ops are in one block, and nothing between them writes a factor, changes the stream,
communicates or launches a kernel. Products that are summed over devices stay.

In `__half`, `__bfloat` and 8-bit floats the result is rounded once instead of twice, so it can differ in the last
bit from the program before the pass. In `float` and `double` it is the same, and GPUs fuse the two without this
pass. `--remarks` tells what was fused, and where rounding changes.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[],
    statistics: &[StatisticSpec { name: "sums-fused", help: "sums that became accumulators" }],
    action: PassAction::Rewrite(run_fuse_accumulate),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g___bfloat[iS0{i0}, iS1{i1}], T1_g___bfloat[iS2{i1}, iS3{i2}], T2_g___bfloat[iS4{i0}, iS5{i2}]) -> (T4_g___bfloat[iS9{i0}, iS10{i2}]) :
  T3_l___bfloat[iS6{i0}, iS7{i2}, rS8{i1}]
     = matmul(T0,
              T1)
  T4_g___bfloat[iS9{i0}, iS10{i2}]
     = T3
     + T2;
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g___bfloat[iS0{i0}, iS1{i1}], T1_g___bfloat[iS2{i1}, iS3{i2}], T2_g___bfloat[iS4{i0}, iS5{i2}]) -> (T4_g___bfloat[iS9{i0}, iS10{i2}]) :
  T4_g___bfloat[iS9{i0}, iS10{i2}]
     = matmul_add(T0,
                  T1,
                  T2)
} // %HostIrContainer
";

fn run_fuse_accumulate(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let found = AccumulatorSearch::new(edit.program()).find_all();
    for sum in &found {
        cx.add_remark(|| fused_remark(edit.program(), sum));
    }
    cx.add_count("sums-fused", found.len() as u64);
    let mut gone = FxHashSet::default();
    for sum in found {
        let program = edit.program();
        let mut op = Op::new(OpKind::MatmulAdd);
        op.operands.extend(program.op(sum.gemm).operands.iter().copied());
        op.operands.push(Value::Tensor(sum.added));
        op.results = program.op(sum.sum).results.clone();
        edit.set_op(sum.sum, op);
        gone.insert(sum.gemm);
    }
    if !gone.is_empty() {
        let body = edit.program().body();
        rewrite::retain_ops(edit, body, &|op| !gone.contains(&op));
        rewrite::drop_lost_comments(edit);
    }
    Ok(())
}

fn fused_remark(program: &Program, found: &FusibleSum) -> Diag {
    let gemm_result = program.op(found.gemm).output_tensors().next();
    let name = gemm_result.map(|tensor| program.tensor_name(tensor)).unwrap_or_default();
    let wide = gemm_result.is_some_and(|tensor| matches!(program.tensor(tensor).dtype, DType::Float | DType::Double));
    let rounding = if wide { "" } else { ", which rounds once instead of twice" };
    let message = message!("fused the sum with `{}` into its GEMM{}", name, rounding);
    Diag::error(FUSED, program.op_span(found.sum), message)
}

/// A GEMM, and the sum that is fused into it.
struct FusibleSum {
    gemm: OpId,
    sum: OpId,
    added: TensorId,
}

struct AccumulatorSearch<'p> {
    program: &'p Program,
    storage: StorageClasses,
    /// By tensor: the number of ops that name it, and the caller's mentions.
    mentions: FxHashMap<TensorId, usize>,
    found: Vec<FusibleSum>,
}

impl<'p> AccumulatorSearch<'p> {
    fn new(program: &'p Program) -> Self {
        let (storage, mentions) = (StorageClasses::from_program(program), count_mentions(program));
        Self { program, storage, mentions, found: Vec::new() }
    }

    fn find_all(mut self) -> Vec<FusibleSum> {
        self.search_block(self.program.body());
        self.found
    }

    fn search_block(&mut self, block: BlockId) {
        // The GEMMs of this block that may still move to a later place.
        let mut movable: FxHashMap<TensorId, OpId> = FxHashMap::default();
        for &id in &self.program.block(block).ops {
            let op = self.program.op(id);
            if op.kind.is_pointwise() {
                self.match_sum(id, &mut movable);
            }
            self.drop_overwritten(id, &mut movable);
            let gemm_result = op.output_tensors().next().filter(|_| op.kind.gemm().is_some_and(GemmForm::is_plain));
            // The GEMM names it, and the sum.
            if let Some(gemm_result) = gemm_result.filter(|gemm_result| self.mentions.get(gemm_result) == Some(&2)) {
                movable.insert(gemm_result, id);
            }
            op.blocks.iter().for_each(|&inner| self.search_block(inner));
        }
    }

    /// Drops the GEMMs that must not move after an op.
    fn drop_overwritten(&mut self, id: OpId, movable: &mut FxHashMap<TensorId, OpId>) {
        let program = self.program;
        match program.op(id).kind.effect() {
            OpEffect::Pure | OpEffect::Allocate | OpEffect::Alias => {}
            OpEffect::Free
            | OpEffect::Stream(_)
            | OpEffect::Communicate(_)
            | OpEffect::Control(_)
            | OpEffect::Opaque
            | OpEffect::Observe => {
                movable.clear();
            }
        }
        let mut written = Vec::new();
        visit_accesses(program, id, &mut |tensor, access| {
            if matches!(access, TensorAccess::Write | TensorAccess::Both | TensorAccess::Bind) {
                written.push(tensor);
            }
        });
        let written: Vec<usize> = written.into_iter().map(|tensor| self.storage.class_of(tensor)).collect();
        movable.retain(|_, gemm_result| {
            let mut factors = program.op(*gemm_result).input_tensors();
            !factors.any(|factor| written.contains(&self.storage.class_of(factor)))
        });
    }

    fn match_sum(&mut self, id: OpId, movable: &mut FxHashMap<TensorId, OpId>) {
        let op = self.program.op(id);
        let is_sum = op.word_attr(AttrKey::Function).is_some_and(|name| self.program.name(name) == "+");
        let [Value::Tensor(x), Value::Tensor(y)] = op.operands.as_slice() else { return };
        let Some(result) = op.output_tensors().next().filter(|_| is_sum && x != y) else { return };
        // Of two GEMMs the second operand takes the first as its accumulator.
        for (gemm_result, added) in [(*y, *x), (*x, *y)] {
            let Some(&gemm) = movable.get(&gemm_result) else { continue };
            let local = !is_resharding(self.program, gemm) && !is_resharding(self.program, id);
            if local && self.can_accumulate(gemm, gemm_result, added, result) {
                movable.remove(&gemm_result);
                self.found.push(FusibleSum { gemm, sum: id, added });
                return;
            }
        }
    }

    /// True if a GEMM can add a tensor and write the result of the sum.
    fn can_accumulate(&mut self, gemm: OpId, gemm_result: TensorId, added: TensorId, result: TensorId) -> bool {
        let program = self.program;
        let dtype = program.tensor(gemm_result).dtype;
        let ranks = [gemm_result, added, result].map(|tensor| plain_rank(program, tensor));
        let one_type = [added, result].iter().all(|&tensor| program.tensor(tensor).dtype == dtype);
        let factors: Vec<TensorId> = program.op(gemm).input_tensors().collect();
        let place = self.storage.class_of(result);
        let apart = factors.iter().all(|&factor| self.storage.class_of(factor) != place);
        dtype.is_float() && one_type && ranks[0].is_some() && ranks.iter().all(|rank| *rank == ranks[0]) && apart
    }
}

/// The number of stored axes; `None` for a tensor with split or broadcast ones.
fn plain_rank(program: &Program, tensor: TensorId) -> Option<usize> {
    let axes = logical_axes(program, tensor);
    let stored = axes.stored_positions();
    let known = !axes.has_parts() && !stored.iter().any(|&at| axes.axes[at as usize].is_broadcast());
    known.then_some(stored.len())
}
