//! Edits of the text, in either notation: axes of all tensors, items of lists, lines.

use crate::delta::remove_parts;
use crate::reducer::Reducer;
use std::ops::Range;

/// An item of a list in brackets.
struct ListItem {
    /// The item with one of its commas.
    place: Range<usize>,
    /// The item without the numbers of names: `iS0{4}` is the axis `iS{4}`.
    key: String,
    /// The bracket that opens the list.
    bracket: u8,
}

/// Removes an axis from all types that have one with its text.
pub(crate) fn remove_axes(reducer: &mut Reducer) {
    let mut tried: Vec<String> = Vec::new();
    loop {
        let subject = reducer.best().clone();
        let items = list_items(&subject.body);
        let axes = items.iter().filter(|item| item.bracket == b'[');
        let Some(key) = axes.map(|item| &item.key).find(|key| !tried.contains(key)).cloned() else { return };
        let places = items.iter().filter(|item| item.bracket == b'[' && item.key == key).map(|item| item.place.clone());
        reducer.try_smaller(subject.with_body(without_places(&subject.body, places)));
        tried.push(key);
    }
}

/// Removes items of lists: arguments, attributes, parameters, axes.
pub(crate) fn remove_list_items(reducer: &mut Reducer) {
    let subject = reducer.best().clone();
    let items = list_items(&subject.body);
    remove_parts(items.len(), &mut |removed| {
        let gone = items.iter().zip(removed).filter(|(_, removed)| **removed).map(|(item, _)| item.place.clone());
        reducer.try_smaller(subject.with_body(without_places(&subject.body, gone)))
    });
}

/// Removes lines.
pub(crate) fn remove_lines(reducer: &mut Reducer) {
    let subject = reducer.best().clone();
    let lines: Vec<&str> = subject.body.split_inclusive('\n').collect();
    remove_parts(lines.len(), &mut |removed| {
        let kept = lines.iter().zip(removed).filter(|(_, removed)| !**removed).map(|(line, _)| *line);
        reducer.try_smaller(subject.with_body(kept.collect()))
    });
}

/// The items of all lists of a text, in the order of their ends.
fn list_items(text: &str) -> Vec<ListItem> {
    let mut items = Vec::new();
    // The place after each open bracket, and those of the commas in it.
    let mut open: Vec<(usize, Vec<usize>)> = Vec::new();
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => open.push((at + 1, Vec::new())),
            b',' => open.iter_mut().last().into_iter().for_each(|(_, commas)| commas.push(at)),
            b')' | b']' | b'}' => {
                let Some((start, commas)) = open.pop() else { continue };
                items.extend(items_between(text, start, &commas, at));
            }
            _ => {}
        }
    }
    items
}

fn items_between(text: &str, start: usize, commas: &[usize], end: usize) -> Vec<ListItem> {
    let bracket = text.as_bytes()[start - 1];
    let starts = std::iter::once(start).chain(commas.iter().map(|comma| comma + 1));
    let ends = commas.iter().copied().chain([end]);
    let item = |(at, (from, to)): (usize, (usize, usize))| {
        let key = axis_key(text[from..to].trim());
        // With the comma that follows, and for the last item the one in front of it.
        let place = if at < commas.len() { from..to + 1 } else { from - usize::from(at > 0)..to };
        ListItem { place, key, bracket }
    };
    let items = starts.zip(ends).enumerate().map(item);
    items.filter(|item| !item.key.is_empty()).collect()
}

/// The text of an axis without its number.
fn axis_key(text: &str) -> String {
    let letters = text.len() - text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '.').len();
    let digits = text[letters..].len() - text[letters..].trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[letters + digits..];
    if rest.starts_with('{') { format!("{}{rest}", &text[..letters]) } else { text.to_owned() }
}

/// A text without these places, which may overlap.
fn without_places(text: &str, places: impl Iterator<Item = Range<usize>>) -> String {
    let mut is_gone = vec![false; text.len()];
    for place in places {
        is_gone[place].fill(true);
    }
    mark_last_commas(text, &mut is_gone);
    let kept = text.char_indices().filter(|(at, _)| !is_gone[*at]).map(|(_, c)| c);
    kept.collect()
}

/// Marks a comma that would be the last thing of a list, because all items after it are gone.
fn mark_last_commas(text: &str, is_gone: &mut [bool]) {
    let bytes = text.as_bytes();
    let mut before: Option<usize> = None;
    for (at, byte) in bytes.iter().enumerate() {
        if is_gone[at] || byte.is_ascii_whitespace() {
            continue;
        }
        let follows_gap = before.is_some_and(|comma| is_gone[comma..at].contains(&true));
        if let Some(comma) = before.filter(|comma| b")]}".contains(byte) && bytes[*comma] == b',' && follows_gap) {
            is_gone[comma] = true;
        }
        before = Some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::{list_items, without_places};

    /// The text without the items of a key.
    fn without(text: &str, key: &str) -> String {
        let items = list_items(text);
        without_places(text, items.iter().filter(|item| item.key == key).map(|item| item.place.clone()))
    }

    #[test]
    fn items_go_with_a_comma() {
        assert_eq!(without("f(a, b[m, k], c)", "a"), "f( b[m, k], c)");
        assert_eq!(without("f(a, b[m, k], c)", "b[m, k]"), "f(a, c)");
        assert_eq!(without("f(a, b[m, k], c)", "c"), "f(a, b[m, k])");
        assert_eq!(without("f(a, b[m, k], c)", "k"), "f(a, b[m], c)");
        assert_eq!(without("T0[iS0{4}, iS1{i1}] = T1[iS7{i1}]", "iS{i1}"), "T0[iS0{4}] = T1[]");
        assert_eq!(without("f(a, a, a)", "a"), "f()");
        assert_eq!(without("f(b, a, a)", "a"), "f(b)");
        assert_eq!(without("{A, B, }, f(a)", "a"), "{A, B, }, f()");
    }
}
