//! Parts that a statement lacks: the type of memory, an operand, a permutation, and flags.

use super::lines::{indent_width, is_word};
use super::part_change::{PartChange, split_operands};
use super::type_slips::declared_types;

/// The axes of tensors whose permutations are tried.
const MOST_AXES: usize = 4;

/// The doubt about the rank's own part of a tensor in the place of the whole.
const OF_OWN_PART: u32 = 1;

/// The types of a text for memory that is declared without one: `A = alloc`.
pub(super) fn missing_types(text: &str, code: &str) -> Vec<PartChange> {
    let own = indent_width(code);
    let Some(equals) = code.find(" = alloc") else { return Vec::new() };
    let types = declared_types(text).into_iter().filter(|_| code.get(own..equals).is_some_and(is_word));
    types.map(|ty| PartChange::new(equals..equals, format!(": {ty}"), 1)).collect()
}

/// The permutations of a `Set.Permute` that has none, the transposes first.
pub(super) fn missing_permutations(code: &str) -> Vec<PartChange> {
    let Some(at) = code.find("Set.Permute(").filter(|_| !code.contains("perm=")) else { return Vec::new() };
    let Some(close) = code.rfind(')').filter(|close| *close > at) else { return Vec::new() };
    let orders = (2..=MOST_AXES).flat_map(permutations_of);
    let orders = orders.map(|order| (order.iter().map(usize::to_string).collect::<Vec<_>>().join(", "), order));
    let changes = orders.map(|(list, order)| {
        let moved = order.iter().enumerate().filter(|(at, axis)| at != *axis).count();
        let is_transpose = moved == 2 && order.ends_with(&[order.len() - 1, order.len() - 2]);
        PartChange::new(close..close, format!(", perm=[{list}]"), u32::from(!is_transpose))
    });
    let mut found: Vec<PartChange> = changes.collect();
    found.sort_by_key(|change| change.doubt);
    found
}

/// Lists of flags with one flag more, or one less.
pub(super) fn other_flag_counts(code: &str) -> Vec<PartChange> {
    let Some(open) = code.find("flags=[").map(|at| at + "flags=[".len()) else { return Vec::new() };
    let Some(close) = code[open..].find(']').map(|length| open + length) else { return Vec::new() };
    let flags = split_operands(&code[open..close]);
    let mut lists: Vec<(Vec<&str>, u32)> = Vec::new();
    for at in 0..=flags.len() {
        for (flag, doubt) in [("false", 0), ("true", 1)] {
            let mut more = flags.clone();
            more.insert(at, flag);
            lists.push((more, doubt));
        }
    }
    for at in 0..flags.len() {
        let mut fewer = flags.clone();
        fewer.remove(at);
        lists.push((fewer, 1));
    }
    lists.into_iter().map(|(list, doubt)| PartChange::new(open..close, list.join(", "), doubt)).collect()
}

/// The orders of so many axes but the own one.
fn permutations_of(count: usize) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..count {
        found = found
            .iter()
            .flat_map(|order| {
                let rest = (0..count).filter(|axis| !order.contains(axis));
                rest.map(|axis| [order.as_slice(), &[axis]].concat())
            })
            .collect();
    }
    found.retain(|order| !order.is_sorted());
    found
}

/// Calls with one operand more, each of these tensors, at each place.
pub(super) fn missing_operands(code: &str, tensors: &[&str]) -> Vec<PartChange> {
    let Some(open) = code.find('(').filter(|open| code[..*open].contains(" = ")) else { return Vec::new() };
    let Some(close) = code.rfind(')').filter(|close| *close > open) else { return Vec::new() };
    let list = &code[open + 1..close];
    let arguments = if list.is_empty() { Vec::new() } else { split_operands(list) };
    let count = arguments.iter().take_while(|argument| !argument.contains('=')).count();
    let mut found = Vec::new();
    for tensor in tensors {
        for (operand, doubt) in [((*tensor).to_owned(), 0), (format!("{tensor}[own]"), OF_OWN_PART)] {
            // The last one is left out rather than others.
            for place in (0..=count).rev() {
                let mut all = arguments.clone();
                all.insert(place, &operand);
                let doubt = doubt + u32::from(place < count);
                found.push(PartChange::new(open + 1..close, all.join(", "), doubt));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_lines(code: &str, changes: Vec<PartChange>) -> Vec<String> {
        let changed = |one: PartChange| format!("{}{}{}", &code[..one.part.start], one.text, &code[one.part.end..]);
        changes.into_iter().map(changed).collect()
    }

    #[test]
    fn transposes_come_first() {
        let code = "  T = Set.Permute(A[own])";
        let found = changed_lines(code, missing_permutations(code));
        assert_eq!(found.len(), 1 + 5 + 23);
        assert_eq!(found[0], "  T = Set.Permute(A[own], perm=[1, 0])");
        assert_eq!(found[1], "  T = Set.Permute(A[own], perm=[0, 2, 1])");
    }

    #[test]
    fn operands_and_types() {
        let code = "  Y = matmul(X)";
        let found = changed_lines(code, missing_operands(code, &["W"]));
        let all = ["  Y = matmul(X, W)", "  Y = matmul(W, X)", "  Y = matmul(X, W[own])", "  Y = matmul(W[own], X)"];
        assert_eq!(found, all);
        let text = "f(X: f32[n, k]) -> (Y: f32[n, k]):\n  A = alloc\n  S: f32[n, r.k] = reduction(X, op=add)\n";
        assert_eq!(changed_lines("  A = alloc", missing_types(text, "  A = alloc")), ["  A: f32[n, k] = alloc"]);
    }
}
