//! Narrow places: a check knows its statement and the word in it that is meant; this module finds the word in the text.

use super::{Diag, Span};

/// Points each diagnostic with a focus at that part of its place in the text; at the whole place if the part is not
/// found.
pub fn narrow_places(text: &str, diags: &mut [Diag]) {
    for diag in diags {
        let (Some(part), Some(primary)) = (&diag.focus, &mut diag.primary) else { continue };
        let Some(place) = text.get(primary.span.as_usize_range()) else { continue };
        if let Some(found) = find_part(place, part) {
            let start = primary.span.start as usize;
            primary.span = Span::new(start + found.start, start + found.end);
        }
    }
}

/// The place of a part in a statement: after its `=` if it is there, since results are in front of it.
fn find_part(place: &str, part: &str) -> Option<std::ops::Range<usize>> {
    let equals = place.match_indices('=').map(|(at, _)| at).find(|&at| is_assignment(place, at));
    let first = equals.and_then(|at| find_word(place, part, at));
    first.or_else(|| find_word(place, part, 0))
}

/// Returns true if the sign at `at` is that of an assignment: not of `==`, `<=` or an argument's key.
fn is_assignment(place: &str, at: usize) -> bool {
    let bytes = place.as_bytes();
    bytes.get(at + 1) == Some(&b' ') && at > 0 && bytes[at - 1].is_ascii_whitespace()
}

fn find_word(place: &str, part: &str, from: usize) -> Option<std::ops::Range<usize>> {
    let bytes = place.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    place.get(from..)?.match_indices(part).map(|(at, _)| from + at).find_map(|start| {
        let end = start + part.len();
        if start > 0 && is_word(&bytes[start - 1]) {
            return None;
        }
        match bytes.get(end) {
            // A tensor in full: `T3_g_float[iS0{4}]`.
            Some(b'_') if part.starts_with('T') => Some(start..end + place[end..].find(']').map_or(0, |at| at + 1)),
            Some(byte) if is_word(byte) => None,
            _ => Some(start..end),
        }
    })
}
