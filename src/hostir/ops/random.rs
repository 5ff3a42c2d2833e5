//! Random numbers: nvFuser's, which are those of cuRAND's Philox 4x32-10.
//!
//! The bits of an element depend on the seed, the offset and the index of the element in the whole tensor, so that a
//! shard has the numbers of its part. An op without a seed takes that of the run, and the next offset each time it runs.

use super::element_index::{IndexedSteps, linear_index};
use super::factory::emit_factory_kernel;
use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use super::tensor_checks;
use crate::diag::{Diag, Diags, codes, message};
use crate::ir::places::with_declaration;
use crate::ir::{AttrKey, AttrValue, DType, OpId, OpIdentity, OpLayout, Program, quoted_op, quoted_type};
use crate::plan::{Function, PlanBuilder, ScalarValue, StepOperand};

/// `rng_uniform`.
pub const RNG_UNIFORM: OpSpec = OpSpec {
    identity: OpIdentity { name: "rng_uniform", layout: OpLayout::Factory, ..OpIdentity::TENSOR_OP },
    spellings: &[],
    summary: "Makes random numbers from 0 up to 1: extents, element type, seed.",
    args: &[EXTENTS, ELEMENT_TYPE, SEED, OFFSET],
    relate: None,
    infer: Infer::Written,
    checks: &[tensor_checks::check_named_type, check_random_type],
    repair: None,
    lower: Lower::Instructions(|cx, id| lower_random(cx, id, Distribution::Uniform)),
};

/// `rng_uniform_range`.
pub const RNG_UNIFORM_RANGE: OpSpec = OpSpec {
    identity: OpIdentity { name: "rng_uniform_range", ..RNG_UNIFORM.identity },
    summary: "Makes random numbers from a first value up to a second: extents, both values, element type, seed.",
    args: &[
        EXTENTS,
        ArgSpec::positional(AttrKey::Low, ArgKind::Expr),
        ArgSpec::positional(AttrKey::High, ArgKind::Expr),
        ELEMENT_TYPE,
        SEED,
        OFFSET,
    ],
    repair: None,
    lower: Lower::Instructions(|cx, id| lower_random(cx, id, Distribution::UniformRange)),
    ..RNG_UNIFORM
};

/// `rng_normal_standard`.
pub const RNG_NORMAL_STANDARD: OpSpec = OpSpec {
    identity: OpIdentity { name: "rng_normal_standard", ..RNG_UNIFORM.identity },
    summary: "Makes random numbers of mean 0 and deviation 1: extents, element type, seed.",
    repair: None,
    lower: Lower::Instructions(|cx, id| lower_random(cx, id, Distribution::NormalStandard)),
    ..RNG_UNIFORM
};

/// `rng_normal_general`.
pub const RNG_NORMAL_GENERAL: OpSpec = OpSpec {
    identity: OpIdentity { name: "rng_normal_general", ..RNG_UNIFORM.identity },
    summary: "Makes random numbers of a mean and a deviation: extents, mean, deviation, element type, seed.",
    args: &[
        EXTENTS,
        ArgSpec::positional(AttrKey::Mean, ArgKind::Expr),
        ArgSpec::positional(AttrKey::Deviation, ArgKind::Expr),
        ELEMENT_TYPE,
        SEED,
        OFFSET,
    ],
    repair: None,
    lower: Lower::Instructions(|cx, id| lower_random(cx, id, Distribution::NormalGeneral)),
    ..RNG_UNIFORM
};

const EXTENTS: ArgSpec = ArgSpec::positional(AttrKey::Extents, ArgKind::Exprs);
const ELEMENT_TYPE: ArgSpec = ArgSpec::positional(AttrKey::OutType, ArgKind::DType);
const SEED: ArgSpec = ArgSpec::positional(AttrKey::Seed, ArgKind::Expr).optional();
/// The offset, which nvFuser does not print.
const OFFSET: ArgSpec = ArgSpec::spaced("offset", AttrKey::Offset, ArgKind::Expr).optional();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Distribution {
    Uniform,
    UniformRange,
    NormalStandard,
    NormalGeneral,
}

/// V55: random numbers are `double`, `float`, `__half` or `__bfloat`.
fn check_random_type(program: &Program, id: OpId, diags: &mut Diags) {
    let Some(result) = program.op(id).output_tensors().next() else { return };
    let found = program.tensor(result).dtype;
    if !matches!(found, DType::Double | DType::Float | DType::Half | DType::BFloat16) {
        let (name, tensor) = (quoted_op(program, id), program.quoted_tensor(result));
        let message = message!("`{}` makes floats of 16 to 64 bits, but `{}` is {}", name, tensor, quoted_type(found));
        diags.push(with_declaration(Diag::error(codes::DTYPE, program.op_span(id), message), program, result, id));
    }
}

/// The seed and the offset of an op.
///
/// # Errors
/// If one of them has no value.
fn seed_and_offset(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<[ScalarValue; 2], Diag> {
    let op = cx.program.op(id);
    let (seed, offset) = (op.expr_attr(AttrKey::Seed), op.expr_attr(AttrKey::Offset));
    let offset = match offset {
        Some(offset) => cx.eval_int(offset)?,
        None if seed.is_some() => 0,
        None => cx.next_random_offset(),
    };
    let seed = seed.map_or(Ok(cx.env.random_seed.cast_signed()), |seed| cx.eval_int(seed))?;
    Ok([seed, offset].map(ScalarValue::Int))
}

/// Refuses extents other than those of the result.
fn check_extents(cx: &PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let op = cx.program.op(id);
    let (Some(AttrValue::Exprs(extents)), result) = (op.attr(AttrKey::Extents), cx.result_tensor(op)?) else {
        return Ok(());
    };
    let extents: Vec<usize> = extents.iter().map(|&extent| cx.eval_size(extent)).collect::<Result<_, _>>()?;
    let whole = cx.whole_shape(result)?;
    if extents == whole {
        return Ok(());
    }
    let (name, tensor) = (quoted_op(cx.program, id), cx.quoted_tensor(result));
    let message =
        message!("`{}` makes shape {}, but {} has {}", name, format!("{extents:?}"), tensor, format!("{whole:?}"));
    Err(cx.error_here(codes::SHAPES, message))
}

fn lower_random(cx: &mut PlanBuilder<'_>, id: OpId, distribution: Distribution) -> Result<(), Diag> {
    check_extents(cx, id)?;
    let op = cx.program.op(id);
    let result = cx.result_tensor(op)?;
    let source = seed_and_offset(cx, id)?;
    let mut parameters = [0.0, 1.0];
    for (parameter, keys) in
        parameters.iter_mut().zip([[AttrKey::Low, AttrKey::Mean], [AttrKey::High, AttrKey::Deviation]])
    {
        if let Some(expr) = keys.into_iter().find_map(|key| op.expr_attr(key)) {
            *parameter = cx.eval_scalar(expr)?.as_f64();
        }
    }
    let output = cx.output_view(result)?;
    let mut steps = IndexedSteps::default();
    let index = linear_index(cx, result, &output, &mut steps)?;
    let numbers = RandomNumbers { source, dtype: output.dtype };
    match distribution {
        Distribution::Uniform => numbers.push_uniform(&mut steps, index, output.dtype),
        Distribution::UniformRange => numbers.push_uniform_range(&mut steps, index, parameters),
        Distribution::NormalStandard => numbers.push_normal(&mut steps, index, output.dtype),
        Distribution::NormalGeneral => {
            let normal = numbers.push_normal(&mut steps, index, numbers.compute_type());
            let [mean, deviation] = parameters.map(|value| StepOperand::Const(ScalarValue::Float(value)));
            steps.push(Function::MultiplyAdd, &[normal, deviation, mean], [numbers.compute_type(), output.dtype])
        }
    };
    emit_factory_kernel(cx, output, steps)
}

/// The steps that make random numbers of a type.
#[derive(Clone, Copy)]
struct RandomNumbers {
    /// Seed and offset.
    source: [ScalarValue; 2],
    /// The type of the numbers.
    dtype: DType,
}

impl RandomNumbers {
    /// `double` or `float`.
    fn compute_type(self) -> DType {
        if self.dtype == DType::Double { DType::Double } else { DType::Float }
    }

    /// Numbers above 0 and up to 1: the middles of 2^53 or 2^32 equal parts, rounded.
    fn push_raw(self, steps: &mut IndexedSteps, index: StepOperand, result: DType) -> StepOperand {
        let (function, bits) = match self.dtype {
            DType::Double => (Function::RandomBits53, 53),
            _ => (Function::RandomBits32, 32),
        };
        let [seed, offset] = self.source.map(StepOperand::Const);
        let word = steps.push(function, &[seed, offset, index], [DType::Int, DType::Int]);
        let part = 0.5f64.powi(bits);
        let [scale, half] = [part, 0.5 * part].map(|value| StepOperand::Const(ScalarValue::Float(value)));
        steps.push(Function::MultiplyAdd, &[word, scale, half], [self.compute_type(), result])
    }

    /// Numbers from 0 up to 1: in the result's type, 1 becomes 0.
    fn push_uniform(self, steps: &mut IndexedSteps, index: StepOperand, result: DType) -> StepOperand {
        let raw = self.push_raw(steps, index, result);
        let [one, zero] = [1.0, 0.0].map(|value| StepOperand::Const(ScalarValue::Float(value)));
        steps.push(Function::Replace, &[raw, one, zero], [self.compute_type(), result])
    }

    /// Numbers from `low` up to `high`. Types narrower than `float` replace `high` by `low`, the others do not.
    fn push_uniform_range(self, steps: &mut IndexedSteps, index: StepOperand, [low, high]: [f64; 2]) -> StepOperand {
        let compute = self.compute_type();
        let narrow = self.dtype != compute;
        let [low, high] = [low, high].map(|value| rounded_value(value, compute));
        let width = ScalarValue::Float(rounded_value(high - low, compute));
        let uniform = match narrow {
            true => self.push_raw(steps, index, compute),
            false => self.push_uniform(steps, index, compute),
        };
        let from = StepOperand::Const(ScalarValue::Float(low));
        let value =
            steps.push(Function::MultiplyAdd, &[uniform, StepOperand::Const(width), from], [compute, self.dtype]);
        if !narrow {
            return value;
        }
        let ends = [high, low].map(|value| StepOperand::Const(ScalarValue::Float(rounded_value(value, self.dtype))));
        steps.push(Function::Replace, &[value, ends[0], ends[1]], [compute, self.dtype])
    }

    /// Normal numbers: elements 2k and 2k + 1 come from the same two uniform numbers.
    fn push_normal(self, steps: &mut IndexedSteps, index: StepOperand, result: DType) -> StepOperand {
        let compute = self.compute_type();
        let [one, minus_two] = [1, -2].map(|value| StepOperand::Const(ScalarValue::Int(value)));
        let integer = [DType::Int, DType::Int];
        let first = steps.push(Function::BitAnd, &[index, minus_two], integer);
        let second = steps.push(Function::BitOr, &[index, one], integer);
        let parity = steps.push(Function::BitAnd, &[index, one], integer);
        let [radius, angle] = [first, second].map(|index| self.push_uniform(steps, index, compute));
        steps.push(Function::BoxMuller, &[radius, angle, parity], [compute, result])
    }
}

/// A value as an element of a type.
fn rounded_value(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::Half => half::f16::from_f32(value as f32).to_f64(),
        DType::BFloat16 => half::bf16::from_f32(value as f32).to_f64(),
        DType::Float => f64::from(value as f32),
        _ => value,
    }
}
