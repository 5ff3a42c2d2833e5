//! A call of a function or method of NumPy or PyTorch as the value of a statement.

use super::context::LineContext;
use super::line::{CodeLine, is_name, split_items};

/// Modules in front of functions.
const MODULES: &[&str] =
    &["torch", "np", "numpy", "jnp", "jax.numpy", "F", "torch.nn.functional", "nn.functional", "tl"];

/// `C = transpose(A[own], 0, 1)`, `C: f32[m] = A.sum(dim=1)`.
pub(super) struct TensorCall<'a> {
    /// The left side.
    pub(super) target: &'a str,
    /// The last word of the function's name.
    pub(super) function: &'a str,
    /// The bytes of the function's name in the line.
    pub(super) place: std::ops::Range<usize>,
    /// Arguments without a key; the tensor of a method is the first.
    pub(super) operands: Vec<&'a str>,
    /// Arguments with a key.
    pub(super) keyed: Vec<(&'a str, &'a str)>,
}

impl<'a> TensorCall<'a> {
    pub(super) fn of_line(line: &CodeLine<'a>) -> Option<Self> {
        let equals = line.find_outside("=").filter(|_| line.is_name(0))?;
        let target = line.code[..line.pieces[equals].place.start].trim();
        let last = line.pieces.len() - usize::from(line.piece_text(line.pieces.len() - 1) == ";") - 1;
        let open = (equals + 1..last).find(|&open| line.piece_text(open) == "(" && line.closing(open) == Some(last))?;
        let start = line.pieces[equals + 1].place.start;
        let callee = &line.code[start..line.pieces[open].place.start];
        let (owner, function) = callee.rsplit_once('.').unwrap_or(("", callee));
        let is_method = !owner.is_empty() && !MODULES.contains(&owner);
        let has_parts = !is_method || is_slice(owner);
        if !is_name(function) || !has_parts {
            return None;
        }
        let mut operands: Vec<&str> = Vec::new();
        operands.extend(Some(owner).filter(|_| is_method));
        let mut keyed = Vec::new();
        for item in split_items(line.between(open, last)).into_iter().filter(|item| !item.is_empty()) {
            match item.split_once('=').filter(|(key, _)| is_name(key.trim())) {
                Some((key, value)) if !value.starts_with('=') => keyed.push((key.trim(), value.trim())),
                _ => operands.push(item),
            }
        }
        let end = start + callee.len();
        Some(Self { target, function, place: end - function.len()..end, operands, keyed })
    }

    /// The tensor that the function is applied to.
    pub(super) fn operand(&self) -> Option<&'a str> {
        self.operands.first().copied().filter(|operand| is_slice(operand))
    }

    /// The argument of one of these keys, or the one at a place.
    pub(super) fn argument(&self, keys: &[&str], place: usize) -> Option<&'a str> {
        let keyed = self.keyed.iter().find(|(key, _)| keys.contains(key)).map(|(_, value)| *value);
        keyed.or_else(|| self.operands.get(place).copied())
    }

    /// The arguments after the operand: those of a list, or several.
    pub(super) fn list_after_operand(&self, keys: &[&str]) -> Vec<&'a str> {
        match self.argument(keys, 1) {
            Some(list) if is_list(list) => list_items(list),
            Some(one) if self.operands.len() < 2 => vec![one],
            _ => self.operands.iter().skip(1).copied().collect(),
        }
    }

    /// An axis as a number from 0 of `rank` axes.
    pub(super) fn axis(&self, keys: &[&str], place: usize, rank: usize) -> Option<usize> {
        axis_number(self.argument(keys, place)?, rank)
    }

    /// The left side with this type, if it has none and its name is new.
    pub(super) fn typed_target(&self, context: &LineContext<'_>, dtype: &str, axes: &[String]) -> String {
        let is_known = !is_name(self.target) || self.is_declared(context);
        if is_known { self.target.to_owned() } else { format!("{}: {dtype}[{}]", self.target, axes.join(", ")) }
    }

    /// True if the left side is the name of a tensor with a type elsewhere.
    pub(super) fn is_declared(&self, context: &LineContext<'_>) -> bool {
        context.outputs().contains(&self.target) || context.type_of(self.target).is_some()
    }
}

/// `-1` of 3 axes is 2.
pub(super) fn axis_number(text: &str, rank: usize) -> Option<usize> {
    let axis: i64 = text.parse().ok()?;
    let number = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(number).ok().filter(|number| *number < rank)
}

/// `A`, `A[own, i]`.
pub(super) fn is_slice(text: &str) -> bool {
    let name = text.split('[').next().unwrap_or_default();
    is_name(name) && (name.len() == text.len() || text.ends_with(']') && !text.contains(':'))
}

/// `[a, b]`, `(a, b)`.
pub(super) fn is_list(text: &str) -> bool {
    text.starts_with('[') && text.ends_with(']') || text.starts_with('(') && text.ends_with(')')
}

/// The items of a list.
pub(super) fn list_items(list: &str) -> Vec<&str> {
    split_items(&list[1..list.len() - 1]).into_iter().filter(|item| !item.is_empty()).collect()
}
