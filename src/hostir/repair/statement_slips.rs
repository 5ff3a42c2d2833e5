//! Slips of a statement as a whole: another collective, results in another order, and lists in the order of another
//! library.

use super::lines::indent_width;
use super::part_change::{PartChange, argument_value, comma_parts, split_operands};
use std::ops::Range;

/// Collectives that reduce, and those that do not.
const COLLECTIVES: &[&[&str]] =
    &[&["allreduce", "reduce_scatter", "reduce"], &["allgather", "gather", "broadcast", "scatter", "all_to_all"]];

/// Collectives with a root.
const ROOTED: &[&str] = &["reduce", "gather", "broadcast", "scatter"];

/// Collectives without a root, which one may take for each other.
const WITHOUT_ROOT: &[&str] = &["allreduce", "reduce_scatter", "allgather"];

/// The doubt about a collective that does something else with the elements.
const OF_OTHER_PURPOSE: u32 = 2;

/// The doubt about a collective with a root in the place of one without.
const OF_ROOT: u32 = 4;

/// The axes in front of which a list of widths may lack pairs.
const MOST_ADDED: usize = 2;

/// The changes of a statement as a whole.
pub(super) fn whole_changes(code: &str) -> Vec<PartChange> {
    let mut found = other_collectives(code);
    found.extend(exchanged_results(code));
    found.extend(other_widths(code));
    found.extend(other_ranges(code));
    found
}

/// The place of a call's name, and of what is in its brackets.
fn call_places(code: &str, name: &str) -> Option<(Range<usize>, Range<usize>)> {
    let own = indent_width(code);
    let at = code.match_indices(name).map(|(at, _)| at).find(|&at| {
        let is_begin = at == own || code[..at].ends_with(' ');
        is_begin && code[at + name.len()..].starts_with('(')
    })?;
    let open = at + name.len() + 1;
    let mut depth = 0;
    let close = code[open..].char_indices().find(|(_, letter)| {
        let is_end = *letter == ')' && depth == 0;
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        is_end
    });
    Some((at..open - 1, open..open + close?.0))
}

/// Other collectives between the same tensors.
fn other_collectives(code: &str) -> Vec<PartChange> {
    let all: Vec<&str> = COLLECTIVES.concat();
    let Some((own, (name, list))) = all.iter().find_map(|own| Some((*own, call_places(code, own)?))) else {
        return Vec::new();
    };
    let arguments = split_operands(&code[list.clone()]);
    let others = all.iter().copied().filter(|other| *other != own && are_near(own, other));
    let changes = others.map(|other| {
        let is_rooted = ROOTED.contains(&other);
        let kept = arguments.iter().copied().filter(|argument| match argument.split('=').next() {
            Some("op") => is_sum(other),
            Some("root" | "root_as") => is_rooted,
            _ => true,
        });
        let mut kept: Vec<&str> = kept.collect();
        let has_root = kept.iter().any(|argument| argument.starts_with("root="));
        if is_rooted && !has_root {
            kept.insert(1.min(kept.len()), "root=0");
        }
        let doubt = if is_sum(own) == is_sum(other) { 0 } else { OF_OTHER_PURPOSE };
        let doubt = match (ROOTED.contains(&own), is_rooted) {
            (false, true) => doubt + OF_ROOT,
            (true, false) => doubt + 1,
            _ => doubt,
        };
        PartChange::new(name.start..list.end, format!("{other}({}", kept.join(", ")), doubt)
    });
    changes.collect()
}

/// Returns true for a text that begins with a collective.
pub(super) fn is_collective_call(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    COLLECTIVES.iter().any(|names| names.contains(&name))
}

/// Returns true for a collective that reduces.
fn is_sum(word: &str) -> bool {
    COLLECTIVES[0].contains(&word)
}

/// Returns true if one may take a collective for another one: where a sum is meant or is not, any that moves as many
/// elements fits in size.
fn are_near(one: &str, other: &str) -> bool {
    is_sum(one) == is_sum(other) || [one, other].iter().all(|name| WITHOUT_ROOT.contains(name))
}

/// The results on the left side of a statement, each with its type; none for a statement after a condition.
pub(super) fn result_list(code: &str) -> Option<(Range<usize>, Vec<&str>)> {
    let (own, equals) = (indent_width(code), code.find(" = ")?);
    let whole = own..equals;
    let results = split_operands(&code[whole.clone()]);
    let mut names = results.iter().map(|result| result.split([':', '[']).next().unwrap_or_default());
    let are_names =
        names.all(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    are_names.then_some((whole, results))
}

/// The results of a statement in another order: one in another place, or two exchanged.
fn exchanged_results(code: &str) -> Vec<PartChange> {
    let Some((whole, results)) = result_list(code) else { return Vec::new() };
    let mut orders: Vec<(Vec<&str>, u32)> = Vec::new();
    for first in 0..results.len() {
        for second in first + 1..results.len() {
            let [mut front, mut back, mut other] = [results.clone(), results.clone(), results.clone()];
            front[first..=second].rotate_right(1);
            back[first..=second].rotate_left(1);
            other.swap(first, second);
            orders.extend([(front, 0), (back, 0)]);
            orders.extend((second - first > 1).then_some((other, 2)));
        }
    }
    orders.into_iter().map(|(order, doubt)| PartChange::new(whole.clone(), order.join(", "), doubt)).collect()
}

/// The place of the list after the operand of a call: of what is in its brackets.
fn list_after_operand(code: &str, name: &str) -> Option<Range<usize>> {
    let (_, inner) = call_places(code, name)?;
    let open = inner.start + code[inner.clone()].find(", [")? + 3;
    let mut depth = 0;
    let close = code[open..inner.end].char_indices().find(|(_, letter)| {
        let is_end = *letter == ']' && depth == 0;
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        is_end
    });
    Some(open..open + close?.0)
}

/// Widths of a `pad` from the last axis on, as other libraries write them, with the other side of an axis, or for more
/// axes.
fn other_widths(code: &str) -> Vec<PartChange> {
    let Some(whole) = list_after_operand(code, "pad") else { return Vec::new() };
    let widths: Vec<&str> = comma_parts(code, whole.clone()).into_iter().map(|part| &code[part]).collect();
    if !widths.len().is_multiple_of(2) {
        return Vec::new();
    }
    let pairs: Vec<&[&str]> = widths.chunks(2).collect();
    let mut lists: Vec<(Vec<&str>, u32)> = Vec::new();
    let reversed: Vec<&str> = pairs.iter().rev().flat_map(|pair| pair.iter().copied()).collect();
    for count in 1..=MOST_ADDED {
        let none = vec!["0"; 2 * count];
        lists.push(([none.clone(), reversed.clone()].concat(), 1));
        lists.push(([widths.clone(), none].concat(), 2));
    }
    lists.push((reversed, 0));
    let others: Vec<[String; 2]> = widths.iter().map(|width| [shifted(width, 1), shifted(width, -1)]).collect();
    for (at, other) in others.iter().enumerate().flat_map(|(at, others)| others.iter().map(move |other| (at, other))) {
        let mut changed = widths.clone();
        changed[at] = other;
        lists.push((changed, 2));
    }
    for at in 0..pairs.len() {
        let mut turned = widths.clone();
        turned.swap(2 * at, 2 * at + 1);
        lists.push((turned, 2));
        for other in at + 1..pairs.len() {
            let mut moved = pairs.clone();
            moved.swap(at, other);
            lists.push((moved.concat(), 1));
        }
    }
    lists.retain(|(list, _)| *list != widths);
    lists.into_iter().map(|(list, doubt)| PartChange::new(whole.clone(), list.join(", "), doubt)).collect()
}

/// Ranges of a `slice` with a bound that is one off, a number of elements in the place of the end, or for the other
/// axis.
fn other_ranges(code: &str) -> Vec<PartChange> {
    let Some(whole) = list_after_operand(code, "slice") else { return Vec::new() };
    let list = &code[whole.clone()];
    let ranges: Vec<&str> = list.trim_start_matches('[').trim_end_matches(']').split("], [").collect();
    let mut found = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let bounds: Vec<&str> = range.split(", ").collect();
        let [start, stop, step] = bounds[..] else { return found };
        let mut others: Vec<(String, u32)> = Vec::new();
        for by in [1, -1] {
            others.push((format!("{}, {stop}, {step}", shifted(start, by)), 1));
            others.push((format!("{start}, {}, {step}", shifted(stop, by)), 1));
        }
        if start != "0" {
            let end = match (start.parse::<i64>(), stop.parse::<i64>()) {
                (Ok(start), Ok(count)) => start.saturating_add(count).to_string(),
                _ => format!("{start} + {stop}"),
            };
            others.push((format!("{start}, {end}, {step}"), 2));
        }
        for (other, doubt) in others.iter().filter(|(other, _)| !other.starts_with('-')) {
            let mut changed = ranges.clone();
            changed[at] = other;
            found.push(PartChange::new(whole.clone(), written_ranges(&changed), *doubt));
        }
        for other in at + 1..ranges.len() {
            let mut changed = ranges.clone();
            changed.swap(at, other);
            found.push(PartChange::new(whole.clone(), written_ranges(&changed), 1));
        }
    }
    found.retain(|change| change.text != *list);
    found
}

/// `[0, n, 1], [0, k, 1]`
fn written_ranges(ranges: &[&str]) -> String {
    format!("[{}]", ranges.join("], ["))
}

/// A bound one more or less: `n` for `n - 1` and 1.
fn shifted(bound: &str, by: i64) -> String {
    if let Ok(number) = bound.parse::<i64>() {
        return number.saturating_add(by).to_string();
    }
    let parts = [(" + ", 1), (" - ", -1)].into_iter().find_map(|(sign, factor)| {
        let (head, number) = bound.rsplit_once(sign)?;
        Some((head, factor * number.parse::<i64>().ok()?))
    });
    let (head, number) = parts.unwrap_or((bound, 0));
    match number.saturating_add(by) {
        0 => head.to_owned(),
        more @ 1.. => format!("{head} + {more}"),
        less => format!("{head} - {}", less.unsigned_abs()),
    }
}

/// Ops with several results: the declarations of those after the first, where `=` stands for the first one's type.
const RESULTS: &[(&str, &[&str])] = &[
    ("topk", &["I"]),
    ("sdpa", &["L", "S: i64[2]", "O: i64[]"]),
    ("sdpa_bwd", &["GK", "GV"]),
    ("Welford", &["V: =", "N: i64="]),
];

/// A statement with as many results as its op has. `declared` is the type of its first result, if the text has it, and
/// `is_free` tells names that the text does not have.
pub(super) fn completed_results(code: &str, declared: Option<&str>, is_free: impl Fn(&str) -> bool) -> Vec<PartChange> {
    let Some((whole, results)) = result_list(code) else { return Vec::new() };
    let known = RESULTS.iter().find(|(name, _)| call_places(code, name).is_some());
    let needed = known.map_or(1, |(_, rest)| rest.len() + 1);
    if results.len() > needed {
        let fewer = (0..results.len()).rev().map(|at| {
            let mut kept = results.clone();
            kept.remove(at);
            PartChange::new(whole.clone(), kept.join(", "), 0)
        });
        return fewer.collect();
    }
    let Some((_, rest)) = known else { return Vec::new() };
    let mut all: Vec<String> = results.iter().map(|result| (*result).to_owned()).collect();
    for added in rest.iter().skip(results.len() - 1) {
        let (name, ty) = added.split_once(": ").unwrap_or((added, ""));
        let numbered = (2..9).map(|number| format!("{name}{number}"));
        let Some(name) = std::iter::once(name.to_owned()).chain(numbered).find(|name| is_free(name)) else {
            return Vec::new();
        };
        let ty = match (ty, declared) {
            ("", _) => String::new(),
            ("=", Some(first)) => format!(": {first}"),
            (_, Some(first)) if ty.ends_with('=') => {
                let axes = first.find('[').map_or("", |open| &first[open..]);
                format!(": {}{axes}", ty.trim_end_matches('='))
            }
            _ if ty.ends_with('=') => return Vec::new(),
            _ => format!(": {ty}"),
        };
        all.push(format!("{name}{ty}"));
    }
    vec![PartChange::new(whole, all.join(", "), 0)]
}

/// A launch that declares to read all tensors of its kernel that it does not write, or to access them in another order.
pub(super) fn other_accesses(line: &str) -> Vec<PartChange> {
    if !line.trim_start().starts_with("launch ") {
        return Vec::new();
    }
    let [read, written] = ["reads(", "writes("].map(|key| AccessList::of_launch(line, key));
    let mut found = Vec::new();
    let passed = line.find("](").map(|at| at + 2);
    let passed = passed.and_then(|open| Some((open, line[open..].find(") ")? + open)));
    if let Some((open, close)) = passed {
        let tensors = split_operands(&line[open..close]).into_iter();
        let tensors: Vec<&str> = tensors.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())).collect();
        for (key, own, other) in [("reads(", &read, &written), ("writes(", &written, &read)] {
            let names = tensors.iter().copied().filter(|name| other.iter().all(|other| !other.names.contains(name)));
            let names = names.collect::<Vec<&str>>().join(", ");
            found.push(match own {
                Some(own) => PartChange::new(own.part.clone(), names, 0),
                None => PartChange::new(close + 1..close + 1, format!(" {key}{names})"), 0),
            });
        }
    }
    for AccessList { part, names } in [read, written].into_iter().flatten() {
        for first in 0..names.len() {
            for second in first + 1..names.len() {
                let mut other = names.clone();
                other.swap(first, second);
                found.push(PartChange::new(part.clone(), other.join(", "), 1));
            }
        }
    }
    found.retain(|change| change.text != line[change.part.clone()]);
    found
}

/// The tensors that a launch declares to access: those in the brackets of `reads(A, B)`.
struct AccessList<'c> {
    part: Range<usize>,
    names: Vec<&'c str>,
}

impl<'c> AccessList<'c> {
    fn of_launch(line: &'c str, key: &str) -> Option<Self> {
        let word = format!(" {key}");
        let open = line.find(&word)? + word.len();
        let close = open + line[open..].find(')')?;
        Some(Self { part: open..close, names: split_operands(&line[open..close]) })
    }
}

/// The operands of a communication, each with its place: `A` and `G` of `allgather(A -> G, over=g.x)`.
pub(super) fn communicated(code: &str) -> Option<[Range<usize>; 2]> {
    let arrow = code.find(" -> ")?;
    let open = code[..arrow].rfind('(')? + 1;
    let end = argument_value(&code[arrow..], " -> ")?.end;
    Some([open..arrow, arrow + 4..arrow + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(code: &str) -> Vec<String> {
        let changes = whole_changes(code).into_iter();
        changes.map(|one| format!("{}{}{}", &code[..one.part.start], one.text, &code[one.part.end..])).collect()
    }

    #[test]
    fn other_statements() {
        let found = texts("  wait allreduce(P -> Y, op=sum, over=g.x)");
        assert!(found.contains(&"  wait reduce_scatter(P -> Y, op=sum, over=g.x)".to_owned()), "{found:?}");
        assert!(found.contains(&"  wait reduce(P -> Y, root=0, op=sum, over=g.x)".to_owned()), "{found:?}");
        assert!(texts("  I, V = topk(R, k, dim=1)").contains(&"  V, I = topk(R, k, dim=1)".to_owned()));
        assert!(texts("  Y = pad(X[own], [1, 0, 0, 2])").contains(&"  Y = pad(X[own], [0, 2, 1, 0])".to_owned()));
        let found = texts("  Y = slice(X, [[1, n, 1], [0, k, 1]])");
        assert!(found.contains(&"  Y = slice(X, [[2, n, 1], [0, k, 1]])".to_owned()), "{found:?}");
        assert!(found.contains(&"  Y = slice(X, [[1, n - 1, 1], [0, k, 1]])".to_owned()), "{found:?}");
    }

    #[test]
    fn shifted_bounds() {
        let cases = [("n - 1", 1, "n"), ("n - 2", 1, "n - 1"), ("3", -1, "2"), ("p * t", 1, "p * t + 1")];
        cases.iter().for_each(|(bound, by, shown)| assert_eq!(shifted(bound, *by), *shown));
    }
}
