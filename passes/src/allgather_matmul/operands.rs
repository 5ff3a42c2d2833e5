//! The operands of GEMMs of gathered rows: the gathered one, and the parts of the others.

use crate::support::reshard::{has_one_element, stored_domains};
use hostir::ir::{AttrKey, AttrValue, IterDomain, Op, OpId, OpKind, ParallelType, Program, TensorId};
use rustc_hash::FxHashMap;

/// An operand in the form that the GEMM of one part takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PartOperand {
    /// The gathered part, or its transpose.
    Gathered { transposed: bool },
    /// The gathered scales of the part's rows.
    GatheredScales,
    /// The same for all parts and on all devices: `[k, n]`, a bias, single scales.
    Whole(TensorId),
    /// The same for all parts, with columns across devices: `[device, 1, k, n]`.
    Columns(TensorId),
    /// The part of the same number: `[part, k, n]`, or `[device, part, k, n]`.
    Part(TensorId),
}

/// The operand of a GEMM that is sharded over devices and needed from all of them.
#[derive(Clone, Copy)]
pub(super) struct GatheredOperand {
    /// Its place among the operands.
    pub(super) place: usize,
    /// The tensor that is gathered, `[device, m, k]`.
    pub(super) source: TensorId,
    /// The op that widens it to `[1, device, m, k]`.
    pub(super) broadcast: Option<OpId>,
    /// The op that exchanges the last two axes of the widened tensor.
    pub(super) permute: Option<OpId>,
}

/// The scales of the gathered rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct GatheredScales {
    /// The tensor that is gathered, `[device, m, 1]`.
    pub(super) source: TensorId,
    /// The op that widens it to `[1, device, m, 1]`.
    pub(super) broadcast: Option<OpId>,
}

/// The ops of a program between operands and the gathered tensors.
pub(super) struct OperandOrigins<'p> {
    program: &'p Program,
    /// The broadcast, and the exchange of the last two of four axes, that make each tensor.
    broadcasts: FxHashMap<TensorId, OpId>,
    transposes: FxHashMap<TensorId, OpId>,
}

impl<'p> OperandOrigins<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let (mut broadcasts, mut transposes) = (FxHashMap::default(), FxHashMap::default());
        for &id in &program.block(program.body()).ops {
            let op = program.op(id);
            let Some(result) = op.output_tensors().next() else { continue };
            if op.kind == OpKind::Broadcast {
                broadcasts.insert(result, id);
            } else if op.kind == OpKind::SetPermute && is_transpose(op) {
                transposes.insert(result, id);
            }
        }
        Self { program, broadcasts, transposes }
    }

    /// The operand that a GEMM needs from all devices: one that was widened, or one that is sharded over devices
    /// itself.
    pub(super) fn find_gathered(&self, op: &Op) -> Option<GatheredOperand> {
        let operands: Vec<TensorId> = op.input_tensors().take(2).collect();
        let found = operands.iter().zip(0..).map(|(&tensor, place)| self.trace_operand(tensor, place));
        let traced: Vec<GatheredOperand> = found.flatten().collect();
        let widened = traced.iter().find(|operand| operand.broadcast.is_some());
        widened.or_else(|| traced.first()).copied()
    }

    /// The transposes that make operands of a GEMM.
    pub(super) fn transposes_of(&self, op: &Op) -> Vec<OpId> {
        op.input_tensors().filter_map(|tensor| self.transposes.get(&tensor).copied()).collect()
    }

    fn trace_operand(&self, tensor: TensorId, place: usize) -> Option<GatheredOperand> {
        let permute = self.transposes.get(&tensor).copied();
        let before = permute.and_then(|id| self.program.op(id).input_tensors().next());
        let widened = before.filter(|inner| self.broadcasts.contains_key(inner)).unwrap_or(tensor);
        let broadcast = self.broadcasts.get(&widened).copied();
        let source = match broadcast {
            Some(made) => self.program.op(made).input_tensors().next()?,
            None => tensor,
        };
        let first = stored_domains(self.program, source).into_iter().next()?;
        let permute = permute.filter(|_| broadcast.is_some());
        first.parallel.is_device().then_some(GatheredOperand { place, source, broadcast, permute })
    }
}

/// True for a permutation that exchanges the last two of four axes.
fn is_transpose(op: &Op) -> bool {
    matches!(op.attr(AttrKey::Perm), Some(AttrValue::Ints(order)) if order.as_ref() == [0, 1, 3, 2])
}

/// The axes of a GEMM, which determine the forms of its operands.
pub(super) struct RowGemmAxes<'a> {
    /// The axes of the gathered operand, `[device, m, k]`.
    pub(super) rows: &'a [IterDomain],
    /// Those of the operand that is gathered.
    pub(super) factor: &'a [IterDomain],
    /// Those of the result.
    pub(super) made: &'a [IterDomain],
    /// The number of devices, and of parts.
    pub(super) ranks: u32,
}

impl RowGemmAxes<'_> {
    /// True for `[device, part, m, n]`, false for `[part, m, n]`.
    pub(super) fn has_device_axis(&self, program: &Program, widened: bool) -> Result<bool, &'static str> {
        let device = self.rows[0].parallel;
        if !widened {
            let plain = self.made.len() == 3 && is_local(self.made) && self.is_part_axis(program, &self.made[0]);
            return plain.then_some(false).ok_or("it is not `[device, m, k]` and `[k, n]` to `[part, m, n]`");
        }
        let one = is_widened(self.factor, device);
        let batched = is_sharded_first(self.made, device) && self.is_part_axis(program, &self.made[1]);
        (one && batched)
            .then_some(true)
            .ok_or("it is not `[1, device, m, k]` and `[device, 1, k, n]` to `[device, part, m, n]`")
    }

    /// The form in which the GEMM of one part takes another operand.
    pub(super) fn classify(&self, program: &Program, tensor: TensorId, sharded: bool) -> Option<PartOperand> {
        let domains = stored_domains(program, tensor);
        if domains.len() <= 2 && is_local(&domains) {
            return Some(PartOperand::Whole(tensor));
        }
        let local = if sharded {
            domains.split_first().filter(|_| is_sharded_first(&domains, self.rows[0].parallel))?.1
        } else {
            domains.as_slice()
        };
        match local {
            [one, _, _] if sharded && has_one_element(program, one) => Some(PartOperand::Columns(tensor)),
            [parts, _, _] if self.is_part_axis(program, parts) && is_local(local) => Some(PartOperand::Part(tensor)),
            _ => None,
        }
    }

    /// The scales of a GEMM's rows in gathered form, `[device, m, 1]`, if they are sharded like the rows.
    pub(super) fn row_scales(
        &self,
        origins: &OperandOrigins<'_>,
        scales: TensorId,
        widened: bool,
    ) -> Option<GatheredScales> {
        let broadcast = origins.broadcasts.get(&scales).copied();
        let program = origins.program;
        let source = broadcast.map_or(Some(scales), |made| program.op(made).input_tensors().next())?;
        let (domains, device) = (stored_domains(program, source), self.rows[0].parallel);
        let alike = domains.len() == 3 && domains[0].parallel == device && is_local(&domains[1..]);
        let made = stored_domains(program, scales);
        let fits = if widened { is_widened(&made, device) } else { broadcast.is_none() };
        (alike && fits).then_some(GatheredScales { source, broadcast })
    }

    /// True if an axis counts the devices' parts.
    pub(super) fn is_part_axis(&self, program: &Program, axis: &IterDomain) -> bool {
        let literal = program.exprs().as_int(axis.extent) == Some(i64::from(self.ranks));
        !axis.parallel.is_device() && (literal || axis.extent == self.rows[0].extent)
    }
}

pub(super) fn is_local(domains: &[IterDomain]) -> bool {
    domains.iter().all(|domain| !domain.parallel.is_device())
}

/// True if four axes are those of a broadcast to `[1, device, ..]`.
fn is_widened(domains: &[IterDomain], device: ParallelType) -> bool {
    domains.len() == 4 && domains[0].is_broadcast() && domains[1].parallel == device
}

/// True if the first of four axes is sharded over devices, and no other.
fn is_sharded_first(domains: &[IterDomain], device: ParallelType) -> bool {
    domains.len() == 4 && domains[0].parallel == device && is_local(&domains[1..])
}
