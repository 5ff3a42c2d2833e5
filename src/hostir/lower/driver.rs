//! The driver: executes the blocks of a program at plan time, and with them loops, branches and HostUnits.

use super::privatization::PrivatizationCache;
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::scalar_names::loop_index;
use crate::ir::{AttrKey, BlockId, ExprId, Op, OpEffect, OpId, Program, Symbol, TensorId, UnitId, Value, quoted_head};
use crate::ops::launch::{LaunchCall, launch_call};
use crate::ops::spec::Lower;
use crate::ops::user_launch::launch_inst;
use crate::plan::{
    AxesTable, ExtentEnv, InstKind, LEAST_INST_BYTES, LocalScalars, LoopIteration, Plan, PlanBudget, PlanBuilder,
};
use rustc_hash::FxHashMap;

/// Runs a program for one rank and builds its plan.
pub(super) struct Driver<'a> {
    builder: PlanBuilder<'a>,
    /// By a loop's block: the index by which it shards tensors.
    cuts: FxHashMap<BlockId, ExprId>,
    privatization: PrivatizationCache,
}

/// The rank whose plan is built, and the limits of the plan.
pub(super) struct RankLimits {
    /// The rank; `None`: the program runs on whole tensors.
    pub(super) rank: Option<u32>,
    /// The resource limits of the plan itself.
    pub(super) budget: PlanBudget,
}

impl<'a> Driver<'a> {
    /// The driver at the start of the program, with inputs bound.
    pub(super) fn new(
        program: &'a Program,
        env: &'a ExtentEnv,
        axes: &'a AxesTable,
        limits: RankLimits,
    ) -> Result<Self, Diag> {
        let RankLimits { rank, budget } = limits;
        let builder = PlanBuilder::new(program, env, axes, rank, budget)?;
        Ok(Self { builder, cuts: stream_cut_blocks(program), privatization: PrivatizationCache::default() })
    }

    /// Runs the whole program. The final memory of `kept` tensors follows the outputs'.
    pub(super) fn lower_host(mut self, kept: &[TensorId]) -> Result<Plan, Diag> {
        self.run_block(self.builder.program.body())?;
        self.builder.build_plan(kept)
    }

    /// Runs the ops of a block in order.
    fn run_block(&mut self, block: BlockId) -> Result<(), Diag> {
        let program = self.builder.program;
        for &op in &program.block(block).ops {
            self.run_op(op)?;
        }
        Ok(())
    }

    /// Runs one op, if this rank takes part in it.
    fn run_op(&mut self, id: OpId) -> Result<(), Diag> {
        let outer = self.builder.enter_op(id);
        let kind = self.builder.program.op(id).kind;
        let result = match kind.spec().lower {
            _ if !self.builder.is_run_by_rank(id) => self.builder.skip_op(id),
            Lower::Instructions(lower) | Lower::Indexed(lower, _) => lower(&mut self.builder, id),
            Lower::Loop => self.run_loop(id),
            Lower::Branch => self.run_branch(id),
            Lower::Post => self.run_post(id),
            Lower::Launch => self.run_launch(id),
            Lower::Unsupported => {
                let message = message!("`{}` is not supported in a run", quoted_head(kind.name()));
                Err(self.builder.error_here(codes::CANNOT_RUN, message))
            }
        };
        self.builder.leave_op(outer);
        result
    }

    /// Runs a body once, with a loop index bound if there is one.
    fn run_iteration(&mut self, index: Option<Symbol>, value: i64, body: BlockId) -> Result<(), Diag> {
        let cut = self.cuts.get(&body).copied();
        let index = index.map(|index| (index, value));
        let outer = self.builder.enter_iteration(index, cut)?;
        let result = self.run_block(body);
        self.builder.leave_iteration(outer);
        result
    }

    /// Runs the iterations of a `FOR`. At the start of each iteration, loop-private tensors that had no memory before
    /// the loop have none, as in nvFuser's evaluator.
    fn run_loop(&mut self, id: OpId) -> Result<(), Diag> {
        let op = self.builder.program.op(id);
        if !self.builder.is_in_loop() {
            self.builder.check_least(self.least_of_loop(op))?;
        }
        let private = self.privatization.private_tensors(self.builder.program, id);
        let (start, stop, step) = bounds(&self.builder, op)?;

        if step < 1 {
            return Err(self
                .builder
                .error_here(codes::OUT_OF_RANGE, message!("the step of the loop is {}; it must be positive", step)));
        }
        let (index, Some(&body)) = (loop_index(self.builder.program, op), op.blocks.first()) else {
            return Ok(());
        };
        let had = |(at, &tensor): (usize, &TensorId)| {
            self.builder.tensor_binding(tensor).is_some() && !(at < private.whole && self.is_left_over(tensor))
        };
        let outside: Vec<bool> = private.tensors.iter().enumerate().map(had).collect();
        let loop_private = || private.tensors.iter().zip(&outside).filter(|(_, had)| !**had);
        let mut value = start;
        let mut recorder = self.builder.record_loop();
        let mut before = (!self.builder.is_in_loop()).then(|| self.builder.plan_lengths());
        while value < stop {
            self.builder.check_time()?;
            for (&tensor, _) in loop_private() {
                self.builder.rebind_tensor(tensor, None)?;
            }
            self.run_iteration(index, value, body)?;
            self.builder.end_round(&mut recorder);
            let Some(next) = value.checked_add(step) else { break };
            value = next;
            if let Some(before) = before.take().filter(|_| value < stop) {
                self.builder.reserve_iterations(&before, value.abs_diff(stop).div_ceil(step.unsigned_abs()));
            }
        }
        self.builder.end_loop(recorder);
        for (&tensor, _) in loop_private() {
            if let Some(buffer) = self.builder.tensor_binding(tensor).map(|view| view.buffer) {
                self.privatization.left.insert(tensor, buffer);
            }
        }
        Ok(())
    }

    /// Returns true if a tensor's memory comes from the last iteration of an earlier loop and no other tensor is bound
    /// to part of it. Such memory does not count as memory that the tensor had before a loop.
    fn is_left_over(&self, tensor: TensorId) -> bool {
        let Some(buffer) = self.builder.tensor_binding(tensor).map(|view| view.buffer) else {
            return false;
        };
        let owner = self.builder.plan.buffers[buffer].tensor == tensor;
        self.privatization.left.get(&tensor) == Some(&buffer)
            && !(owner && self.builder.tensors.reference_count(buffer) > 1)
    }

    /// `IF predicate:` with an optional `ELSE:`
    fn run_branch(&mut self, id: OpId) -> Result<(), Diag> {
        let op = self.builder.program.op(id);
        let predicate = op
            .operands
            .iter()
            .find_map(|value| value.as_scalar())
            .or_else(|| op.attrs.iter().find_map(|(key, _)| op.expr_attr(*key)));
        let Some(predicate) = predicate else {
            return Err(self.builder.error_here(codes::NEEDED, "the branch has no predicate"));
        };
        let chosen = usize::from(!self.builder.eval_scalar(predicate)?.as_bool());
        match op.blocks.get(chosen) {
            Some(&block) => self.run_iteration(None, 0, block),
            None => Ok(()),
        }
    }

    /// Launches a kernel of the user. What its reference does is a part of the instruction, for backends that cannot run
    /// the kernel.
    fn run_launch(&mut self, id: OpId) -> Result<(), Diag> {
        let mut launch = launch_inst(&mut self.builder, id)?;
        if self.builder.program.op(id).posted_number().is_some() {
            let start = self.builder.inst_count();
            self.run_post(id)?;
            let reference = self.builder.take_insts(start);
            if reference.iter().any(|kind| !kind.is_local()) {
                let message = "the reference of a kernel communicates or orders streams";
                let note = "write it of ops that compute on one stream";
                return Err(self.builder.error_here(codes::CANNOT_RUN, message).with_note(note));
            }
            launch.reference = Some(reference);
        }
        self.builder.emit_inst(InstKind::Launch(Box::new(launch)))
    }

    /// Runs a HostUnit's body in place, on the unit's own tensors.
    fn run_post(&mut self, id: OpId) -> Result<(), Diag> {
        let cx = &mut self.builder;
        let Some(call) = launch_call(cx.program, id) else {
            return Err(cx.error_here(codes::CANNOT_RUN, "the posted HostUnit is not in the program"));
        };
        if cx.unit.is_some() {
            return Err(cx.error_here(codes::CANNOT_RUN, "a HostUnit cannot post another HostUnit"));
        }
        let unit = &cx.program.units()[call.unit];
        if unit.is_elided {
            let message = message!("{} cannot run: the text leaves its kernel out", cx.program.unit_name(unit.number));
            let note = "write the lists and the kernel of the HostUnit in the place of `[...]`";
            return Err(cx.error_here(codes::CANNOT_RUN, message).with_note(note));
        }
        let inputs: Vec<TensorId> = unit.inputs.iter().filter_map(|value| value.as_tensor()).collect();
        let outputs: Vec<TensorId> = unit.outputs.iter().filter_map(|value| value.as_tensor()).collect();
        if (inputs.len(), outputs.len()) != (call.inputs.len(), call.outputs.len()) {
            let message = message!(
                "{} has {} inputs and {} outputs, but {} inputs and {} outputs were given",
                cx.program.unit_name(unit.number),
                inputs.len(),
                outputs.len(),
                call.inputs.len(),
                call.outputs.len()
            );
            return Err(cx.error_here(codes::SHAPES, message));
        }
        // The unit's name space: from here on names refer to the unit's scalars.
        let scalars = unit_scalars(cx, id, call.unit)?;
        let outside = std::mem::replace(&mut cx.scope.locals, scalars);
        self.run_unit(&call, unit.body, &inputs, &outputs)?;
        self.builder.scope.locals = outside;
        Ok(())
    }

    /// Binds the tensors of a unit, runs its body, and binds the results of the PostOnStream to the unit's outputs.
    fn run_unit(
        &mut self,
        call: &LaunchCall,
        body: BlockId,
        inputs: &[TensorId],
        outputs: &[TensorId],
    ) -> Result<(), Diag> {
        for (&outer, &inner) in call.inputs.iter().zip(inputs) {
            let view = self.builder.input_view(outer)?;
            let shape = self.builder.local_shape(inner)?;
            if shape != view.shape() {
                return Err(self.builder.shape_error(outer, &view.shape(), inner, &shape));
            }
            self.builder.check_repetition(inner, &view)?;
            self.builder.rebind_tensor(inner, Some(view))?;
        }
        for (&outer, &inner) in call.outputs.iter().zip(outputs) {
            if let Some(view) = self.builder.tensor_binding(outer).cloned() {
                self.builder.check_repetition(inner, &view)?;
                self.builder.rebind_tensor(inner, Some(view))?;
            } else if let Some(error) = self.builder.ended_error(outer) {
                return Err(error);
            }
        }
        check_bound(&self.builder, &call.outputs)?;
        self.builder.unit = Some(call.unit);
        let result = self.run_block(body);
        self.builder.unit = None;
        result?;
        for (&outer, &inner) in call.outputs.iter().zip(outputs) {
            let view = self.builder.input_view(inner)?;
            self.builder.check_repetition(outer, &view)?;
            self.builder.rebind_tensor(outer, Some(view))?;
        }
        self.builder.end_unit(call.unit)
    }

    /// A lower bound on the bytes that a loop's iterations add to the plan.
    fn least_of_loop(&self, op: &Op) -> u128 {
        let (Ok((start, stop, step)), Some(&body)) = (bounds(&self.builder, op), op.blocks.first()) else {
            return 0;
        };
        if step < 1 || stop <= start {
            return 0;
        }
        let count = (i128::from(stop) - i128::from(start) + i128::from(step) - 1) / i128::from(step);
        let one = (size_of::<LoopIteration>() as u128).saturating_add(self.least(body));
        one.saturating_mul(count.unsigned_abs())
    }

    /// A lower bound on the bytes that a block's ops add to the plan. A branch may not be taken, and an inner loop
    /// with unknown bounds may be empty.
    fn least(&self, block: BlockId) -> u128 {
        let ops = self.builder.program.block(block).ops.iter();
        ops.map(|&id| self.least_of_op(id)).fold(0, u128::saturating_add)
    }

    fn least_of_op(&self, id: OpId) -> u128 {
        let op = self.builder.program.op(id);
        match op.kind {
            _ if !self.builder.is_run_by_rank(id) => 0,
            kind if matches!(kind.spec().lower, Lower::Loop) => self.least_of_loop(op),
            kind => match kind.effect() {
                OpEffect::Pure if op.output_tensors().next().is_some() => LEAST_INST_BYTES as u128,
                _ => 0,
            },
        }
    }
}

/// First value, end and step of a loop's index.
pub(super) fn bounds(cx: &PlanBuilder<'_>, op: &Op) -> Result<(i64, i64, i64), Diag> {
    let stop = match (op.expr_attr(AttrKey::Stop), op.domain_attr(AttrKey::Domain)) {
        (Some(stop), _) => stop,
        (None, Some(domain)) => cx.program.domain(domain).extent,
        (None, None) => {
            return Err(cx.error_here(codes::NEEDED, "the loop has no domain and no `stop`"));
        }
    };
    let start = op.expr_attr(AttrKey::Start).map_or(Ok(0), |expr| cx.eval_int(expr))?;
    let step = op.expr_attr(AttrKey::Step).map_or(Ok(1), |expr| cx.eval_int(expr))?;
    Ok((start, cx.eval_int(stop)?, step))
}

/// The values of a unit's scalar inputs at a PostOnStream.
fn unit_scalars(cx: &PlanBuilder<'_>, id: OpId, unit: UnitId) -> Result<LocalScalars, Diag> {
    let mut locals = LocalScalars::default();
    for (outer, inner) in cx.program.posted_inputs(cx.program.op(id), unit) {
        if let (Value::Scalar(given), Value::Scalar(name)) = (outer, inner)
            && let Some(name) = cx.program.exprs().as_name(name)
        {
            locals.push(name, cx.eval_value(given)?);
        }
    }
    Ok(locals)
}

/// Checks that at a PostOnStream either all outputs of the unit have memory, or none has.
fn check_bound(cx: &PlanBuilder<'_>, outputs: &[TensorId]) -> Result<(), Diag> {
    let (with, without): (Vec<TensorId>, Vec<TensorId>) =
        outputs.iter().copied().partition(|tensor| cx.tensor_binding(*tensor).is_some());
    match (with.first(), without.first()) {
        (Some(&with), Some(&without)) => {
            let (with, without) = (cx.quoted_tensor(with), cx.quoted_tensor(without));
            let message = message!("{} is allocated, but {} is not", with, without);
            Err(cx
                .error_here(codes::NO_MEMORY_HERE, message)
                .with_note("allocate either all outputs of a HostUnit before it is posted, or none"))
        }
        _ => Ok(()),
    }
}

/// The blocks of a program that shard tensors by stream, each with its index.
fn stream_cut_blocks(program: &Program) -> FxHashMap<BlockId, ExprId> {
    let mut found = FxHashMap::default();
    if !program.ops().iter().any(|(_, op)| op.attr(AttrKey::StreamIndex).is_some()) {
        return found;
    }
    program.walk(program.body(), &mut |id| {
        for &block in &program.op(id).blocks {
            let mut ops = program.block(block).ops.iter().map(|&id| program.op(id));
            if let Some(index) = ops.find_map(|op| op.expr_attr(AttrKey::StreamIndex)) {
                found.insert(block, index);
            }
        }
    });
    found
}
