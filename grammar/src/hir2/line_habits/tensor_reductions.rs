//! Reductions of NumPy and PyTorch: sums, means and softmax along an axis.

use super::context::LineContext;
use super::declared::DeclaredType;
use super::tensor_call::{TensorCall, axis_number, is_list, list_items};
use super::tensor_functions::{AXIS_KEYS, Meant};

/// Functions, the operation here, and its first value.
const REDUCTIONS: &[(&str, &str, &str)] = &[
    ("sum", "add", "0"),
    ("mean", "add", "0"),
    ("prod", "mul", "1"),
    ("amax", "max", "-inf"),
    ("max", "max", "-inf"),
    ("amin", "min", "inf"),
    ("min", "min", "inf"),
];

/// A reduction: the operand, its type, and whether each axis is reduced.
struct Reduced<'a> {
    operand: &'a str,
    ty: DeclaredType,
    along: Vec<bool>,
    is_kept: bool,
}

impl<'a> Reduced<'a> {
    fn read(call: &TensorCall<'a>, context: &LineContext<'_>) -> Option<Self> {
        let operand = call.operand()?;
        let ty = context.type_of(operand)?;
        let rank = ty.axes.len();
        let along: Vec<bool> = match call.argument(AXIS_KEYS, 1) {
            None => vec![true; rank],
            Some(axes) => {
                let axes = if is_list(axes) { list_items(axes) } else { vec![axes] };
                let axes: Vec<usize> = axes.into_iter().map(|axis| axis_number(axis, rank)).collect::<Option<_>>()?;
                (0..rank).map(|at| axes.contains(&at)).collect()
            }
        };
        let is_kept =
            call.keyed.iter().any(|(key, value)| key.starts_with("keepdim") && matches!(*value, "True" | "true" | "1"));
        Some(Self { operand, ty, along, is_kept })
    }

    /// The statement for a name, with the type of its result.
    fn reduction_text(&self, name: &str, function: &str) -> Option<String> {
        let (_, op, init) = REDUCTIONS.iter().find(|(word, ..)| *word == function)?;
        let axes = self.ty.axes.iter().zip(&self.along).map(|(axis, along)| match along {
            true => format!("r.{}", axis.rsplit(':').next().unwrap_or(axis)),
            false => axis.clone(),
        });
        let axes: Vec<String> = axes.collect();
        let (dtype, operand) = (&self.ty.dtype, self.operand);
        Some(format!("{name}: {dtype}[{}] = reduction({operand}, op={op}, init={dtype}({init}))", axes.join(", ")))
    }

    /// The number of elements that are reduced to one.
    fn count(&self) -> String {
        let reduced = self.ty.axes.iter().zip(&self.along).filter(|(_, along)| **along);
        let extents: Vec<&str> = reduced.map(|(axis, _)| axis.rsplit(':').next().unwrap_or(axis)).collect();
        if extents.len() == 1 { extents[0].to_owned() } else { format!("({})", extents.join(" * ")) }
    }

    /// The flags of a `broadcast` that puts the reduced axes back.
    fn flags(&self) -> String {
        self.along.iter().map(bool::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// The name of a result that the statement may give a type: one that has none elsewhere.
fn own_name<'a>(call: &TensorCall<'a>, context: &LineContext<'_>) -> Option<&'a str> {
    let name = call.target.split([':', '[']).next()?.trim();
    let is_slice = call.target.contains('[') && !call.target.contains(':');
    (!is_slice && (call.target.contains(':') || !call.is_declared(context))).then_some(name)
}

/// `S = A.sum(dim=1)`, `S = torch.max(A, 0)`.
pub(super) fn reduction_steps(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let reduced = Reduced::read(call, context)?;
    let message = "reductions are an op, and the reduced axes are marked in the type of the result";
    if let Some(name) = own_name(call, context).filter(|_| !reduced.is_kept) {
        return Some(Meant { above: Vec::new(), statement: reduced.reduction_text(name, call.function)?, message });
    }
    let name = context.unused_name(call.target);
    let above = vec![reduced.reduction_text(&name, call.function)?];
    let statement = match reduced.is_kept {
        true => format!("{} = broadcast({name}, flags=[{}])", call.target, reduced.flags()),
        false => format!("{} = Set({name})", call.target),
    };
    Some(Meant { above, statement, message })
}

/// `M = A.mean(0)`.
pub(super) fn mean_steps(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let reduced = Reduced::read(call, context).filter(|reduced| !reduced.is_kept)?;
    let name = context.unused_name(call.target);
    let above = vec![reduced.reduction_text(&name, call.function)?];
    let target = match call.target.split_once(':') {
        Some((name, _)) => name,
        None => call.target,
    };
    let statement = format!("{target} = {name} / {}", reduced.count());
    Some(Meant { above, statement, message: "a mean is a sum and a division" })
}

/// `P = softmax(S, dim=-1)`.
pub(super) fn softmax_steps(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let reduced = Reduced::read(call, context).filter(|reduced| reduced.along.contains(&false))?;
    let names = context.unused_names(call.target, 6);
    let [top, top_back, shifted, powers, sum, sum_back] = names.as_slice() else { return None };
    let of_powers = Reduced { operand: powers, ty: reduced.ty.clone(), along: reduced.along.clone(), is_kept: false };
    let flags = reduced.flags();
    let above = vec![
        reduced.reduction_text(top, "max")?,
        format!("{top_back} = broadcast({top}, flags=[{flags}])"),
        format!("{shifted} = {} - {top_back}", reduced.operand),
        format!("{powers} = exp({shifted})"),
        of_powers.reduction_text(sum, "sum")?,
        format!("{sum_back} = broadcast({sum}, flags=[{flags}])"),
    ];
    let statement = format!("{} = {powers} / {sum_back}", call.target);
    Some(Meant { above, statement, message: "there is no softmax: it is a maximum, powers, a sum and a quotient" })
}
