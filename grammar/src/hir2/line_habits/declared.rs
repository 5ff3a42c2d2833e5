//! Types of tensors, read from the text around a statement.

use super::context::LineContext;
use super::line::{CodeLine, has_word, split_items};

/// The statements through which a type is followed; names may be computed from each other.
const MOST_STEPS: u32 = 6;

/// The element type and the stored axes of a tensor, as the text has them.
#[derive(Clone)]
pub(super) struct DeclaredType {
    pub(super) dtype: String,
    pub(super) axes: Vec<String>,
}

impl LineContext<'_> {
    /// The type of `A` or `A[own, :]`, if the text says that of `A`.
    pub(super) fn type_of(&self, operand: &str) -> Option<DeclaredType> {
        match operand.contains('[') {
            true => copied_tensor(self.text, operand, "", MOST_STEPS),
            false => declared_tensor(self.text, operand, MOST_STEPS),
        }
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
pub(super) fn typed_tensor(text: &str, name: &str) -> Option<DeclaredType> {
    let mut uses = code_lines(text).flat_map(|code| uses_of(code, name));
    uses.find_map(|(_, rest)| read_declared(rest.strip_prefix(':')?.trim_start()))
}

/// The declaration of a tensor in a text: its type, or that of the tensor that it is a copy or a slice of.
fn declared_tensor(text: &str, name: &str, steps: u32) -> Option<DeclaredType> {
    let steps = steps.checked_sub(1)?;
    let mut uses = code_lines(text).flat_map(|code| uses_of(code, name));
    typed_tensor(text, name).or_else(|| {
        uses.find_map(|(before, rest)| {
            let value = rest.strip_prefix('=').filter(|value| !value.starts_with('=') && before.trim().is_empty())?;
            let value = value.trim();
            copied_tensor(text, value, name, steps).or_else(|| computed_tensor(text, value, name, steps))
        })
    })
}

/// `f32[x:p, m]`
fn read_declared(ty: &str) -> Option<DeclaredType> {
    let (dtype, rest) = ty.split_once('[')?;
    let inside = rest.split(']').next()?;
    let is_word = !dtype.is_empty() && dtype.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let axes = split_items(inside).into_iter().filter(|axis| !axis.starts_with("r.") && !axis.is_empty());
    is_word.then(|| DeclaredType { dtype: dtype.to_owned(), axes: axes.map(str::to_owned).collect() })
}

/// The type of `X[own]`, `X` and `f(X)`, which are as long as `X` without the axes that are selected.
fn copied_tensor(text: &str, value: &str, of: &str, steps: u32) -> Option<DeclaredType> {
    let line = CodeLine::new(value);
    let is_call = line.piece_text(1) == "("
        && line.is_name(0)
        && !matches!(line.piece_text(0), "matmul" | "linear" | "reduction" | "alloc");
    let first = if is_call { 2 } else { 0 };
    let name = line.piece_text(first);
    if !line.is_name(first) || name == of || !of.is_empty() && has_word(value, of) {
        return None;
    }
    let mut tensor = declared_tensor(text, name, steps)?;
    let end = match line.piece_text(first + 1) {
        "[" => {
            let close = line.closing(first + 1)?;
            let items = split_items(line.between(first + 1, close));
            let mut at = 0;
            tensor.axes.retain(|_| {
                at += 1;
                items.get(at - 1).is_none_or(|item| *item == ":")
            });
            close + 1
        }
        _ => first + 1,
    };
    // Operators of elements: the other operand is as long.
    let is_operator = !is_call && matches!(line.piece_text(end), "+" | "-" | "*" | "/");
    let is_plain = if is_call {
        line.piece_text(end) == ")" && line.piece_text(end + 1).is_empty()
    } else {
        line.piece_text(end).is_empty()
    };
    (is_plain || is_operator).then_some(tensor)
}

/// The type of `matmul(A, B)` and `Set.Permute(A, perm=[1, 0])`.
fn computed_tensor(text: &str, value: &str, of: &str, steps: u32) -> Option<DeclaredType> {
    let (function, arguments) = value.strip_suffix(')')?.split_once('(')?;
    let items = split_items(arguments);
    let first = copied_tensor(text, items.first()?, of, steps)?;
    match (function, &items[1..]) {
        ("matmul", [second]) => {
            let second = copied_tensor(text, second, of, steps)?;
            let mut axes = first.axes;
            *axes.last_mut()? = second.axes.last()?.clone();
            Some(DeclaredType { axes, ..first })
        }
        ("Set.Permute", [perm]) => {
            let order = perm.trim_start_matches("perm=").strip_prefix('[')?.strip_suffix(']')?;
            let axes = split_items(order).into_iter().map(|at| first.axes.get(at.parse::<usize>().ok()?).cloned());
            let axes: Option<Vec<String>> = axes.collect();
            Some(DeclaredType { axes: axes?, ..first })
        }
        _ => None,
    }
}
