//! Small changes of the lines that an error shows: a bound, an index or a comparison that is one off, and a number of a
//! rank that does not wrap around. A person writes these wrongly most; each is tried before it is proposed.

use super::lines::{indent_width, outer_lines};
use super::message_edits::{
    DefinedPeer, JoinedMessages, defined_peer_changes, has_message, joined_messages, message_changes, received_changes,
};
use super::part_change::PartChange;
use super::posts::{posts_without_name, take_name};
use super::slot_edits::{LongerMemory, longer_memory, slot_changes, team_changes};
use crate::diag::{Applicability, Diag, Fix, Span, codes};

/// Errors that such a change may repair.
const NEAR: &[&str] = &[
    codes::OUT_OF_RANGE,
    codes::UNWRITTEN_OUTPUT,
    codes::UNINITIALISED,
    codes::POSTS,
    codes::DEADLOCK,
    codes::DISAGREEMENT,
    codes::TEAM,
    codes::UNKNOWN_HANDLE,
    codes::RACE,
    codes::SHAPES,
    codes::DUPLICATE_NUMBER,
];

/// Errors that an index without its slot may cause.
const OF_SLOTS: &[&str] = &[codes::OUT_OF_RANGE, codes::RACE, codes::UNINITIALISED];

/// Errors that a collective among too many ranks may cause.
const OF_TEAMS: &[&str] = &[codes::SHAPES, codes::DEADLOCK, codes::DISAGREEMENT, codes::TEAM];

/// The maximum number of communications that may have the name of a `wait`.
const MOST_POSTS: usize = 4;

/// The maximum number of conditions that are tried.
const MOST_GUARDS: usize = 8;

/// The maximum number of changes for one error.
const MOST_EDITS: usize = 96;

/// Comparisons with those that differ in one value.
const COMPARISONS: &[[&str; 2]] = &[[" < ", " <= "], [" <= ", " < "], [" > ", " >= "], [" >= ", " > "]];

/// Errors that exchanged operands cause.
const OF_ORDER: &[&str] = &[codes::RANK, codes::SIZE_CONFLICT];

/// Errors about messages.
const OF_MESSAGES: &[&str] = &[codes::DEADLOCK, codes::DISAGREEMENT, codes::TEAM];

/// Returns true if an error may come from a slip of one, or from exchanged operands.
pub(super) fn may_be_near(diag: &Diag) -> bool {
    let is_sure = diag.fixes.iter().any(Fix::is_machine_applicable);
    let is_open = NEAR.contains(&diag.code) && diag.fixes.iter().all(|fix| fix.edits.is_empty());
    is_open || (OF_ORDER.contains(&diag.code) && !is_sure)
}

/// The statement at a place with its operands exchanged: `B -> A` for `A -> B`, `f(B, A)` for `f(A, B)`.
fn exchanged_operands(text: &str, place: Span) -> Vec<Fix> {
    let start = place.start as usize;
    let Some(statement) = text.get(place.as_usize_range()).filter(|statement| !statement.contains('\n')) else {
        return Vec::new();
    };
    let Some(open) = statement.find('(') else { return Vec::new() };
    let Some(first) = top_level_length(&statement[open + 1..]) else { return Vec::new() };
    let between = [" -> ", ", "].into_iter().find(|between| statement[open + 1 + first..].starts_with(between));
    let Some(between) = between else { return Vec::new() };
    let second_start = open + 1 + first + between.len();
    let Some(second) = top_level_length(&statement[second_start..]) else { return Vec::new() };
    let (one, other) = (&statement[open + 1..open + 1 + first], &statement[second_start..second_start + second]);
    if other.contains('=') || one == other {
        return Vec::new();
    }
    let new = format!("{other}{between}{one}");
    let shown = format!("{}{new}{}", &statement[..=open], &statement[second_start + second..]);
    let span = Span::new(start + open + 1, start + second_start + second);
    let fix = Fix::replacement(format!("exchange the operands, `{}`", shown.trim()), span, new);
    vec![Fix { applicability: Applicability::MaybeIncorrect, ..fix }]
}

/// The length of an operand: up to a comma, an arrow or a bracket outside of its own brackets.
fn top_level_length(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return Some(at),
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => return Some(at),
            ' ' if depth == 0 && text[at..].starts_with(" -> ") => return Some(at),
            _ => {}
        }
    }
    None
}

/// The changes of the lines that a diagnostic shows, and of the loops around its place.
pub(super) fn near_edits(text: &str, diag: &Diag) -> Vec<Fix> {
    if let Some(place) = diag.primary.as_ref().map(|label| label.span).filter(|_| diag.code == codes::UNKNOWN_HANDLE) {
        let name = text.get(place.as_usize_range()).unwrap_or_default();
        let posts = posts_without_name(text, place.start as usize);
        return posts.iter().take(MOST_POSTS).map(|post| take_name(text, post, name)).collect();
    }
    if OF_ORDER.contains(&diag.code) {
        return diag.primary.iter().flat_map(|label| exchanged_operands(text, label.span)).collect();
    }
    let shown = diag.primary.iter().chain(&diag.labels).map(|label| label.span.start as usize);
    let mut starts: Vec<usize> = Vec::new();
    for at in shown {
        let Some(start) = text.get(..at).map(|before| before.rfind('\n').map_or(0, |end| end + 1)) else { continue };
        starts.push(start);
        starts.extend(outer_lines(text, start));
    }
    if diag.code == codes::DEADLOCK {
        starts.extend(branches_of_messages(text));
    }
    let mut seen = rustc_hash::FxHashSet::default();
    starts.retain(|start| seen.insert(*start));
    let mut found: Vec<Fix> = starts.iter().flat_map(|&start| line_edits(text, start, diag.code)).collect();
    found.truncate(MOST_EDITS);
    found
}

/// The changes of slots in the lines that a race shows: an index with another divisor than its buffer has slots is hardly
/// meant, whatever orders the accesses.
pub(super) fn slot_edits(text: &str, diag: &Diag) -> Vec<Fix> {
    let labels = diag.primary.iter().chain(&diag.labels).filter(|_| diag.code == codes::RACE);
    let starts = labels.filter_map(|label| {
        let before = text.get(..label.span.start as usize)?;
        Some(before.rfind('\n').map_or(0, |end| end + 1))
    });
    let edits = starts.flat_map(|start| {
        let line = text[start..].lines().next().unwrap_or_default();
        let statement = line.split("//").next().unwrap_or_default();
        fixes_of(statement, start, slot_changes(text, statement))
    });
    edits.collect()
}

/// The first bytes of the branches that a rank's number decides and that have messages.
fn branches_of_messages(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if has_message(line) {
            let outer = outer_lines(text, start).into_iter().chain([start]);
            found.extend(outer.filter(|&at| text[at..].trim_start().starts_with("if rank")));
        }
        start += line.len();
    }
    found
}

/// The changes of messages in a line, then those by one. What is received elsewhere ends a race.
fn line_edits(text: &str, start: usize, code: &str) -> Vec<Fix> {
    let line = text[start..].lines().next().unwrap_or_default();
    let statement = line.split("//").next().unwrap_or_default();
    let mut changes = Vec::new();
    if OF_SLOTS.contains(&code) {
        changes.extend(slot_changes(text, statement));
    }
    if OF_TEAMS.contains(&code) {
        changes.extend(team_changes(text, statement));
    }
    if code == codes::OUT_OF_RANGE {
        changes.extend(guard_changes(text, statement, start));
    }
    if code == codes::RACE {
        changes.extend(received_changes(text, statement, start));
        return fixes_of(statement, start, changes);
    }
    let mut found = Vec::new();
    if code == codes::DUPLICATE_NUMBER {
        return joined_messages(text, start).map(joined_fix).into_iter().collect();
    }
    if OF_MESSAGES.contains(&code) && has_message(statement) {
        found.extend(joined_messages(text, start).map(joined_fix));
        found.extend(defined_peer_changes(text, statement).into_iter().map(defined_fix));
        changes.extend(message_changes(text, statement, start));
    }
    found.extend(fixes_of(statement, start, changes));
    found.extend(changes_by_one(text, statement, start));
    if code == codes::OUT_OF_RANGE {
        found.extend(longer_memory(text, statement).into_iter().map(declared_fix));
    }
    found
}

/// The edit that posts two messages as a group.
fn joined_fix(joined: JoinedMessages) -> Fix {
    let JoinedMessages { place, group } = joined;
    let fix = Fix::replacement(format!("write `{group}`"), Span::new(place.start, place.end), group);
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}

/// The changes by one in a line.
fn changes_by_one(text: &str, code: &str, start: usize) -> Vec<Fix> {
    if indent_width(code) == 0 {
        return Vec::new();
    }
    let mut changed: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    changed.extend(bound_changes(code));
    changed.extend(wrap_changes(text, code));
    changed.extend(index_changes(code));
    changed.extend(condition_changes(code));
    fixes_of(code, start, changed.into_iter().map(|(part, new)| PartChange::new(part, new, 0)).collect())
}

/// The edit that defines a peer as another rank.
fn defined_fix(peer: DefinedPeer) -> Fix {
    let place = Span::new(peer.place.start, peer.place.end);
    let fix = Fix::replacement(format!("write `{}`", peer.statement), place, peer.answer);
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}

/// The edit that declares memory with one slice more.
fn declared_fix(memory: LongerMemory) -> Fix {
    let place = Span::new(memory.place.start, memory.place.end);
    let fix = Fix::replacement(format!("declare `{}`", memory.declared), place, memory.extent);
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}

/// A statement without a condition under those of other lines, and after the first step of the loops around it.
fn guard_changes(text: &str, code: &str, start: usize) -> Vec<PartChange> {
    let own = indent_width(code);
    if own == 0 || ["if ", "for ", "else", "stream "].iter().any(|word| code[own..].starts_with(word)) {
        return Vec::new();
    }
    let heads = outer_lines(text, start).into_iter().map(|line| text[line..].trim_start());
    let indices = heads.filter_map(|head| head.strip_prefix("for ")?.split_once(" in ")).map(|(index, _)| index);
    let mut guards: Vec<String> = indices.map(|index| format!("if {index} > 0: ")).collect();
    for line in text.lines() {
        let head = line.trim_start().strip_prefix("if ").and_then(|rest| rest.split_once(": "));
        guards.extend(head.map(|(condition, _)| format!("if {condition}: ")));
    }
    let mut seen = rustc_hash::FxHashSet::default();
    guards.retain(|guard| seen.insert(guard.clone()));
    guards.into_iter().take(MOST_GUARDS).map(|guard| PartChange::new(own..own, guard, 0)).collect()
}

/// The changes of a line as fixes, which say the line to write.
fn fixes_of(code: &str, start: usize, changes: Vec<PartChange>) -> Vec<Fix> {
    let fixes = changes.into_iter().map(|change| {
        let shown = format!("{}{}{}", &code[..change.part.start], change.text, &code[change.part.end..]);
        let place = Span::new(start + change.part.start, start + change.part.end);
        let fix = Fix::replacement(format!("write `{}`", shown.trim()), place, change.text);
        Fix { applicability: Applicability::MaybeIncorrect, ..fix }
    });
    fixes.collect()
}

/// Other bounds of a loop: one more, one less, and from 0.
fn bound_changes(code: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let own = indent_width(code);
    let Some(at) = code.find(" in ").filter(|_| code[own..].starts_with("for ")) else { return Vec::new() };
    let begin = at + 4;
    let Some(length) = code[begin..].find(" on ").or_else(|| code[begin..].find(':')) else { return Vec::new() };
    let bound = &code[begin..begin + length];
    let mut others: Vec<String> = Vec::new();
    others.extend([" + 1", " - 1"].iter().filter_map(|shift| Some(bound.strip_suffix(shift)?.to_owned())));
    others.extend(bound.strip_prefix("1..").map(str::to_owned));
    others.extend(match bound.parse::<i64>() {
        Ok(count) => [1, -1].map(|shift| count.saturating_add(shift).to_string()),
        Err(_) => [format!("{bound} + 1"), format!("{bound} - 1")],
    });
    others.into_iter().map(|other| (begin..begin + length, other)).collect()
}

/// Indices without their shift by one, or with one.
fn index_changes(code: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let mut found = Vec::new();
    for shift in [" + 1", " - 1"] {
        for (at, _) in code.match_indices(shift) {
            let is_index = code[..at].matches('[').count() > code[..at].matches(']').count();
            if is_index {
                found.push((at..at + shift.len(), String::new()));
            }
        }
    }
    for (at, _) in code.match_indices('[') {
        let Some(length) = code[at..].find(']') else { continue };
        let index = &code[at + 1..at + length];
        if index.bytes().all(|byte| byte.is_ascii_lowercase()) && !["own", "rank"].contains(&index) {
            found.extend([" + 1", " - 1"].map(|shift| (at + 1..at + length, format!("{index}{shift}"))));
        }
    }
    found
}

/// Comparisons with one value more or less.
fn condition_changes(code: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let own = indent_width(code);
    let Some(end) = code.find(':').filter(|_| code[own..].starts_with("if ")) else { return Vec::new() };
    let mut found = dropped_conditions(code, own + "if ".len()..end);
    for [old, new] in COMPARISONS {
        found.extend(code[..end].match_indices(old).map(|(at, _)| (at..at + old.len(), (*new).to_owned())));
        for (at, _) in code[..end].match_indices(old) {
            let begin = at + old.len();
            let length = code[begin..end].bytes().take_while(u8::is_ascii_digit).count();
            let Ok(number) = code[begin..begin + length].parse::<i64>() else { continue };
            let others = [number.checked_sub(1).filter(|less| *less >= 0), number.checked_add(1)];
            found.extend(others.into_iter().flatten().map(|other| (begin..begin + length, other.to_string())));
        }
    }
    found
}

/// A condition without one of the parts that `&&` joins.
fn dropped_conditions(code: &str, whole: std::ops::Range<usize>) -> Vec<(std::ops::Range<usize>, String)> {
    let parts: Vec<&str> = code[whole.clone()].split(" && ").collect();
    if parts.len() < 2 {
        return Vec::new();
    }
    let fewer = (0..parts.len()).rev().map(|dropped| {
        let kept = parts.iter().enumerate().filter(|(at, _)| *at != dropped).map(|(_, part)| *part);
        (whole.clone(), kept.collect::<Vec<&str>>().join(" && "))
    });
    fewer.collect()
}

/// Numbers that wrap around: `wrap(a, n)` for `(a) % n`, and for a peer beyond the last rank.
fn wrap_changes(text: &str, code: &str) -> Vec<(std::ops::Range<usize>, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(") % ") {
        let Some(open) = code[..at].rfind('(') else { continue };
        let count: String = code[at + 4..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        found.push((open..at + 4 + count.len(), format!("wrap({}, {count})", &code[open + 1..at])));
    }
    let Some(ranks) = text.lines().find_map(|line| line.strip_prefix("mesh ")?.split_once(" = 0..")).map(|(_, to)| to)
    else {
        return found;
    };
    for key in ["to=", "from="] {
        for (at, _) in code.match_indices(key) {
            let begin = at + key.len();
            let length = code[begin..].find([',', ')']).unwrap_or(code.len() - begin);
            let peer = &code[begin..begin + length];
            if !peer.contains(['(', '%']) && peer.contains(['+', '-']) {
                found.push((begin..begin + length, format!("wrap({peer}, {})", ranks.trim())));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_and_one_less() {
        let text = "mesh d = 0..p\n  for s in p + 1 on streams:\n    if s < p: send(A[s], to=rank + 1)\n";
        let edits = |needle: &str| {
            let start = text.find(needle).map_or(0, |at| at - 4);
            line_edits(text, text[..start + 4].rfind('\n').map_or(0, |end| end + 1), codes::POSTS)
                .into_iter()
                .map(|fix| fix.message.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert!(edits("for s").contains(&"write `for s in p on streams:`".to_owned()));
        assert!(edits("if s").contains(&"write `if s <= p: send(A[s], to=rank + 1)`".to_owned()));
        assert!(edits("if s").contains(&"write `if s < p: send(A[s], to=wrap(rank + 1, p))`".to_owned()));
        assert!(edits("if s").contains(&"write `if s < p: send(A[s + 1], to=rank + 1)`".to_owned()));
    }
}
