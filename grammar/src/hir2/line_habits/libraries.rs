//! Calls of NumPy, PyTorch, Triton and CUDA that are no communications: the statement here.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, is_name, split_items};
use crate::hir2::control::counted_loop;
use crate::hir2::element_types::element_type;

/// Modules whose functions have the same arguments here.
const MODULES: &[&str] =
    &["torch", "np", "numpy", "jnp", "jax.numpy", "F", "tl", "tl.math", "torch.nn.functional", "math", "std"];

/// Functions of those modules, and the function here.
const FUNCTIONS: &[(&str, &str)] = &[
    ("where", "where"),
    ("select", "where"),
    ("relu", "relu"),
    ("exp", "exp"),
    ("log", "log"),
    ("sqrt", "sqrt"),
    ("rsqrt", "rsqrt"),
    ("tanh", "tanh"),
    ("sigmoid", "sigmoid"),
    ("sin", "sin"),
    ("cos", "cos"),
    ("abs", "abs"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("max", "max"),
    ("min", "min"),
    ("pow", "pow"),
    ("matmul", "matmul"),
    ("mm", "matmul"),
    ("bmm", "matmul"),
    ("dot", "matmul"),
    ("linear", "linear"),
    ("erf", "erf"),
    ("reciprocal", "reciprocal"),
];

/// Copies: the place of the target, and that of the source.
const COPIES: &[(&str, usize, usize)] = &[
    ("cudaMemcpy", 0, 1),
    ("cudaMemcpyAsync", 0, 1),
    ("cudaMemcpyPeer", 0, 2),
    ("memcpy", 0, 1),
    ("std::memcpy", 0, 1),
    ("np.copyto", 0, 1),
    ("numpy.copyto", 0, 1),
];

/// Waits for the work of a stream, whose stream is the first argument.
const SYNCHRONIZERS: &[&str] = &["cudaStreamSynchronize", "hipStreamSynchronize"];

/// Releases of memory.
const RELEASES: &[&str] = &["cudaFree", "cudaFreeAsync", "free", "ncclMemFree", "delete"];

/// A call that is a whole statement: its name and its arguments.
struct LoneCall<'a> {
    name: &'a str,
    items: Vec<&'a str>,
}

impl<'a> LoneCall<'a> {
    fn of_line(line: &CodeLine<'a>) -> Option<Self> {
        let open = line.find_outside("(").filter(|&open| open > 0)?;
        let close = line.closing(open).filter(|&close| matches!(line.piece_text(close + 1), "" | ";"))?;
        let name = line.span_text(0, open - 1);
        let is_called = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:".contains(&byte));
        is_called.then(|| Self { name, items: split_items(line.between(open, close)) })
    }
}

/// Methods that are statements or functions here.
const METHODS: &[&str] = &["wait", "copy_", "transpose", "permute", "t", "zeros_like", "empty_like"];

/// True for the name of a call that is one of these, although the parser reads it.
pub(super) fn is_foreign_name(name: &str) -> bool {
    let is_method =
        name.rsplit_once('.').is_some_and(|(owner, method)| METHODS.contains(&method) || MODULES.contains(&owner));
    let is_copy = COPIES.iter().any(|(known, ..)| *known == name);
    is_method || is_copy || SYNCHRONIZERS.contains(&name) || RELEASES.contains(&name)
}

/// `jnp.where(M, P, 0.0)`.
pub(super) fn module_function(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let (open, first, function) = (2..line.pieces.len()).find_map(|open| {
        let mut first = open.checked_sub(1)?;
        while first >= 2 && matches!(line.piece_text(first - 1), ".") && line.is_name(first - 2) {
            first -= 2;
        }
        let (module, name) = line.span_text(first, open - 1).rsplit_once('.')?;
        let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
        (line.piece_text(open) == "(" && MODULES.contains(&module)).then_some((open, first, *function))
    })?;
    let arguments = split_items(line.between(open, line.closing(open)?));
    // Of one operand they are reductions.
    let is_reduction = ["max", "min"].contains(&function) && arguments.len() == 1;
    let is_plain = arguments.iter().all(|item| !item.contains('=') || item.contains("==")) && !is_reduction;
    let place = line.pieces[first].place.start..line.pieces[open - 1].place.end;
    let message = format!("functions have no module: `{}` is `{function}` here", &line.code[place.clone()]);
    is_plain.then(|| Habit::replace_part(line, place, function, message))
}

/// `cudaMemcpy(Y, X, n, kind)`, `Y.copy_(X)`.
pub(super) fn copy_call(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let call = LoneCall::of_line(line);
    let copy = call.as_ref().and_then(|call| {
        let (_, target, source) = COPIES.iter().find(|(known, ..)| *known == call.name)?;
        Some((*call.items.get(*target)?, *call.items.get(*source)?))
    });
    let (target, source) = match copy {
        Some(found) => found,
        None => {
            let (target, rest) = line.code.trim_end_matches(';').split_once(".copy_(")?;
            (target, split_items(rest.strip_suffix(')')?).first().copied()?)
        }
    };
    let shown = 0..call.map_or(target.len(), |call| call.name.len());
    let [target, source] = [target, source].map(|side| side.trim_start_matches('&'));
    Some(Habit::rewrite_line(shown, format!("{target} = Set({source})"), "a copy is written `Set`"))
}

/// `cudaStreamSynchronize(1)`, `cudaFree(X)`.
pub(super) fn runtime_call(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let call = LoneCall::of_line(line)?;
    let [operand, ..] = call.items[..] else { return None };
    let shown = 0..call.name.len();
    if SYNCHRONIZERS.contains(&call.name) {
        let message = "a stream waits for the work of another one by `sync`";
        return Some(Habit::rewrite_line(shown, format!("sync {operand}"), message));
    }
    let is_release = RELEASES.contains(&call.name) && is_name(operand);
    is_release.then(|| Habit::rewrite_line(shown, format!("free {operand}"), "memory is given back by `free`"))
}

/// `launch "k.cu"::scale<<<grid, block, 0, stream>>>(..)`.
pub(super) fn launch_brackets(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let open = line.code.find("<<<").filter(|_| line.piece_text(0) == "launch" && line.code.contains("\"::"))?;
    let close = open + line.code[open..].find(">>>")?;
    let sizes: Vec<String> = split_items(&line.code[open + "<<<".len()..close])
        .into_iter()
        .map(|size| size.strip_prefix("dim3").unwrap_or(size).trim_start().to_owned())
        .collect();
    let sizes: Vec<&str> = match sizes.as_slice() {
        [grid, block, rest @ ..] if rest.len() < 2 || rest[1] == "0" => {
            [grid, block].into_iter().chain(rest.first().filter(|size| *size != "0")).map(String::as_str).collect()
        }
        _ => return None,
    };
    let place = open..close + ">>>".len();
    let message = "a launch has its grid and its block in square brackets, not in `<<<` and `>>>`";
    Some(Habit::replace_part(line, place, &format!("[{}]", sizes.join(", ")), message))
}

/// `tl.store(Y[i], X)`.
pub(super) fn triton_store(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let call = LoneCall::of_line(line).filter(|call| call.name == "tl.store")?;
    let [target, value, ..] = call.items[..] else { return None };
    let message = "a tensor is written by an assignment";
    Some(Habit::rewrite_line(0..call.name.len(), format!("{target} = {value}"), message))
}

/// `h[i].wait()`.
pub(super) fn wait_method(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let handle = line.code.trim_end_matches(';').trim_end().strip_suffix(".wait()")?;
    let is_handle = is_name(handle.split('[').next().unwrap_or_default());
    let shown = handle.len()..handle.len() + ".wait()".len();
    is_handle.then(|| Habit::rewrite_line(shown, format!("wait {handle}"), "`wait` stands in front of its handle"))
}

/// `float *G = malloc(p * m * sizeof(float))`, `auto G = new float[n]`.
pub(super) fn pointer_declaration(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let ty = element_type(line.piece_text(0))?;
    let name = line.piece_text(2);
    let equals = line.find_outside("=").filter(|&at| at == 3)?;
    if line.piece_text(1) != "*" || !is_name(name) {
        return None;
    }
    let value = line.code[line.pieces[equals].place.end..].trim().trim_end_matches(';').trim_end();
    let value = value.rfind("alloc(").map_or(value, |at| &value[at..]);
    let (count, is_zero) = match (value.strip_prefix("alloc("), value.strip_prefix("new ")) {
        (Some(rest), _) => (rest.strip_suffix(')')?, line.code.contains("calloc")),
        (None, Some(rest)) => (rest.split_once('[')?.1.strip_suffix(']')?, false),
        (None, None) => return None,
    };
    let factors = count.split(['*', ',']).map(str::trim).filter(|factor| !factor.starts_with("sizeof"));
    let axes: Vec<&str> = factors.collect();
    let are_plain = axes.iter().all(|axis| is_name(axis) || axis.bytes().all(|byte| byte.is_ascii_digit()));
    let argument = if is_zero { "(zero)" } else { "" };
    let message = "tensors have their types after their names, and there are no pointers";
    (are_plain && !axes.is_empty()).then(|| {
        let meant = format!("{name}: {ty}[{}] = alloc{argument}", axes.join(", "));
        Habit::rewrite_line(0..line.pieces[2].place.end, meant, message)
    })
}

/// `return X + S`, where the program has one output that nothing writes.
pub(super) fn returned_value(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    if line.piece_text(0) != "return" {
        return None;
    }
    let value = line.code["return".len()..].trim().trim_end_matches(';').trim_end();
    let values = split_items(value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(value));
    let outputs = context.outputs();
    if value.is_empty() || outputs.is_empty() || values.iter().any(|value| outputs.contains(value)) {
        return None;
    }
    let (outputs, values) = match outputs.len() == values.len() {
        true => (outputs, values),
        false if outputs.len() == 1 => (outputs, vec![value]),
        false => return None,
    };
    if outputs.iter().any(|output| context.is_written(output)) {
        return None;
    }
    let lines: Vec<String> =
        outputs.iter().zip(values).map(|(output, value)| format!("{output} = {}", copied_value(value))).collect();
    let message = "outputs stand in the header, after `->`, and are written by name";
    Some(Habit::rewrite_line(0.."return".len(), lines.join("\n"), message))
}

/// The operation with the value of a name or slice: a copy.
fn copied_value(value: &str) -> String {
    let is_operation = CodeLine::new(value)
        .pieces
        .iter()
        .any(|piece| piece.depth == 0 && matches!(&value[piece.place.clone()], "+" | "-" | "*" | "/" | "(" | "@"));
    if is_operation { value.to_owned() } else { format!("Set({value})") }
}

/// `P = [f(A[j]) for j in range(p)]`, where `P` is declared.
pub(super) fn comprehension(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    let equals = line.find_outside("=")?;
    let target = line.code[..line.pieces[equals].place.start].trim();
    let open = (equals + 1..line.pieces.len()).find(|&at| line.piece_text(at) == "[")?;
    let close = line.closing(open).filter(|&close| matches!(line.piece_text(close + 1), "" | ";" | ")"))?;
    let mut inner = open + 1..close;
    let word =
        inner.find(|&at| line.piece_text(at) == "for" && line.pieces[at].depth == line.pieces[open].depth + 1)?;
    let (index, range) = line.between(word, close).split_once(" in ")?;
    let value = line.between(open, word);
    let range = range.strip_prefix("range(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(range);
    let is_known = is_name(index) && is_name(target) && !range.contains([',', ' ']) && context.is_declared(target);
    let message = "there are no lists of tensors: a loop writes the slices of one tensor";
    is_known.then(|| {
        let place = line.pieces[word].place.clone();
        Habit::rewrite_line(place, format!("for {index} in {range}: {target}[{index}] = {value}"), message)
    })
}

/// `for (int i = 0; i < n; i++)`, `if (c)` with braces or without a colon.
pub(super) fn loop_of_c(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if line.piece_text(0) != "for" || line.piece_text(1) != "(" {
        return None;
    }
    let close = line.closing(1)?;
    let meant = counted_loop(line.between(1, close))?;
    let rest = line.code[line.pieces[close].place.end..].trim().trim_end_matches(['{', ':', ';']).trim();
    let rest = if rest.is_empty() { String::new() } else { format!(" {rest}") };
    let shown = line.pieces[1].place.start..line.pieces[close].place.end;
    Some(Habit::rewrite_line(shown, format!("{meant}:{rest}"), "a loop names its index and its range"))
}
