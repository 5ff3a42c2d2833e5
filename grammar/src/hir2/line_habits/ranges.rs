//! Ranges in indices, as NumPy has them: `slice` with the extents that the text declares.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, has_word, split_items};

/// A tensor as the text declares it.
struct DeclaredTensor {
    dtype: String,
    extents: Vec<String>,
}

/// `V[0:2]`: a statement of its own in front of this one, or this one.
pub(super) fn range_of_tensor(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    let text = context.text;
    let open = (1..line.pieces.len()).find(|&at| {
        let close = line.closing(at);
        let has_range = |close| {
            (at + 1..close)
                .any(|inside| line.piece_text(inside) == ":" && line.pieces[inside].depth == line.pieces[at].depth + 1)
        };
        line.piece_text(at) == "["
            && line.is_name(at - 1)
            && close.is_some_and(has_range)
            && is_range(line.between(at, close.unwrap_or(at)))
    })?;
    let close = line.closing(open)?;
    let equals = line.find_outside("=").filter(|equals| *equals < open)?;
    let name = line.piece_text(open - 1);
    let tensor = declared_tensor(text, name)?;
    let call = slice_call(name, &split_items(line.between(open, close)), &tensor)?;
    let place = line.pieces[open - 1].place.start..line.pieces[close].place.end;
    let shown = line.pieces[open].place.start..place.end;
    let message = "an index is one number, not a range: a range is an op, `slice`";
    let target = line.code[..line.pieces[equals].place.start].trim();
    let is_whole = line.code[line.pieces[equals].place.end..].trim().trim_end_matches(';') == &line.code[place.clone()];
    let target_name = target.split(':').next().unwrap_or_default();
    if is_whole && !target_name.contains(['[', ',']) {
        let is_declared = target.contains(':') || typed_tensor(text, target).is_some();
        let declared = if is_declared { target.to_owned() } else { format!("{target}: {}", call.ty) };
        return Some(Habit::rewrite_line(shown, format!("{declared} = {}", call.text), message));
    }
    let free = context.unused_name(line.code);
    let rest = Habit::replace_part(line, place, &free, message);
    Some(Habit { place: shown, above: vec![format!("{free}: {} = {}", call.ty, call.text)], ..rest })
}

/// True for an index with a range in it, `0:2` or `1:`; `:` alone is one of the language.
fn is_range(index: &str) -> bool {
    split_items(index).iter().any(|item| item.contains(':') && *item != ":")
}

/// A call of `slice` and the type of its result.
struct SliceCall {
    text: String,
    ty: String,
}

/// The call for an index: numbers select a slice first, ranges are those of the axes that are left.
fn slice_call(name: &str, items: &[&str], tensor: &DeclaredTensor) -> Option<SliceCall> {
    if items.len() > tensor.extents.len() {
        return None;
    }
    let selected: Vec<&str> = items.iter().map(|item| if item.contains(':') { ":" } else { item }).collect();
    let kept = selected.iter().rposition(|item| *item != ":").map_or(0, |last| last + 1);
    let operand = if kept == 0 { name.to_owned() } else { format!("{name}[{}]", selected[..kept].join(", ")) };
    let (mut ranges, mut extents) = (Vec::new(), Vec::new());
    for (at, extent) in tensor.extents.iter().enumerate() {
        let Some(item) = items.get(at).filter(|item| item.contains(':')) else {
            if at >= items.len() {
                ranges.push(format!("[0, {extent}, 1]"));
                extents.push(extent.clone());
            }
            continue;
        };
        let parts: Vec<&str> = item.split(':').map(str::trim).collect();
        let start = place_of(parts.first()?, extent, "0")?;
        let end = place_of(parts.get(1)?, extent, extent)?;
        let step = parts.get(2).copied().filter(|step| !step.is_empty()).unwrap_or("1");
        if step.starts_with('-') || parts.len() > 3 {
            return None;
        }
        extents.push(length_of(&start, &end, step)?);
        ranges.push(format!("[{start}, {end}, {step}]"));
    }
    let text = format!("slice({operand}, ranges=[{}])", ranges.join(", "));
    Some(SliceCall { text, ty: format!("{}[{}]", tensor.dtype, extents.join(", ")) })
}

/// The place of an end of a range, counted from the start; `-1` counts from the end.
fn place_of(part: &str, extent: &str, missing: &str) -> Option<String> {
    let extent_text = if extent.contains(' ') { format!("({extent})") } else { extent.to_owned() };
    match part.strip_prefix('-') {
        _ if part.is_empty() => Some(missing.to_owned()),
        Some(back) => {
            let back = back.trim();
            match (extent.parse::<i64>(), back.parse::<i64>()) {
                (Ok(extent), Ok(back)) => Some(extent.checked_sub(back)?.to_string()),
                _ => Some(format!("{extent_text} - {back}")),
            }
        }
        None => Some(part.to_owned()),
    }
}

/// The number of elements of a range.
fn length_of(start: &str, end: &str, step: &str) -> Option<String> {
    let length = match (start.parse::<i64>(), end.parse::<i64>()) {
        (Ok(start), Ok(end)) => end.checked_sub(start).filter(|length| *length >= 0)?.to_string(),
        (Ok(0), _) => end.to_owned(),
        _ if end.strip_prefix(start).is_some_and(|rest| rest.starts_with(" + ")) => end[start.len() + 3..].to_owned(),
        _ if start.contains(' ') => format!("{end} - ({start})"),
        _ => format!("{end} - {start}"),
    };
    match (step, length.parse::<i64>(), step.parse::<i64>()) {
        ("1", ..) => Some(length),
        (_, Ok(length), Ok(step)) if step > 0 => Some(((length + step - 1) / step).to_string()),
        (_, _, Ok(step)) if step > 0 => {
            let length = if length.contains([' ', '(']) { format!("({length})") } else { length };
            Some(format!("({length} + {}) / {step}", step - 1))
        }
        _ => None,
    }
}

/// The places of a name in a line of code: what stands before and after it.
fn uses_of<'t>(code: &'t str, name: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
    let places = code.match_indices(name).map(move |(at, _)| (&code[..at], code[at + name.len()..].trim_start()));
    places.filter(|(before, _)| !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// The lines of a text without comments.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or_default())
}

/// The type that a text gives a tensor.
fn typed_tensor(text: &str, name: &str) -> Option<DeclaredTensor> {
    let mut uses = code_lines(text).flat_map(|code| uses_of(code, name));
    uses.find_map(|(_, rest)| read_declared(rest.strip_prefix(':')?.trim_start()))
}

/// The declaration of a tensor in a text: its type, or that of the tensor that it is a copy or a slice of.
fn declared_tensor(text: &str, name: &str) -> Option<DeclaredTensor> {
    let mut uses = code_lines(text).flat_map(|code| uses_of(code, name));
    typed_tensor(text, name).or_else(|| {
        uses.find_map(|(before, rest)| {
            let value = rest.strip_prefix('=').filter(|value| !value.starts_with('=') && before.trim().is_empty())?;
            copied_tensor(text, value.trim(), name)
        })
    })
}

/// `f32[x:p, m]`
fn read_declared(ty: &str) -> Option<DeclaredTensor> {
    let (dtype, rest) = ty.split_once('[')?;
    let inside = rest.split(']').next()?;
    let is_word = !dtype.is_empty() && dtype.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let axes = split_items(inside).into_iter().filter(|axis| !axis.starts_with("r.") && !axis.is_empty());
    is_word.then(|| DeclaredTensor { dtype: dtype.to_owned(), extents: axes.map(str::to_owned).collect() })
}

/// The type of `X[own]`, `X` and `f(X)`, which are as long as `X` without the axes that are selected.
fn copied_tensor(text: &str, value: &str, of: &str) -> Option<DeclaredTensor> {
    let line = CodeLine::new(value);
    let is_call = line.piece_text(1) == "("
        && line.is_name(0)
        && !matches!(line.piece_text(0), "matmul" | "linear" | "reduction" | "alloc");
    let first = if is_call { 2 } else { 0 };
    let name = line.piece_text(first);
    if !line.is_name(first) || name == of || has_word(value, of) {
        return None;
    }
    let mut tensor = declared_tensor(text, name)?;
    let end = match line.piece_text(first + 1) {
        "[" => {
            let close = line.closing(first + 1)?;
            let items = split_items(line.between(first + 1, close));
            let mut at = 0;
            tensor.extents.retain(|_| {
                at += 1;
                items.get(at - 1).is_none_or(|item| *item == ":")
            });
            close + 1
        }
        _ => first + 1,
    };
    let is_plain = if is_call {
        line.piece_text(end) == ")" && line.piece_text(end + 1).is_empty()
    } else {
        line.piece_text(end).is_empty()
    };
    // A slice of a range keeps axes over devices, which are no extents.
    let has_devices = tensor.extents.iter().any(|extent| extent.contains(':'));
    (is_plain && !has_devices).then_some(tensor)
}
