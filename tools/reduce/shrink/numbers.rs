//! Sizes: smaller integers in the place of equal ones, everywhere in the text, in either notation.

use crate::reducer::Reducer;
use std::collections::BTreeSet;
use std::ops::Range;

/// The most different integers that are tried in one go.
const MOST: usize = 64;

pub(crate) fn reduce_numbers(reducer: &mut Reducer) {
    let numbers: BTreeSet<u64> = integer_places(&reducer.best().body).into_iter().map(|(_, value)| value).collect();
    for value in numbers.into_iter().rev().filter(|value| *value > 1).take(MOST) {
        // Multiples, such as the product of an extent and a number of ranks, shrink with it.
        let is_smaller = try_map(reducer, |other| other.is_multiple_of(value).then_some(other / value));
        if is_smaller {
            continue;
        }
        for smaller in [1, 2, value / 2] {
            let is_smaller = smaller < value && try_map(reducer, |other| (other == value).then_some(smaller));
            if is_smaller {
                break;
            }
        }
    }
}

/// Replaces the integers for which `map` has another one.
fn try_map(reducer: &mut Reducer, map: impl Fn(u64) -> Option<u64>) -> bool {
    let subject = reducer.best().clone();
    let mut body = subject.body.clone();
    for (place, value) in integer_places(&subject.body).into_iter().rev() {
        if let Some(new) = map(value).filter(|_| value > 0) {
            body.replace_range(place, &new.to_string());
        }
    }
    reducer.try_smaller(subject.with_body(body))
}

/// The integers that are words of their own, with their places; not those of the line with the version.
fn integer_places(text: &str) -> Vec<(Range<usize>, u64)> {
    let bytes = text.as_bytes();
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte));
    let mut found = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let mut at = if line.split_whitespace().next() == Some("hir") { line.len() } else { 0 };
        while let Some(start) = line[at..].find(|c: char| c.is_ascii_digit()).map(|start| at + start) {
            let len = line[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len() - start);
            let place = line_start + start..line_start + start + len;
            at = start + len;
            let before = place.start.checked_sub(1).and_then(|before| bytes.get(before));
            // `4.` may end a sentence; `4.5` is no integer.
            let is_own = !is_word(before) && !is_word(bytes.get(place.end));
            if let Some(value) = text[place.clone()].parse().ok().filter(|_| is_own) {
                found.push((place, value));
            }
        }
        line_start += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::integer_places;

    #[test]
    fn integers_are_words() {
        let values = |text: &str| integer_places(text).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(values("hir 2\nA: f32[4, m*16] + 0x17 + 1.5, T3 x_7"), [4, 16]);
        assert_eq!(values("iS0{128}, (DeviceMesh{0 1})"), [128, 0, 1]);
    }
}
