//! The element types to which the values of an output are rounded on their way from the inputs.
//!
//! Two orders of one computation differ by their roundings. The coarsest rounding counts, also if the output's own type
//! is finer: an 8-bit intermediate, a partial sum of 16 bits. Copies, slices, and communications that do not reduce
//! round nothing.

use super::PreparedProgram;
use crate::ir::{DType, TensorId};
use crate::plan::{
    BufferView, CollectiveInst, CollectiveMember, Function, GemmInst, InstKind, LaunchInst, Plan, PlanMatching,
    PointwiseKernel, RankInst, RedOp, StepOperand,
};
use rustc_hash::{FxHashMap, FxHashSet};

impl PreparedProgram {
    /// By output: the float types to which values on its way are rounded. GEMMs of 8-bit floats count as rounded to
    /// `__half`, because GPUs accumulate them in some 14 bits.
    pub fn output_roundings(&self) -> Vec<Vec<DType>> {
        let mut flow = RoundingFlow::default();
        for plan in &self.plans {
            plan.iter().for_each(|inst| flow.add_inst(plan, &inst.kind));
        }
        flow.add_communications(&self.plans);
        let known = flow.propagate_roundings();
        let outputs = 0..self.outputs.len();
        outputs
            .map(|output| {
                let views = self.plans.iter().filter_map(|plan| Some((plan, plan.outputs.get(output)?.as_ref()?)));
                let sets = views.filter_map(|(plan, view)| known.get(&owner(plan, view)).copied());
                sets.fold(RoundingSet::default(), RoundingSet::join).types()
            })
            .collect()
    }
}

/// The types that are compared within rounding.
const TYPES: [DType; 7] = [
    DType::Double,
    DType::Float,
    DType::Half,
    DType::BFloat16,
    DType::Float8E4M3,
    DType::Float8E5M2,
    DType::Float4E2M1,
];

/// A set of types of [`TYPES`].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct RoundingSet(u8);

impl RoundingSet {
    fn of_type(dtype: DType) -> Self {
        Self(TYPES.iter().position(|&other| other == dtype).map_or(0, |place| 1 << place))
    }
    fn join(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    fn types(self) -> Vec<DType> {
        TYPES.iter().copied().filter(|&dtype| self.0 & Self::of_type(dtype).0 != 0).collect()
    }
}

/// The tensor that owns a view's memory.
fn owner(plan: &Plan, view: &BufferView) -> TensorId {
    plan.buffers[view.buffer].tensor
}

/// The flow of values between tensors, in any order and iteration.
#[derive(Default)]
struct RoundingFlow {
    /// By tensor: the types to which results in its memory are rounded.
    own: FxHashMap<TensorId, RoundingSet>,
    /// From operands to results.
    flows: FxHashSet<(TensorId, TensorId)>,
}

impl RoundingFlow {
    fn add_result<'v>(
        &mut self,
        plan: &Plan,
        reads: impl IntoIterator<Item = &'v BufferView>,
        result: &BufferView,
        rounding: RoundingSet,
    ) {
        let to = owner(plan, result);
        self.flows.extend(reads.into_iter().map(|view| (owner(plan, view), to)));
        let own = self.own.entry(to).or_default();
        *own = own.join(rounding);
    }

    fn add_inst(&mut self, plan: &Plan, kind: &InstKind) {
        if let InstKind::Attention(attention) = kind {
            return attention.composition.iter().for_each(|kind| self.add_inst(plan, kind));
        }
        if let InstKind::Launch(launch) = kind {
            return self.add_launch(plan, launch);
        }
        let Some(result) = kind.written_view().filter(|_| kind.is_local()) else { return };
        let rounding = match kind {
            InstKind::Gemm(gemm) => gemm_rounding(gemm),
            InstKind::Kernel(kernel) => kernel_rounding(kernel),
            InstKind::Reduce(fold) => reduction_rounding(fold.op.op, result.dtype),
            InstKind::Accumulate(put) => match put.combine {
                Some(op) => reduction_rounding(op, result.dtype),
                None => RoundingSet::default(),
            },
            InstKind::Rows(_) => RoundingSet::of_type(result.dtype),
            _ => RoundingSet::default(),
        };
        self.add_result(plan, kind.read_views(), result, rounding);
    }

    /// Adds the flow of a kernel of the user: that of its reference, else from all that it reads to all that it writes.
    fn add_launch(&mut self, plan: &Plan, launch: &LaunchInst) {
        if let Some(reference) = &launch.reference {
            return reference.iter().for_each(|kind| self.add_inst(plan, kind));
        }
        for result in &launch.writes {
            self.add_result(plan, &launch.reads, result, RoundingSet::of_type(result.dtype));
        }
    }

    /// Adds the flow between ranks.
    fn add_communications(&mut self, plans: &[Plan]) {
        let matching = PlanMatching::new(plans);
        for message in &matching.messages {
            let [from, to] = [message.send, message.receive].map(|side| message_owner(plans, side));
            if let (Some(from), Some(to)) = (from, to) {
                self.flows.insert((from, to));
            }
        }
        for of_all in &matching.communicators {
            for number in 0..of_all.collectives.len() {
                self.add_collective(plans, &of_all.collective_members(number, plans));
            }
        }
    }

    fn add_collective(&mut self, plans: &[Plan], members: &[CollectiveMember<'_>]) {
        let rounding = members.iter().fold(RoundingSet::default(), |all, member| all.join(side_rounding(member)));
        let sent = side_owners(plans, members, |side| side.input.as_ref());
        for to in side_owners(plans, members, |side| side.output.as_ref()) {
            self.flows.extend(sent.iter().map(|&from| (from, to)));
            let own = self.own.entry(to).or_default();
            *own = own.join(rounding);
        }
    }

    /// By tensor: the types on all ways to it.
    fn propagate_roundings(self) -> FxHashMap<TensorId, RoundingSet> {
        let mut readers: FxHashMap<TensorId, Vec<TensorId>> = FxHashMap::default();
        self.flows.iter().for_each(|&(from, to)| readers.entry(from).or_default().push(to));
        let mut known = self.own;
        let mut changed: Vec<TensorId> = known.keys().copied().collect();
        while let Some(from) = changed.pop() {
            let set = known.get(&from).copied().unwrap_or_default();
            for &to in readers.get(&from).into_iter().flatten() {
                let before = known.entry(to).or_default();
                if before.join(set) != *before {
                    *before = before.join(set);
                    changed.push(to);
                }
            }
        }
        known
    }
}

/// The tensor that owns the memory of a side of a message.
fn message_owner(plans: &[Plan], side: RankInst) -> Option<TensorId> {
    let plan = plans.get(side.rank as usize)?;
    Some(owner(plan, plan.message_view(side.inst)?.as_ref()))
}

/// The tensors that own the memory that the members of a collective send, or receive into.
fn side_owners(
    plans: &[Plan],
    members: &[CollectiveMember<'_>],
    view: fn(&CollectiveInst) -> Option<&BufferView>,
) -> Vec<TensorId> {
    let owners = members.iter().map(|member| Some(owner(plans.get(member.rank as usize)?, view(&member.collective)?)));
    owners.flatten().collect()
}

fn side_rounding(member: &CollectiveMember<'_>) -> RoundingSet {
    let side = &member.collective;
    match &side.input {
        Some(input) if side.kind.is_reducing() => reduction_rounding(side.red_op, input.dtype),
        _ => RoundingSet::default(),
    }
}

fn gemm_rounding(gemm: &GemmInst) -> RoundingSet {
    let narrow = [&gemm.a, &gemm.b].iter().all(|factor| factor.dtype.byte_size() == 1);
    let sums = if narrow { RoundingSet::of_type(DType::Half) } else { RoundingSet::default() };
    sums.join(RoundingSet::of_type(gemm.out.dtype))
}

fn reduction_rounding(op: RedOp, dtype: DType) -> RoundingSet {
    match op {
        RedOp::Sum | RedOp::Product | RedOp::Avg => RoundingSet::of_type(dtype),
        RedOp::Min | RedOp::Max | RedOp::FMin | RedOp::FMax => RoundingSet::default(),
        RedOp::And | RedOp::Or | RedOp::Xor => RoundingSet::default(),
    }
}

fn kernel_rounding(kernel: &PointwiseKernel) -> RoundingSet {
    let mut all = RoundingSet::default();
    for step in &kernel.steps {
        let mut operands = step.args.iter().filter_map(|&operand| operand_type(kernel, operand));
        if !(is_selection(step.function) && operands.all(|from| is_held(from, step.result))) {
            all = all.join(RoundingSet::of_type(step.result));
        }
    }
    all
}

/// The type of an operand of a step that is an element.
fn operand_type(kernel: &PointwiseKernel, operand: StepOperand) -> Option<DType> {
    match operand {
        StepOperand::Input(input) => kernel.inputs.get(input as usize).map(|view| view.dtype),
        StepOperand::Step(step) => kernel.steps.get(step as usize).map(|step| step.result),
        StepOperand::Const(_) | StepOperand::Index(_) => None,
    }
}

/// Returns true if the result of a function is one of its operands, up to the sign.
fn is_selection(function: Function) -> bool {
    matches!(
        function,
        Function::Neg
            | Function::Abs
            | Function::Relu
            | Function::Max
            | Function::Min
            | Function::FMax
            | Function::FMin
            | Function::Clamp
            | Function::Threshold
            | Function::Where
            | Function::Identity
            | Function::Cast
            | Function::Print
    )
}

/// Returns true if a type holds all values of another one.
fn is_held(from: DType, to: DType) -> bool {
    if from == DType::Bool || from == to {
        return true;
    }
    match (float_bits(from), float_bits(to)) {
        (Some((digits, exponent)), Some((more_digits, more_exponent))) => {
            digits <= more_digits && exponent <= more_exponent
        }
        _ => false,
    }
}

/// The bits of a float type's significand, the hidden one too, and of its exponent.
fn float_bits(dtype: DType) -> Option<(u8, u8)> {
    match dtype {
        DType::Double => Some((53, 11)),
        DType::Float => Some((24, 8)),
        DType::Half => Some((11, 5)),
        DType::BFloat16 => Some((8, 8)),
        DType::Float8E4M3 => Some((4, 4)),
        DType::Float8E5M2 => Some((3, 5)),
        DType::Float8E8M0 => Some((1, 8)),
        DType::Float4E2M1 => Some((2, 2)),
        _ => None,
    }
}
