//! Functions and methods of NumPy and PyTorch that are ops of other names or forms here: the statement, with the
//! operands and axes of the call.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, is_name};
use super::tensor_call::{TensorCall, axis_number, is_list, is_slice, list_items};
use super::tensor_reductions::{mean_steps, reduction_steps, softmax_steps};
use crate::hir2::ast::{ArgNode, ExprNode, FileSyntax};
use crate::hir2::element_types::element_type;

/// The statement here, the lines above it, and one sentence.
pub(super) struct Meant {
    pub(super) above: Vec<String>,
    pub(super) statement: String,
    pub(super) message: &'static str,
}

impl Meant {
    fn one(statement: String, message: &'static str) -> Self {
        Self { above: Vec::new(), statement, message }
    }
}

/// The rewriting of one kind of calls; `None` for those of another form.
type Rewriting = fn(&TensorCall<'_>, &LineContext<'_>) -> Option<Meant>;

/// The kinds of calls: the words of their functions, and what they are here.
const FUNCTIONS: &[(&[&str], Rewriting)] = &[
    (&["transpose", "swapaxes", "swapdims", "t", "permute"], permuted_axes),
    (&["unsqueeze", "expand_dims", "newaxis"], new_axis),
    (&["squeeze"], removed_axis),
    (&["mm", "bmm", "dot", "matmul"], matmul_call),
    (&["add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide"], operator_call),
    (&["to", "type", "astype", "cast", "float", "double", "half", "bfloat16", "long", "int"], converted_operand),
    (&["clone", "contiguous", "detach", "copy"], copied_operand),
    (&["cat", "concat", "concatenate"], joined_tensors),
    (&["view", "reshape", "flatten", "ravel"], other_shape),
    (&["ones", "full", "ones_like", "full_like"], filled_tensor),
    (&["arange"], counted_numbers),
    (&["square"], squared_operand),
    (&["narrow"], narrowed_part),
    (&["masked_fill", "clamp_min", "clamp_max"], chosen_elements),
    (&["clamp", "clip"], bounded_elements),
    (&["pad"], padded_tensor),
    (&["gather", "take_along_dim", "take_along_axis"], gathered_elements),
    (&["repeat", "tile"], repeated_tensor),
    (&["index_select"], selected_slices),
    (&["cumsum", "cumprod"], running_results),
    (&["sum", "prod", "amax", "amin", "max", "min"], reduction_steps),
    (&["mean"], mean_steps),
    (&["softmax"], softmax_steps),
];

/// Functions that are ops here too: only calls in another form are looked at.
const OPS: &[&str] = &[
    "squeeze", "matmul", "cat", "view", "reshape", "full", "repeat", "permute", "max", "min", "clamp", "pad", "gather",
];

/// Names that an op of another crate may have: only calls with a module, methods, and lines with errors are looked at.
const POSSIBLE_OPS: &[&str] = &[
    "t",
    "dot",
    "add",
    "sub",
    "subtract",
    "mul",
    "multiply",
    "div",
    "divide",
    "true_divide",
    "copy",
    "flatten",
    "ravel",
    "square",
    "narrow",
    "masked_fill",
    "clamp_min",
    "clamp_max",
    "clip",
    "tile",
    "index_select",
    "take_along_dim",
    "take_along_axis",
    "cumsum",
    "cumprod",
    "sum",
    "prod",
    "amax",
    "amin",
    "mean",
    "softmax",
];

/// Types whose names are functions there.
const CONVERSIONS: &[(&str, &str)] =
    &[("float", "f32"), ("double", "f64"), ("half", "f16"), ("bfloat16", "bf16"), ("long", "i64"), ("int", "i32")];

/// Operators with a function's name.
const OPERATORS: &[(&str, &str)] = &[
    ("add", "+"),
    ("sub", "-"),
    ("subtract", "-"),
    ("mul", "*"),
    ("multiply", "*"),
    ("div", "/"),
    ("divide", "/"),
    ("true_divide", "/"),
];

/// Keys of an axis.
pub(super) const AXIS_KEYS: &[&str] = &["dim", "axis"];

/// `C = torch.transpose(A, 0, 1)`, `C = P.to(torch.float32)`.
pub(super) fn tensor_function(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    let call = TensorCall::of_line(line)?;
    let (_, rewriting) = FUNCTIONS.iter().find(|(words, _)| words.contains(&call.function))?;
    let meant = rewriting(&call, context)?;
    let rewritten = Habit::rewrite_line(call.place.clone(), meant.statement, meant.message);
    (rewritten.meant != line.code).then_some(Habit { above: meant.above, ..rewritten })
}

/// True for a name whose last word is that of one of these.
pub(super) fn is_function_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    FUNCTIONS.iter().any(|(words, _)| words.contains(&last))
}

/// True for a call that is one of these, although the parser reads it.
pub(super) fn is_tensor_function(file: &FileSyntax, name: &str, args: &[ArgNode]) -> bool {
    let is_plain = !name.contains('.');
    if !is_function_name(name) || is_plain && POSSIBLE_OPS.contains(&name) {
        return false;
    }
    let has_list = args.iter().any(|arg| matches!(file.expr(arg.value), ExprNode::List(_)));
    let has_transfer = args.iter().any(|arg| matches!(file.expr(arg.value), ExprNode::Arrow(..)));
    let is_op = OPS.contains(&name);
    let is_other_form = match name {
        "max" | "min" => args.len() == 1 || args.iter().any(|arg| arg.key.is_some()),
        "cat" => has_list,
        "view" | "reshape" | "repeat" => args.len() > 1,
        "permute" => !has_transfer,
        "gather" => !has_transfer && args.len() > 2,
        "clamp" => args.iter().any(|arg| arg.key.is_some()),
        "squeeze" => {
            args.iter().any(|arg| arg.key.is_none_or(|key| file.strings.get(key.name) != "flags")) && args.len() > 1
        }
        _ => false,
    };
    !is_op || is_other_form
}

/// `transpose(A, 0, 1)`, `A.permute(0, 2, 1)`, `A.t()`.
fn permuted_axes(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let given = call.list_after_operand(&["dims", "axes", "dim0"]);
    let declared = context.type_of(operand).map(|ty| ty.axes.len());
    let largest = given.iter().filter_map(|axis| axis.parse::<usize>().ok()).max().map_or(2, |last| last + 1);
    let is_whole =
        matches!(call.function, "permute") || given.len() > 2 || call.operands.get(1).is_some_and(|arg| is_list(arg));
    let rank = declared.unwrap_or(if is_whole { given.len() } else { largest.max(2) });
    let axes: Option<Vec<usize>> = given.iter().map(|axis| axis_number(axis, rank)).collect();
    let mut order: Vec<usize> = (0..rank).collect();
    match axes?.as_slice() {
        [] => order.reverse(),
        all if is_whole && all.len() == rank => order = all.to_vec(),
        [first, second] if !is_whole => order.swap(*first, *second),
        _ => return None,
    }
    let statement = format!("{} = Set.Permute({operand}, perm={order:?})", call.target);
    Some(Meant::one(statement, "axes are exchanged by `Set.Permute`"))
}

/// `unsqueeze(A, 1)`.
fn new_axis(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let rank = context.type_of(operand)?.axes.len() + 1;
    let axis = call.axis(AXIS_KEYS, 1, rank)?;
    let flags: Vec<String> = (0..rank).map(|at| (at == axis).to_string()).collect();
    let statement = format!("{} = broadcast({operand}, flags=[{}])", call.target, flags.join(", "));
    Some(Meant::one(statement, "a new axis is made by `broadcast`, whose flags are true for it"))
}

/// `A.squeeze(1)`.
fn removed_axis(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let rank = context.type_of(operand)?.axes.len();
    let axis = call.axis(AXIS_KEYS, 1, rank)?;
    let flags: Vec<String> = (0..rank).map(|at| (at == axis).to_string()).collect();
    let statement = format!("{} = squeeze({operand}, flags=[{}])", call.target, flags.join(", "));
    Some(Meant::one(statement, "the axes that `squeeze` removes have true flags"))
}

/// `mm(A, B)`, `A.matmul(B)`.
fn matmul_call(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let [first, second] = call.operands[..] else { return None };
    (is_slice(first) && is_slice(second)).then_some(())?;
    let statement = format!("{} = matmul({first}, {second})", call.target);
    Some(Meant::one(statement, "products of matrices are written `matmul(A, B)`"))
}

/// `torch.add(A, B)`, `A.mul(2.0)`.
fn operator_call(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let [first, second] = call.operands[..] else { return None };
    let (_, sign) = OPERATORS.iter().find(|(word, _)| *word == call.function)?;
    let statement = format!("{} = {first} {sign} {second}", call.target);
    call.keyed.is_empty().then(|| Meant::one(statement, "sums, differences, products and quotients are operators"))
}

/// `A.to(torch.float16)`, `A.half()`, `cast(A, f16)`.
fn converted_operand(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let own = CONVERSIONS.iter().find(|(word, _)| *word == call.function).map(|(_, here)| *here);
    let ty = match own {
        Some(here) => here,
        None => {
            let word = call.argument(&["dtype"], 1)?;
            let word = word.rsplit_once('.').map_or(word, |(_, last)| last).trim_matches(['"', '\'']);
            element_type(word)?
        }
    };
    Some(Meant::one(format!("{} = {ty}({operand})", call.target), "a conversion is called like the element type"))
}

/// `A.clone()`.
fn copied_operand(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let [operand] = call.operands[..] else { return None };
    is_slice(operand).then(|| Meant::one(format!("{} = Set({operand})", call.target), "a copy is written `Set`"))
}

/// `torch.cat([A, B], dim=0)`.
fn joined_tensors(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let list = call.operands.first().copied().filter(|list| is_list(list))?;
    let parts = list_items(list);
    let axis = call.argument(AXIS_KEYS, 1).unwrap_or("0");
    let types: Option<Vec<_>> = parts.iter().map(|part| context.type_of(part)).collect();
    let target = match types {
        Some(types) => {
            let first = types.first()?;
            let along = axis_number(axis, first.axes.len())?;
            let mut axes: Vec<String> = first.axes.clone();
            let extents: Option<Vec<&str>> = types.iter().map(|ty| ty.axes.get(along).map(String::as_str)).collect();
            axes[along] = extents?.join(" + ");
            call.typed_target(context, &first.dtype, &axes)
        }
        None => call.target.to_owned(),
    };
    let statement = format!("{target} = cat({}, {axis})", parts.join(", "));
    parts.iter().all(|part| is_slice(part)).then(|| {
        Meant::one(
            statement,
            "tensors are joined by `cat`: its operands are arguments of their own, and the axis is the last",
        )
    })
}

/// `A.view(m, 1)`, `reshape(A, [n * m, k])`.
fn other_shape(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let declared = context.type_of(operand);
    let mut axes: Vec<String> = call.list_after_operand(&["shape", "size"]).into_iter().map(str::to_owned).collect();
    if axes.is_empty() || axes == ["-1"] {
        axes = vec![declared.as_ref()?.axes.join(" * ")];
    }
    let is_open = axes.iter().any(|axis| axis == "-1");
    let dtype = declared.as_ref().map_or("f32", |ty| ty.dtype.as_str());
    let target = call.typed_target(context, dtype, &axes);
    (!is_open || target == call.target).then(|| {
        Meant::one(
            format!("{target} = view({operand})"),
            "another shape is written `view`, whose extents are those of the result's type",
        )
    })
}

/// `torch.ones(m, n)`, `full((m, n), 2.0)`, `ones_like(A)`.
fn filled_tensor(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let is_like = call.function.ends_with("_like");
    let is_full = call.function.starts_with("full");
    let first = call.operands.first().copied()?;
    let (like, axes) = match is_like {
        true => {
            let like = context.type_of(first)?;
            (Some(like.dtype), like.axes)
        }
        false if is_list(first) => (None, list_items(first).into_iter().map(str::to_owned).collect::<Vec<_>>()),
        false if is_full => return None,
        false => (None, call.operands.iter().map(|axis| (*axis).to_owned()).collect()),
    };
    let value = if is_full { call.argument(&["fill_value", "value"], 1)? } else { "1" };
    let dtype = result_dtype(call, context).or(like).unwrap_or_else(|| "f32".to_owned());
    let value = if value.contains('(') { value.to_owned() } else { format!("{dtype}({value})") };
    let target = call.typed_target(context, &dtype, &axes);
    let statement = format!("{target} = full([{}], {value})", axes.join(", "));
    Some(Meant::one(statement, "a tensor of one value is written `full`"))
}

/// The element type of the result: that of the left side, or of `dtype=`.
fn result_dtype(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<String> {
    let written = call.target.split_once(':').and_then(|(_, ty)| ty.split_once('[')).map(|(dtype, _)| dtype.trim());
    let keyed = call.argument(&["dtype"], usize::MAX).map(|word| word.rsplit('.').next().unwrap_or(word));
    let declared = context.type_of(call.target).map(|ty| ty.dtype);
    let found = declared.or_else(|| written.map(str::to_owned));
    found.or_else(|| keyed.and_then(element_type).map(str::to_owned))
}

/// `torch.arange(m)`.
fn counted_numbers(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let (count, start) = match call.operands[..] {
        [count] => (count.to_owned(), "0"),
        ["0", count] => (count.to_owned(), "0"),
        [start, end] if is_name(start) || start.parse::<i64>().is_ok() => (format!("{end} - {start}"), start),
        _ => return None,
    };
    let dtype = result_dtype(call, context).unwrap_or_else(|| "i64".to_owned());
    let target = call.typed_target(context, &dtype, std::slice::from_ref(&count));
    let statement = format!("{target} = iota({count}, {start}, 1, {dtype})");
    Some(Meant::one(statement, "numbers that count up are written `iota`: their count, the first, the step, the type"))
}

/// `square(A)`.
fn squared_operand(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    Some(Meant::one(format!("{} = {operand} * {operand}", call.target), "a square is a product"))
}

/// `A.narrow(0, 2, 4)`: the axis, the first index and the number of elements.
fn narrowed_part(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let [operand, axis, start, length] = call.operands[..] else { return None };
    let ty = context.type_of(operand)?;
    let axis = axis_number(axis, ty.axes.len())?;
    let end = if start == "0" { length.to_owned() } else { format!("{start} + {length}") };
    let mut ranges: Vec<String> = ty.axes.iter().map(|extent| format!("[0, {extent}, 1]")).collect();
    ranges[axis] = format!("[{start}, {end}, 1]");
    let mut axes: Vec<String> = ty.axes.clone();
    axes[axis] = length.to_owned();
    let target = call.typed_target(context, &ty.dtype, &axes);
    let statement = format!("{target} = slice({operand}, ranges=[{}])", ranges.join(", "));
    Some(Meant::one(statement, "a part of a tensor is written `slice`, with start, end and step for each axis"))
}

/// `A.masked_fill(M, 0.0)`, `A.clamp_min(0.0)`.
fn chosen_elements(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    match (call.function, &call.operands[..]) {
        ("masked_fill", [operand, mask, value]) if is_slice(mask) => {
            let statement = format!("{} = where({mask}, {value}, {operand})", call.target);
            Some(Meant::one(
                statement,
                "elements are chosen by `where`: the condition, the value where it holds, the other one",
            ))
        }
        ("clamp_min" | "clamp_max", [operand, bound]) => {
            let function = if call.function == "clamp_min" { "max" } else { "min" };
            let statement = format!("{} = {function}({operand}, {bound})", call.target);
            Some(Meant::one(statement, "a bound is written `max` or `min`"))
        }
        _ => None,
    }
}

/// `torch.clamp(A, min=0.0)`, `A.clamp(0.0, 1.0)`.
fn bounded_elements(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let value = match (call.argument(&["min"], 1), call.argument(&["max"], 2)) {
        (Some(least), Some(most)) => format!("clamp({operand}, {least}, {most})"),
        (Some(least), None) => format!("max({operand}, {least})"),
        (None, Some(most)) => format!("min({operand}, {most})"),
        (None, None) => return None,
    };
    Some(Meant::one(format!("{} = {value}", call.target), "a bound is written `max` or `min`, and both are `clamp`"))
}

/// `F.pad(A, (0, 1))`: the widths of the last axis come first there.
fn padded_tensor(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let ty = context.type_of(operand)?;
    let given = call.argument(&["pad"], 1).filter(|list| is_list(list)).map(list_items)?;
    (given.len() % 2 == 0 && given.len() <= 2 * ty.axes.len()).then_some(())?;
    let mut widths: Vec<&str> = given.rchunks(2).flatten().copied().collect();
    let missing = 2 * ty.axes.len() - widths.len();
    widths.splice(0..0, std::iter::repeat_n("0", missing));
    let axes: Vec<String> =
        ty.axes.iter().zip(widths.chunks(2)).map(|(axis, pair)| padded_extent(axis, pair)).collect();
    let target = call.typed_target(context, &ty.dtype, &axes);
    let value = call.argument(&["value"], usize::MAX).map_or_else(String::new, |value| format!(", value={value}"));
    let statement = format!("{target} = pad({operand}, [{}]{value})", widths.join(", "));
    Some(Meant::one(statement, "`pad` has the widths before and after each axis, the first axis first"))
}

/// The extent of an axis with widths before and after it.
fn padded_extent(axis: &str, pair: &[&str]) -> String {
    match pair {
        ["0", "0"] => axis.to_owned(),
        ["0", width] | [width, "0"] => format!("{axis} + {width}"),
        pair => format!("{axis} + {}", pair.join(" + ")),
    }
}

/// `torch.gather(A, 1, I)`.
fn gathered_elements(call: &TensorCall<'_>, _: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let axis = call.argument(AXIS_KEYS, 1).filter(|axis| axis.parse::<usize>().is_ok())?;
    let index = call.argument(&["index", "indices"], 2).filter(|index| is_slice(index))?;
    let op = if call.function == "gather" { "torchGather" } else { "takeAlongAxis" };
    let statement = format!("{} = {op}({operand}, dim={axis}, {index})", call.target);
    Some(Meant::one(statement, "elements are picked along an axis by `torchGather` and `takeAlongAxis`"))
}

/// `A.repeat(2)`, `tile(A, 2)`.
fn repeated_tensor(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let counts = call.list_after_operand(&["repeats", "reps", "sizes"]);
    let ty = context.type_of(operand)?;
    (counts.len() == ty.axes.len()).then_some(())?;
    let axes: Vec<String> = counts.iter().zip(&ty.axes).map(|(count, axis)| repeated_extent(axis, count)).collect();
    let target = call.typed_target(context, &ty.dtype, &axes);
    Some(Meant::one(format!("{target} = repeat({operand})"), "`repeat` has its counts in the type of its result"))
}

fn repeated_extent(axis: &str, count: &str) -> String {
    if count == "1" { axis.to_owned() } else { format!("{count} * {axis}") }
}

/// `index_select(A, 0, I)`.
fn selected_slices(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let axis = call.argument(AXIS_KEYS, 1)?;
    let index = call.argument(&["index"], 2).filter(|index| is_slice(index))?;
    let target = match (context.type_of(operand), context.type_of(index)) {
        (Some(ty), Some(of_index)) => {
            let at = axis_number(axis, ty.axes.len())?;
            let mut axes: Vec<String> = ty.axes.clone();
            axes[at] = of_index.axes.first()?.clone();
            call.typed_target(context, &ty.dtype, &axes)
        }
        _ => call.target.to_owned(),
    };
    Some(Meant::one(
        format!("{target} = indexSelect({operand}, dim={axis}, {index})"),
        "slices are selected by `indexSelect`",
    ))
}

/// `cumsum(A, dim=0)`.
fn running_results(call: &TensorCall<'_>, context: &LineContext<'_>) -> Option<Meant> {
    let operand = call.operand()?;
    let axis = match context.type_of(operand) {
        Some(ty) => call.axis(AXIS_KEYS, 1, ty.axes.len())?.to_string(),
        None => call.argument(AXIS_KEYS, 1)?.to_owned(),
    };
    let (op, init) = if call.function == "cumsum" { ("add", "0.0") } else { ("mul", "1.0") };
    let statement = format!("{} = scan({operand}, dim={axis}, op_type={op}, init={init})", call.target);
    Some(Meant::one(statement, "running sums and products are written `scan`"))
}
