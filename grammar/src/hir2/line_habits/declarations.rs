//! Declarations of other languages and of the printed form: names with a sign in front, types at the end or in front,
//! tensors with their domains.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, is_name, split_items};
use crate::hir2::element_types::element_type;

/// Words in front of a declaration.
const WORDS: &[&str] = &[
    "let",
    "const",
    "var",
    "auto",
    "val",
    "mut",
    "static",
    "final",
    "constexpr",
    "size_t",
    "unsigned",
    "tensor",
    "Tensor",
    "def",
    "float",
    "double",
    "half",
    "int",
    "long",
    "int64_t",
    "int32_t",
    "bool",
];

/// `%0`, `%C`, `&C`: the sign is left out, and a number gets a letter.
pub(super) fn name_with_sigil(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len()).find(|&at| {
        let next = line.pieces.get(at + 1);
        let is_sign = matches!(line.piece_text(at), "%" | "&" | "$")
            && next.is_some_and(|next| next.place.start == line.pieces[at].place.end);
        let before = at.checked_sub(1).map(|before| line.piece_text(before));
        let is_first = before.is_none_or(|before| {
            matches!(before, "(" | "[" | "{" | "," | "=" | "->" | ";" | ":" | "wait" | "free" | "sync" | "if" | "print")
        });
        is_sign && is_first && line.piece_text(at + 1).starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    })?;
    let (sign, name) = (line.piece_text(at), line.piece_text(at + 1));
    let meant = if name.starts_with(|c: char| c.is_ascii_digit()) { format!("v{name}") } else { name.to_owned() };
    let place = line.pieces[at].place.start..line.pieces[at + 1].place.end;
    Some(Habit::replace_part(line, place, &meant, format!("a name has no `{sign}` in front of it")))
}

/// `C = matmul(A, B) : f32[m, n]`, with types of MLIR, too.
pub(super) fn type_at_end(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let equals = line.find_outside("=")?;
    let colon = (equals + 1..line.pieces.len()).find(|&at| line.pieces[at].depth == 0 && line.piece_text(at) == ":")?;
    let target = line.code[..line.pieces[equals].place.start].trim();
    let value = line.between(equals, colon);
    let written = line.code[line.pieces[colon].place.end..].trim().trim_end_matches(';').trim_end();
    let ty = read_type(written.rsplit("->").next()?.trim())?;
    let has_type = target.contains([':', '[']);
    let declared = if has_type { target.to_owned() } else { format!("{target}: {ty}") };
    let place = line.pieces[colon].place.start..line.code_end();
    (!value.is_empty()).then(|| {
        Habit::rewrite_line(
            place,
            format!("{declared} = {value}"),
            "a type stands after the name of a result, not at the end",
        )
    })
}

/// `f32[m, n]`, `tensor<4x8xf32>`, `memref<4xf32>`.
pub(super) fn read_type(text: &str) -> Option<String> {
    if let Some((word, axes)) = text.split_once('[') {
        let axes = axes.strip_suffix(']').filter(|axes| !axes.contains(['[', ']']))?;
        return Some(format!("{}[{}]", element_type(word.trim())?, axes.trim()));
    }
    let inner = text.split_once('<').filter(|(word, _)| matches!(*word, "tensor" | "memref" | "vector"))?.1;
    let parts: Vec<&str> = inner.strip_suffix('>')?.split(',').next()?.trim().split('x').collect();
    let (word, extents) = parts.split_last()?;
    extents.iter().all(|extent| !extent.is_empty() && *extent != "?").then_some(())?;
    Some(format!("{}[{}]", element_type(word)?, extents.join(", ")))
}

/// `let G: f32[m] = alloc`, `int right = 1`, `float G[p][m] = alloc`.
pub(super) fn declared_before(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let mut words = 0;
    while WORDS.contains(&line.piece_text(words))
        || element_type(line.piece_text(words)).is_some() && line.is_name(words + 1)
    {
        words += 1;
    }
    if words == 0 || !line.is_name(words) {
        return None;
    }
    let ty = (0..words).find_map(|at| element_type(line.piece_text(at)));
    let first = line.piece_text(0);
    let place = 0..first.len();
    let rest = &line.code[line.pieces[words].place.start..];
    let message = match ty {
        Some(_) => format!("`{first}` stands in front of a name: a type stands after it"),
        None => format!("`{first}` begins no statement"),
    };
    match (line.piece_text(words + 1), ty) {
        ("[", Some(ty)) => {
            let mut axes: Vec<&str> = Vec::new();
            let mut open = words + 1;
            while line.piece_text(open) == "[" {
                let close = line.closing(open)?;
                axes.extend(split_items(line.between(open, close)));
                open = close + 1;
            }
            let value = line.code.get(line.pieces.get(open - 1)?.place.end..)?.trim().trim_end_matches(';').trim();
            let value = if value.is_empty() { "= alloc" } else { value };
            let declared = format!("{}: {ty}[{}] {value}", line.piece_text(words), axes.join(", "));
            Some(Habit::rewrite_line(place, declared, message))
        }
        ("=" | ":", _) => Some(Habit::rewrite_line(place, rest.trim_end_matches(';').trim_end(), message)),
        _ => None,
    }
}

/// The end of a type in front of a name: `f32[p, m] G = alloc`.
fn type_in_front(line: &CodeLine<'_>) -> Option<usize> {
    element_type(line.piece_text(0)).filter(|_| line.piece_text(1) == "[")?;
    let close = line.closing(1)?;
    (line.is_name(close + 1) && matches!(line.piece_text(close + 2), "=" | "")).then_some(close)
}

/// True for a line whose name stands after its type.
pub(super) fn has_type_in_front(code: &str) -> bool {
    type_in_front(&CodeLine::new(code)).is_some()
}

/// `f32[p, m] G = alloc`, `f32[m] G`.
pub(super) fn type_before_name(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let close = type_in_front(line)?;
    let name = line.piece_text(close + 1);
    let (dtype, axes) = (element_type(line.piece_text(0))?, line.between(1, close));
    let value = line.code[line.pieces[close + 1].place.end..].trim().trim_end_matches(';').trim();
    let value = if value.is_empty() { "= alloc" } else { value };
    let shown = 0..line.pieces[close].place.end;
    let message = "a type stands after the name of its tensor";
    Some(Habit::rewrite_line(shown, format!("{name}: {dtype}[{axes}] {value}"), message))
}

/// `x := 1`.
pub(super) fn walrus_assignment(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = line.find_outside(":=")?;
    Some(Habit::replace_part(line, line.pieces[at].place.clone(), "=", "`:=` is no assignment"))
}

/// `T2_g_float[iS0{i0}, iS1{i1}] = matmul(T0_g_float[..], T1_g_float[..])`: tensors of the printed form.
pub(super) fn printed_statement(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len())
        .find(|&at| printed_name(line.piece_text(at)).is_some() && line.piece_text(at + 1) == "[")?;
    let (name, dtype) = printed_name(line.piece_text(at))?;
    let close = line.closing(at + 1)?;
    let is_target = at == 0 && line.piece_text(close + 1) == "=";
    let meant = match is_target {
        true => {
            let axes: Option<Vec<String>> = split_items(line.between(1, close)).into_iter().map(printed_axis).collect();
            format!("{name}: {dtype}[{}]", axes?.join(", "))
        }
        false => name.to_owned(),
    };
    let place = line.pieces[at].place.start..line.pieces[close].place.end;
    let message = format!("`{}[..]` is the printed form of a tensor", line.piece_text(at));
    let shown = line.pieces[at].place.clone();
    Some(Habit { place: shown, ..Habit::replace_part(line, place, &meant, message) })
}

/// Number and element type of `T3_g_float`.
fn printed_name(text: &str) -> Option<(&str, &'static str)> {
    let (name, rest) = text.split_once('_')?;
    let digits = name.strip_prefix('T')?;
    let (memory, dtype) = rest.split_once('_')?;
    let is_printed = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_printed && matches!(memory, "g" | "l" | "s" | "t" | "sym")).then_some(())?;
    Some((name, element_type(dtype)?))
}

/// `i0` of `iS0{i0}`, `x:4` of `ideviceIdx.x1{4}`, `r.i2` of `rS2{i2}`.
fn printed_axis(domain: &str) -> Option<String> {
    let (head, extent) = domain.strip_suffix('}')?.split_once('{')?;
    let kind = match head.chars().next()? {
        'r' => "r.",
        'b' => "b.",
        'i' => "",
        _ => return None,
    };
    let place = head[1..].trim_end_matches(|c: char| c.is_ascii_digit());
    let place = match place {
        "S" => "",
        "deviceIdx.x" => "x:",
        "deviceIdx.y" => "y:",
        "streamIdx" => "st:",
        _ => return None,
    };
    let extent = extent.trim();
    let is_plain = is_name(extent) || extent.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| format!("{kind}{place}{extent}"))
}
