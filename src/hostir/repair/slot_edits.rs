//! Indices of buffers with slots: `B[s % 2]`, whose remainder is missing or has another divisor than the buffer has
//! slots.

use super::message_edits::axis_extent;
use super::part_change::{PartChange, comma_parts};
use super::statement_slips::communicated;
use super::type_slips::AxisWords;
use std::ops::Range;

/// The first index of each tensor of a line with the remainder that other lines have, or that its number of slots needs.
pub(super) fn slot_changes(text: &str, code: &str) -> Vec<PartChange> {
    let mut found = Vec::new();
    for (open, _) in code.match_indices('[') {
        let name = code[..open].rsplit(|c: char| !is_name_letter(c)).next().unwrap_or_default();
        let Some(count) = axis_extent(text, name).filter(|_| !name.is_empty()) else { continue };
        let Some(close) = code[open..].find(']').map(|length| open + length) else { continue };
        let index = comma_parts(code, open + 1..close).swap_remove(0);
        let own = &code[index.clone()];
        let is_used = text.contains(&format!("% {count}]")) || text.contains(&format!("% {count},"));
        let is_slots = is_used || count.parse::<u32>().is_ok();
        let Some(slot) = slot_index(own, &count).filter(|slot| is_slots && slot != own) else { continue };
        found.push(PartChange::new(index, slot, 0));
    }
    found
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// `(s - 1) % 2` for `s - 1`, `(s - 1)` and `(s - 1) % 3`; `None` for a number and for the rank.
fn slot_index(index: &str, count: &str) -> Option<String> {
    if !index.contains(|c: char| c.is_ascii_alphabetic()) || ["own", "rank"].contains(&index) {
        return None;
    }
    if let Some((base, _)) = index.rsplit_once(" % ") {
        return Some(format!("{base} % {count}"));
    }
    let is_single = index.bytes().all(|byte| is_name_letter(byte.into())) || index.starts_with('(');
    Some(if is_single { format!("{index} % {count}") } else { format!("({index}) % {count}") })
}

/// Memory with one slice more.
pub(super) struct LongerMemory {
    /// The first extent of its declaration.
    pub(super) place: Range<usize>,
    /// `l + 1`
    pub(super) extent: String,
    /// `E: f32[l + 1, n]`
    pub(super) declared: String,
}

/// The memory of tensors of a line that is allocated with as many slices as the index that is used: `E[l]` of
/// `E: f32[l, n] = alloc`.
pub(super) fn longer_memory(text: &str, code: &str) -> Vec<LongerMemory> {
    let mut found = Vec::new();
    for (open, _) in code.match_indices('[') {
        let name = code[..open].rsplit(|c: char| !is_name_letter(c)).next().unwrap_or_default();
        let Some(close) = code[open..].find(']').map(|length| open + length).filter(|_| !name.is_empty()) else {
            continue;
        };
        let index = &code[comma_parts(code, open + 1..close).swap_remove(0)];
        let declared = format!("\n  {name}: ");
        let Some(begin) = text.find(&declared).map(|at| at + "\n  ".len()) else { continue };
        let line = text[begin..].lines().next().unwrap_or_default();
        let Some((ty, _)) = line.split_once(" = alloc") else { continue };
        let Some(first) = ty.find('[').map(|at| at + 1) else { continue };
        let length = ty[first..].find([',', ']']).unwrap_or(0);
        if ty[first..first + length] == *index {
            let extent = format!("{index} + 1");
            let declared = format!("{}{extent}{}", &ty[..first], &ty[first + length..]);
            found.push(LongerMemory { place: begin + first..begin + first + length, extent, declared });
        }
    }
    found
}

/// A collective of all ranks among those along one axis of the mesh.
pub(super) fn team_changes(text: &str, code: &str) -> Vec<PartChange> {
    let is_open = ["over=", "team=", "send(", "recv("].iter().all(|word| !code.contains(word));
    let Some([_, result]) = communicated(code).filter(|_| is_open) else { return Vec::new() };
    let axes = AxisWords::of_text(text).team_axes.into_iter();
    axes.map(|axis| PartChange::new(result.end..result.end, format!(", over={axis}"), 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slots_of_a_buffer() {
        let text = "  B: f32[2, n] = alloc\n  E: f32[m, n] = alloc\n";
        let written = |code: &str| {
            let changes = slot_changes(text, code).into_iter();
            changes.map(|one| format!("{}{}{}", &code[..one.part.start], one.text, &code[one.part.end..])).collect()
        };
        let cases: &[(&str, &[&str])] = &[
            ("B[s] = relu(E[s])", &["B[s % 2] = relu(E[s])"]),
            ("Y = relu(B[s - 1])", &["Y = relu(B[(s - 1) % 2])"]),
            ("Y = relu(B[(s - 1)])", &["Y = relu(B[(s - 1) % 2])"]),
            ("Y = relu(B[(s + 1) % 3, 0])", &["Y = relu(B[(s + 1) % 2, 0])"]),
            ("Y = relu(B[s % 2] + B[1] + B[own])", &[]),
        ];
        for (code, expected) in cases {
            let found: Vec<String> = written(code);
            assert_eq!(found, *expected, "{code}");
        }
    }
}
