//! Lines in column 1 in the words of other languages: headers of programs, sizes and meshes.

use super::context::LineContext;
use super::declarations::read_type;
use super::habit::Habit;
use super::line::CodeLine;
use super::signs::near_word;
use crate::error::Code;
use crate::hir2::element_types::is_element_type;

/// Words of other languages in front of the name of a function.
const FUNCTION_WORDS: &[&str] = &[
    "def",
    "func",
    "fn",
    "fun",
    "function",
    "void",
    "proc",
    "program",
    "__global__",
    "__device__",
    "extern",
    "static",
];

/// Words that begin items.
const ITEM_WORDS: &[&str] = &["sizes", "streams", "mesh", "kernel", "import", "names", "style"];

/// `def f(..)`, `func @f(..)`, `func.func @f(..)`.
pub(super) fn function_word(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    if !FUNCTION_WORDS.contains(&word) {
        return None;
    }
    let is_dotted = line.piece_text(1) == "." && line.piece_text(2) == "func";
    let mut next = if is_dotted { 3 } else { 1 };
    while FUNCTION_WORDS.contains(&line.piece_text(next)) {
        next += 1;
    }
    let name = if line.piece_text(next) == "@" { next + 1 } else { next };
    let start = line.pieces.get(name).filter(|_| line.is_name(name))?.place.start;
    let message = format!("`{word}` begins no program");
    let meant = if word == "__global__" { "kernel " } else { "" };
    Some(Habit { place: 0..word.len(), ..Habit::replace_part(line, 0..start, meant, message) })
}

/// `kernel: f(..)`, `kernel void f(..)`.
pub(super) fn kernel_word(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let is_other = line.piece_text(1) == ":" || FUNCTION_WORDS.contains(&line.piece_text(1));
    let next = line.pieces.get(2).filter(|_| line.piece_text(0) == "kernel" && is_other && line.is_name(2))?;
    let shown = line.pieces[1].place.clone();
    let place = line.pieces[0].place.end..next.place.start;
    let message = "the name of a kernel stands directly after `kernel`";
    Some(Habit { place: shown, ..Habit::replace_part(line, place, " ", message) }.into_slip())
}

/// `f(X f32[n])`, `f(f32[n] X)`.
pub(super) fn parameter_type(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (2..line.pieces.len()).find(|&at| {
        let is_typed = is_element_type(line.piece_text(at)) && line.piece_text(at + 1) == "[";
        is_typed && line.pieces[at].depth > 0 && line.piece_text(at - 1) != ":"
    })?;
    let message = "a tensor is written `name: type`";
    let place = line.pieces[at].place.clone();
    if line.is_name(at - 1) {
        let between = line.pieces[at - 1].place.end..place.start;
        return Some(Habit { place, ..Habit::replace_part(line, between, ": ", message) }.into_slip());
    }
    let close = line.closing(at + 1)?;
    let name = line.pieces.get(close + 1).filter(|_| line.is_name(close + 1))?.place.clone();
    let meant = format!("{}: {}", &line.code[name.clone()], line.span_text(at, close));
    Some(
        Habit { place: place.clone(), ..Habit::replace_part(line, place.start..name.end, &meant, message) }.into_slip(),
    )
}

/// `X: tensor<4x8xf32>`.
pub(super) fn type_of_mlir(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (0..line.pieces.len())
        .find(|&at| matches!(line.piece_text(at), "tensor" | "memref" | "vector") && line.piece_text(at + 1) == "<")?;
    let start = line.pieces[at].place.start;
    let end = start + line.code[start..].find('>')? + 1;
    let meant = read_type(&line.code[start..end])?;
    Some(Habit::replace_part(line, start..end, &meant, "types have their axes in square brackets"))
}

/// `f(X: f32[n]) (Y: f32[n]):`
pub(super) fn missing_arrow(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (1..line.pieces.len()).find(|&at| {
        line.pieces[at].depth == 0
            && line.piece_text(at) == "("
            && matches!(line.piece_text(at - 1), ")" | "-" | ">" | "=")
    })?;
    let close = (0..at).rev().find(|&close| line.piece_text(close) == ")" && line.pieces[close].depth == 0)?;
    let place = line.pieces[close].place.end..line.pieces[at].place.start;
    let shown = line.pieces[at].place.clone();
    let message = "`->` stands between the inputs and the outputs of a program";
    Some(Habit { place: shown, ..Habit::replace_part(line, place, " -> ", message) }.into_slip())
}

/// `f(..) -> (..) {`.
pub(super) fn header_brace(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let last = line.pieces.len().checked_sub(1).filter(|&last| line.piece_text(last) == "{" && last > 0)?;
    let before = line.pieces[last - 1].place.end;
    let colon = if line.piece_text(last - 1) == ":" { "" } else { ":" };
    let place = line.pieces[last].place.clone();
    let changed = Habit::replace_part(line, before..place.end, colon, "blocks are indented, and have no braces");
    Some(Habit { place, ..changed })
}

/// `sizes p=4 m=3`, `sizes p: 4`, `sizes p = 4; m = 3`.
pub(super) fn sizes_list(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if line.piece_text(0) != "sizes" {
        return None;
    }
    let mut at = if line.piece_text(1) == ":" { 2 } else { 1 };
    let mut items: Vec<String> = Vec::new();
    let mut found: Option<usize> = (at == 2).then_some(1);
    while at < line.pieces.len() {
        let (name, sign, value) = (line.piece_text(at), line.piece_text(at + 1), line.piece_text(at + 2));
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        if !line.is_name(at) || !matches!(sign, "=" | ":" | ":=" | "==") || !is_number {
            return None;
        }
        if sign != "=" {
            found = found.or(Some(at + 1));
        }
        items.push(format!("{name}={value}"));
        at += 3;
        match line.piece_text(at) {
            "," => at += 1,
            "" => {}
            ";" => {
                found = found.or(Some(at));
                at += 1;
            }
            _ => found = found.or(Some(at)),
        }
    }
    let shown = line.pieces.get(found?)?.place.clone();
    let message = "sizes are written `name=number`, with `,` between them";
    Some(Habit::rewrite_line(shown, format!("sizes {}", items.join(", ")), message).into_slip())
}

/// `mesh d = [y=a, x=b]`, `mesh d: 0..p`, `mesh d = range(p)`.
pub(super) fn mesh_line(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if line.piece_text(0) != "mesh" || !line.is_name(1) {
        return None;
    }
    if matches!(line.piece_text(2), ":" | ":=" | "==") {
        let place = line.pieces[1].place.end..line.pieces[2].place.end;
        let shown = line.pieces[2].place.clone();
        return Some(Habit {
            place: shown,
            ..Habit::replace_part(line, place, " =", "the devices of a mesh stand after `=`")
        });
    }
    let axis = (4..line.pieces.len())
        .find(|&at| matches!(line.piece_text(at), "=" | "==") && line.pieces[at].depth > 0 && line.is_name(at - 1));
    if let Some(at) = axis {
        let place = line.pieces[at - 1].place.end..line.pieces[at + 1..].first()?.place.start;
        let shown = line.pieces[at].place.clone();
        let message = "the axes of a mesh are written `name:extent`";
        return Some(Habit { place: shown, ..Habit::replace_part(line, place, ":", message) }.into_slip());
    }
    if let Some(changed) = other_device_range(line) {
        return Some(changed);
    }
    let is_range = line.piece_text(3) == "range" && line.piece_text(4) == "(";
    let close = if is_range { line.closing(4)? } else { return None };
    let ends = super::line::split_items(line.between(4, close));
    let range = match ends[..] {
        [end] => format!("0..{end}"),
        [start, end] => format!("{start}..{end}"),
        _ => return None,
    };
    let place = line.pieces[3].place.start..line.pieces[close].place.end;
    Some(Habit::replace_part(line, place, &range, "a range of devices is written with `..`"))
}

/// `mesh d = 0:p`, `mesh d = [0..p]`.
fn other_device_range(line: &CodeLine<'_>) -> Option<Habit> {
    let message = "a range of devices is written `0..p`";
    if line.piece_text(4) == ":" && line.pieces[4].depth == 0 {
        let place = line.pieces[3].place.end..line.pieces.get(5)?.place.start;
        let shown = line.pieces[4].place.clone();
        return Some(Habit { place: shown, ..Habit::replace_part(line, place, "..", message) });
    }
    let close = line.closing(3).filter(|_| matches!(line.piece_text(3), "[" | "(" | "{"))?;
    let inside = line.between(3, close);
    let place = line.pieces[3].place.start..line.pieces[close].place.end;
    (inside.contains("..") && !inside.contains(['[', ',']))
        .then(|| Habit { place: line.pieces[3].place.clone(), ..Habit::replace_part(line, place, inside, message) })
}

/// `size p=4`, `meshes d = 0..4`.
pub(super) fn misspelt_item(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let word = line.piece_text(0);
    if !line.is_name(0) || ITEM_WORDS.contains(&word) || line.piece_text(1) == "(" {
        return None;
    }
    let near = near_word(word, ITEM_WORDS)?;
    let message = format!("`{word}` begins neither a program nor a mesh: did you mean `{near}`?");
    Some(Habit { code: Code::Outside, ..Habit::replace_part(line, line.pieces[0].place.clone(), near, message) })
}

/// True for a header with axes that are not closed in front of the next tensor.
pub(super) fn has_open_axes(code: &str) -> bool {
    tensor_in_axes(&CodeLine::new(code)).is_some()
}

/// `f(A: f32[x:4, m, B: f32[n]) -> ..`: axes that are not closed in front of the next tensor.
pub(super) fn open_axes(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let next = tensor_in_axes(line)?;
    let depth = line.pieces[next].depth;
    let open = (0..next).rev().find(|&open| line.piece_text(open) == "[" && line.pieces[open].depth + 1 == depth)?;
    let end = line.pieces[next - 2].place.end;
    let message = format!("this `[` is not closed in front of `{}`", line.piece_text(next));
    let meant = Habit::replace_part(line, end..end, "]", message);
    Some(Habit { place: line.pieces[open].place.clone(), code: Code::Unclosed, ..meant })
}

/// The name of a tensor with its type among the axes of another one.
fn tensor_in_axes(line: &CodeLine<'_>) -> Option<usize> {
    (2..line.pieces.len()).find(|&at| {
        let is_typed = line.piece_text(at + 1) == ":"
            && is_element_type(line.piece_text(at + 2))
            && line.piece_text(at + 3) == "[";
        line.is_name(at) && line.piece_text(at - 1) == "," && is_typed && line.pieces[at].depth > 1
    })
}
