//! Ranges in indices, as NumPy has them: `slice` with the extents that the text declares.

use super::context::LineContext;
use super::declared::{DeclaredType, typed_tensor};
use super::habit::Habit;
use super::line::{CodeLine, is_name, split_items};

/// `V[0:2]`: a statement of its own in front of this one, or this one.
pub(super) fn range_of_tensor(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
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
    let tensor = context.type_of(name)?;
    let call = slice_call(name, &split_items(line.between(open, close)), &tensor)?;
    let place = line.pieces[open - 1].place.start..line.pieces[close].place.end;
    let shown = line.pieces[open].place.start..place.end;
    let message = "an index is one number, not a range: a range is an op, `slice`";
    let target = line.code[..line.pieces[equals].place.start].trim();
    let is_whole = line.code[line.pieces[equals].place.end..].trim().trim_end_matches(';') == &line.code[place.clone()];
    let target_name = target.split(':').next().unwrap_or_default();
    if is_whole && !target_name.contains(['[', ',']) {
        let is_declared = target.contains(':') || typed_tensor(context.text, target).is_some();
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
fn slice_call(name: &str, items: &[&str], tensor: &DeclaredType) -> Option<SliceCall> {
    if items.len() > tensor.axes.len() {
        return None;
    }
    let selected: Vec<&str> = items.iter().map(|item| if item.contains(':') { ":" } else { item }).collect();
    let kept = selected.iter().rposition(|item| *item != ":").map_or(0, |last| last + 1);
    let operand = if kept == 0 { name.to_owned() } else { format!("{name}[{}]", selected[..kept].join(", ")) };
    let (mut ranges, mut extents) = (Vec::new(), Vec::new());
    for (at, extent) in tensor.axes.iter().enumerate() {
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

/// `M[:, None]`: a new axis, in the value of a statement.
pub(super) fn new_axis_index(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    let equals = line.find_outside("=")?;
    let at = (equals + 1..line.pieces.len()).find(|&at| is_new_axis(line.piece_text(at)))?;
    let depth = line.pieces[at].depth;
    let open =
        (equals + 1..at).rev().find(|&open| line.piece_text(open) == "[" && line.pieces[open].depth + 1 == depth)?;
    let close = line.closing(open)?;
    let items = split_items(line.between(open, close));
    let is_whole = items.iter().all(|item| matches!(*item, ":" | "...") || ends_with_new_axis(item));
    let name = line.piece_text(open - 1);
    let rank = context.type_of(name).map(|ty| ty.axes.len());
    let mut flags: Vec<bool> = Vec::new();
    for item in &items {
        let added = items.iter().filter(|item| ends_with_new_axis(item)).count();
        match *item {
            "..." => flags.extend(std::iter::repeat_n(false, (rank? + added).checked_sub(items.len() - 1)?)),
            item => flags.push(ends_with_new_axis(item)),
        }
    }
    let kept = flags.iter().filter(|flag| !**flag).count();
    flags.extend(std::iter::repeat_n(false, rank.unwrap_or(kept).saturating_sub(kept)));
    let flags: Vec<String> = flags.iter().map(bool::to_string).collect();
    let value = format!("broadcast({name}, flags=[{}])", flags.join(", "));
    let place = line.pieces[open - 1].place.start..line.pieces[close].place.end;
    let message = "an index adds no axis: `broadcast` does, with a true flag for a new axis";
    let shown = line.pieces[at].place.clone();
    let is_value =
        place.start == line.pieces[equals + 1].place.start && place.end == line.code.trim_end_matches([';', ' ']).len();
    let found = match is_value {
        true => Habit::replace_part(line, place, &value, message),
        false => {
            let new = context.unused_name(line.code);
            let above = vec![format!("{new} = {value}")];
            Habit { above, ..Habit::replace_part(line, place, &new, message) }
        }
    };
    (is_whole && is_name(name)).then_some(Habit { place: shown, ..found })
}

/// `None`, `np.newaxis`.
fn ends_with_new_axis(item: &str) -> bool {
    item.rsplit('.').next().is_some_and(is_new_axis)
}

/// `None`, `newaxis`.
pub(super) fn is_new_axis(word: &str) -> bool {
    matches!(word, "None" | "newaxis")
}
