//! Slips: small changes of a line that a person may have meant, in the order in which they are likely. Which of them
//! was meant shows only when the whole program is tried with it.

use super::lines::indent_width;
use super::missing_parts::{missing_operands, missing_permutations, missing_types, other_flag_counts};
use super::part_change::{PartChange, argument_value, comma_parts, split_operands};
use super::statement_slips::{communicated, is_collective_call, other_accesses, whole_changes};
use super::type_slips::{AxisWords, type_slips};
use super::usage::word_places;
use crate::diag::{Applicability, Diag, Fix, Span, TextEdit, codes};
use crate::symbols::{SymbolKind, SymbolTable};
use std::ops::Range;

/// Words between the two sides of an operation that are exchanged.
const BETWEEN: &[&str] = &[" - ", " / ", " <= ", " < "];

/// Statements whose operands are left as they are.
const FIXED: &[&str] = &["free ", "launch ", "share ", "alias "];

/// Errors that another collective than the one that is meant causes: of elements and axes, not of teams and roots.
const OF_COLLECTIVES: &[&str] = &[
    codes::RANK,
    codes::EXTENT,
    codes::SIZE_CONFLICT,
    codes::SHAPES,
    codes::LAYOUT,
    codes::LOCAL_PART,
    codes::REPLICAS,
    codes::UNWRITTEN_OUTPUT,
    codes::UNINITIALISED,
];

/// The flags of broadcasts that add an axis.
const ADDED_AXES: &[&str] = &["false, true", "true, false", "false, false, true", "false, true, false"];

/// Names for tensors that a change adds, as messages propose them.
const FREE_NAMES: &[&str] = &["U", "V", "W", "Z", "U2"];

/// A change of a line.
#[derive(Clone, Debug)]
pub(super) struct Slip {
    pub(super) fix: Fix,
    /// The number of its line, from 0.
    pub(super) line: usize,
    /// The doubt whether it was meant: 0 for none.
    pub(super) doubt: u32,
}

/// The text around a line.
pub(super) struct SlipContext<'t> {
    pub(super) text: &'t str,
    pub(super) table: &'t SymbolTable,
    pub(super) axes: AxisWords,
    /// The code of the error.
    pub(super) code: &'static str,
}

impl<'t> SlipContext<'t> {
    pub(super) fn new(text: &'t str, table: &'t SymbolTable, diag: &Diag) -> Self {
        Self { text, table, axes: AxisWords::of_text(text).with_named(diag), code: diag.code }
    }

    /// The slips of the line that begins at a byte.
    pub(super) fn line_slips(&self, line: usize, start: usize) -> Vec<Slip> {
        let whole = self.text[start..].lines().next().unwrap_or_default();
        let code = whole.split("//").next().unwrap_or_default();
        let mut slips: Vec<Slip> = Vec::new();
        for found in type_slips(code, &self.axes) {
            let said = format!("declare `{}`", found.declared);
            slips.push(Slip { fix: fix_of(said, start, found.change), line, doubt: found.doubt });
        }
        let is_fixed = FIXED.iter().any(|word| code.trim_start().starts_with(word));
        if indent_width(code) == 0 || (is_fixed && self.code != codes::LAUNCH_REFERENCE) {
            return slips;
        }
        let changes = if is_fixed { other_accesses(code) } else { self.statement_changes(code, start) };
        for change in changes {
            let doubt = change.doubt;
            let shown = format!("{}{}{}", &code[..change.part.start], change.text, &code[change.part.end..]);
            slips.push(Slip { fix: fix_of(format!("write `{}`", shown.trim()), start, change), line, doubt });
        }
        slips
    }

    fn statement_changes(&self, code: &str, start: usize) -> Vec<PartChange> {
        let mut found = whole_changes(code);
        found.retain(|change| match is_collective_call(&change.text) {
            true => OF_COLLECTIVES.contains(&self.code) && !self.has_lost_parts(&change.text, start),
            false => true,
        });
        match self.code {
            codes::NO_TYPE => {
                found.extend(missing_types(self.text, code));
                found.extend(missing_permutations(code));
            }
            codes::FLAGS => found.extend(other_flag_counts(code)),
            codes::MISSING_ARGUMENT => found.extend(missing_operands(code, &self.unnamed_tensors(start))),
            _ => {}
        }
        found.extend(list_changes(code));
        found.extend(side_changes(code));
        found.extend(operand_orders(code));
        found.extend(self.argument_changes(code, start));
        found.extend(self.index_changes(code, start));
        found.extend(self.tensor_changes(code, start));
        found.extend(self.wrapped_values(code));
        found
    }

    /// Statements of which an operand is converted, permuted, or gets an axis, on a line of its own before.
    pub(super) fn prepared_operands(&self, line: usize, start: usize) -> Vec<Slip> {
        let whole = self.text[start..].lines().next().unwrap_or_default();
        let code = whole.split("//").next().unwrap_or_default();
        let (Some(free), Some(equals)) = (self.unused_name(), code.find(" = ")) else { return Vec::new() };
        let body = code[..equals].rfind(": ").map_or(indent_width(code), |at| at + 2);
        if indent_width(code) == 0 || code[..body].trim_start().starts_with("if ") {
            return Vec::new();
        }
        let indent = &code[..indent_width(code)];
        let mut found = Vec::new();
        for part in self.tensors_of(code, start).into_iter().filter(|part| part.start > equals) {
            let end = index_list(code, part.end).and_then(|list| list.last().map(|last| last.end + 1));
            let part = part.start..end.unwrap_or(part.end);
            let operand = &code[part.clone()];
            // An index may be the first of its type in a text.
            let index = Some("i64").filter(|index| self.axes.elements.iter().all(|known| known != index));
            let elements = self.axes.elements.iter().map(String::as_str).chain(index);
            let casts = elements.map(|element| (format!("{element}({operand})"), 2));
            let broadcasts = ADDED_AXES.iter().map(|flags| (format!("broadcast({operand}, flags=[{flags}])"), 2));
            let permuted = std::iter::once((format!("Set.Permute({operand}, perm=[1, 0])"), 4));
            for (value, doubt) in casts.chain(broadcasts).chain(permuted) {
                let added = format!("{free} = {value}");
                let said = format!("write `{added}` in front of this, and `{free}` here in the place of `{operand}`");
                let place = Span::new(start + part.start, start + part.end);
                let mut fix = Fix::replacement(said, place, free.clone());
                let above = TextEdit { span: Span::new(start, start), text: format!("{indent}{added}\n") };
                fix.edits.insert(0, above);
                found.push(Slip { fix, line, doubt });
            }
        }
        found
    }

    /// The result of the line with the name that an error misses.
    pub(super) fn named_result(&self, line: usize, start: usize, missing: &str) -> Option<Slip> {
        let code = self.text[start..].lines().next()?.split("//").next()?;
        let (own, equals) = (indent_width(code), code.find(" = ")?);
        let name = code[own..equals].split([':', '[']).next()?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if own == 0 || !is_name || name == missing || missing.is_empty() {
            return None;
        }
        let shown = format!("{missing}{}", &code[own + name.len()..]);
        let change = PartChange::new(own..own + name.len(), missing, 3);
        Some(Slip { fix: fix_of(format!("write `{}`", shown.trim()), start, change), line, doubt: 3 })
    }

    /// A letter that names nothing.
    pub(super) fn unused_name(&self) -> Option<String> {
        let names = FREE_NAMES.iter().map(|name| (*name).to_owned());
        names.into_iter().find(|name| self.table.symbols().iter().all(|symbol| symbol.name != *name))
    }

    /// Tensors with one more axis, of which each iteration of a loop writes or reads its own part.
    pub(super) fn added_parts(&self, line: usize, start: usize) -> Vec<Slip> {
        let whole = self.text[start..].lines().next().unwrap_or_default();
        let Some((name, first)) = local_type(whole) else { return Vec::new() };
        let mut found = Vec::new();
        for head in self.text[start..].match_indices("for ").map(|(at, _)| start + at) {
            let Some((index, count)) = loop_words(&self.text[head..]) else { continue };
            let uses = self.unindexed_uses(name, head);
            if uses.is_empty() {
                continue;
            }
            let at = Span::new(start + first, start + first);
            let mut edits = vec![TextEdit { span: at, text: format!("{count}, ") }];
            edits.extend(uses.into_iter().map(|at| TextEdit { span: Span::new(at, at), text: format!("[{index}]") }));
            let declared = format!("{}{count}, {}", &whole[..first], &whole[first..]);
            let declared = declared.split(" = ").next().unwrap_or_default().trim();
            let said = format!("declare `{declared}`, and write `{name}[{index}]` in the loop of `{index}`");
            let fix = Fix { message: said.into(), edits, applicability: Applicability::MaybeIncorrect };
            found.push(Slip { fix, line, doubt: 3 });
        }
        found
    }

    /// The ends of the places of a name without an index in the loop whose head begins at a byte.
    fn unindexed_uses(&self, name: &str, head: usize) -> Vec<usize> {
        let line_start = self.text[..head].rfind('\n').map_or(0, |at| at + 1);
        let depth = indent_width(&self.text[line_start..]);
        let mut end = line_start;
        for (number, line) in self.text[line_start..].split_inclusive('\n').enumerate() {
            if number > 0 && indent_width(line) <= depth && !line.trim().is_empty() {
                break;
            }
            end += line.len();
        }
        let words = word_places(&self.text[head..end]).into_iter();
        let uses = words.filter(|word| &self.text[head + word.start..head + word.end] == name);
        uses.map(|word| head + word.end).filter(|end| !self.text[*end..].starts_with(['[', ':'])).collect()
    }

    /// The names of a kind that a place may mean.
    fn names_at(&self, at: usize, kinds: &[SymbolKind]) -> Vec<&'t str> {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let symbols = self.table.visible_at(at).filter(|symbol| kinds.contains(&symbol.kind));
        symbols.filter(|symbol| symbol.declaration.start < at).map(|symbol| symbol.name.as_str()).collect()
    }

    /// Returns true if an index of a loop is a word of a text.
    fn is_index(&self, text: &str, at: usize) -> bool {
        let indices = self.names_at(at, &[SymbolKind::Index]);
        word_places(text).into_iter().any(|word| indices.contains(&&text[word]))
    }

    /// Other tensors in the place of each one.
    fn tensor_changes(&self, code: &str, start: usize) -> Vec<PartChange> {
        let others = self.names_at(start + code.len(), &[SymbolKind::Tensor]);
        let unread = self.unread_tensors();
        let mut found = Vec::new();
        for part in self.tensors_of(code, start) {
            let own = &code[part.clone()];
            // One operand twice is rarely meant.
            let others = others.iter().filter(|other| **other != own);
            for other in others.filter(|other| word_places(code).into_iter().all(|word| code[word] != ***other)) {
                found.push(PartChange::new(part.clone(), *other, if unread.contains(other) { 2 } else { 4 }));
            }
        }
        found
    }

    /// The tensors that are declared before a byte and named nowhere else.
    fn unnamed_tensors(&self, start: usize) -> Vec<&'t str> {
        let tensors = self.table.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Tensor);
        let before = tensors.filter(|symbol| (symbol.declaration.start as usize) < start && symbol.places.len() == 1);
        before.map(|symbol| symbol.name.as_str()).collect()
    }

    /// The local tensors that no statement reads.
    fn unread_tensors(&self) -> Vec<&'t str> {
        let tensors = self.table.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Tensor);
        let unread = tensors.filter(|symbol| {
            let mut places =
                symbol.places.iter().map(|place| self.text.get(..place.start as usize).unwrap_or_default());
            places.all(|before| {
                let start = before.rfind('\n').map_or(0, |at| at + 1);
                let is_first = !before[start..].is_empty() && before[start..].trim().is_empty();
                is_first || before.ends_with("-> ")
            })
        });
        unread.map(|symbol| symbol.name.as_str()).collect()
    }

    /// The places of tensors that are declared elsewhere, and of names that mean nothing.
    fn tensors_of(&self, code: &str, start: usize) -> Vec<Range<usize>> {
        let words = word_places(code).into_iter().filter(|part| {
            let symbol = self.table.symbol_at(u32::try_from(start + part.start).unwrap_or(u32::MAX));
            let is_typed = code[part.end..].starts_with(": ");
            let is_called = code[part.end..].starts_with(['(', '=']);
            let is_unknown = || {
                let is_upper = code[part.clone()].starts_with(|c: char| c.is_ascii_uppercase());
                is_upper || self.code == codes::UNKNOWN_SCALAR && !is_called
            };
            !is_typed && symbol.map_or_else(is_unknown, |symbol| symbol.kind == SymbolKind::Tensor)
        });
        words.collect()
    }

    /// Other indices, one less and one more.
    fn index_changes(&self, code: &str, start: usize) -> Vec<PartChange> {
        // A program without ranks has no parts of them.
        let of_ranks = [("own", "x:"), ("own", "y:"), ("rank", "rank")];
        let known = of_ranks.iter().filter(|(_, sign)| self.text.contains(sign)).map(|(word, _)| *word);
        let mut words_here: Vec<&str> = known.collect();
        words_here.dedup();
        words_here.extend(self.names_at(start + code.len(), &[SymbolKind::Scalar, SymbolKind::Index]));
        let mut found = Vec::new();
        for part in self.tensors_of(code, start) {
            match index_list(code, part.end) {
                None => {
                    let own = &code[part.clone()];
                    let is_used = |number: &str| {
                        let used = format!("{own}[{number}]");
                        self.text.lines().filter_map(|line| line.split("//").next()).any(|code| code.contains(&used))
                    };
                    let by_number = ["0", "1", "2"].into_iter().any(is_used);
                    let is_number =
                        |number: &&str| self.code == codes::RANK && self.text.contains(&format!("[{number}"));
                    let numbers = ["0", "1"].into_iter().filter(is_number);
                    // The numbers that other statements leave out.
                    let left = ["0", "1", "2"].into_iter().filter(|number| by_number && !is_used(number));
                    let first =
                        left.take(1).map(|number| PartChange::new(part.end..part.end, format!("[{number}]"), 1));
                    found.extend(first);
                    // With the rank's part of an operand alone a whole result would differ between ranks.
                    let is_part = |word: &&str| *word != "own" || self.code != codes::HALF_LOWERED;
                    let added = words_here.iter().copied().filter(is_part).chain(numbers);
                    found.extend(added.map(|word| PartChange::new(part.end..part.end, format!("[{word}]"), 3)));
                }
                Some(list) => found.extend(changed_indices(code, part.end, &list, &words_here)),
            }
        }
        found
    }

    /// Scalars and indices that wrap around at the number of ranks.
    fn wrapped_values(&self, code: &str) -> Vec<PartChange> {
        let Some(count) = self.axes.rank_count.as_deref() else { return Vec::new() };
        let is_shifted = |value: &str| !value.contains(['(', '{', ',', '%', '[']) && value.contains([' ', '-']);
        let mut values: Vec<Range<usize>> = Vec::new();
        let own = indent_width(code);
        if let Some(equals) = code.find(" = ").filter(|at| code[own..*at].bytes().all(|byte| byte.is_ascii_lowercase()))
        {
            values.push(equals + 3..code.trim_end().len());
        }
        for (open, _) in code.match_indices('[') {
            let Some(close) = code[open..].find(']').map(|length| open + length) else { continue };
            values.extend(comma_parts(code, open + 1..close));
        }
        let values = values.into_iter().filter(|value| {
            let text = &code[value.clone()];
            is_shifted(text) && [" + ", " - "].iter().any(|sign| text.contains(sign)) && text.contains("rank")
        });
        values.map(|value| PartChange::new(value.clone(), format!("wrap({}, {count})", &code[value]), 1)).collect()
    }

    /// Other axes of teams, and other roots.
    fn argument_changes(&self, code: &str, start: usize) -> Vec<PartChange> {
        let mut found = Vec::new();
        if let Some(part) = argument_value(code, "over=") {
            let others = self.axes.team_axes.iter().filter(|other| **other != code[part.clone()]);
            let doubt = u32::from(self.code != codes::LOCAL_PART);
            found.extend(others.map(|other| PartChange::new(part.clone(), other.clone(), doubt)));
        } else if let Some([_, result]) = communicated(code).filter(|_| !code.contains("team=")) {
            // Without it all ranks of a mesh are one team.
            let others = self.axes.team_axes.iter();
            let end = result.end;
            found.extend(others.map(|other| PartChange::new(end..end, format!(", over={other}"), 1)));
        }
        let Some(part) = argument_value(code, "root=") else { return found };
        let root = &code[part.clone()];
        let shifted = [" + 1", " - 1"].iter().filter_map(|shift| root.strip_suffix(shift));
        found.extend(shifted.map(|root| PartChange::new(part.clone(), root, 0)));
        if [codes::ROOT, codes::TEAM].contains(&self.code)
            && root.parse::<i64>().is_err()
            && root.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            // The number of ranks, where the last one is meant.
            found.push(PartChange::new(part.clone(), format!("{root} - 1"), 0));
        }
        found.extend(self.axes.named_roots().map(|other| PartChange::new(part.clone(), other, 0)));
        let others = self.names_at(start + code.len(), &[SymbolKind::Index, SymbolKind::Scalar]);
        // A root that a loop changes is hardly meant as a constant.
        let constant = (root.parse::<i64>().is_ok() || !self.is_index(root, start)).then_some("0");
        let others = others.into_iter().chain(constant).filter(|other| *other != root);
        found.extend(others.map(|other| PartChange::new(part.clone(), other, 3)));
        match code.find(", root_as=position") {
            Some(at) => found.push(PartChange::new(at..at + ", root_as=position".len(), "", 2)),
            None => found.push(PartChange::new(part.end..part.end, ", root_as=position", 2)),
        }
        found
    }
}

fn fix_of(said: String, start: usize, change: PartChange) -> Fix {
    let span = Span::new(start + change.part.start, start + change.part.end);
    Fix { applicability: Applicability::MaybeIncorrect, ..Fix::replacement(said, span, change.text) }
}

/// The indices of a tensor whose name ends at a byte, each with its place.
fn index_list(code: &str, name_end: usize) -> Option<Vec<Range<usize>>> {
    let inner = code[name_end..].strip_prefix('[')?;
    let close = inner.find(']')?;
    Some(comma_parts(code, name_end + 1..name_end + 1 + close))
}

/// Other indices in the place of each one, without one, with one more, and exchanged.
fn changed_indices(code: &str, name_end: usize, list: &[Range<usize>], words: &[&str]) -> Vec<PartChange> {
    let mut found = Vec::new();
    let texts: Vec<&str> = list.iter().map(|part| &code[part.clone()]).collect();
    let whole = name_end + 1..list.last().map_or(name_end + 1, |part| part.end);
    for (at, part) in list.iter().enumerate() {
        for word in words.iter().filter(|word| **word != texts[at]) {
            let doubt = if *word == "own" || texts[at] == "own" || texts[at] == "0" { 1 } else { 3 };
            found.push(PartChange::new(part.clone(), *word, doubt));
        }
        let mut fewer = texts.clone();
        fewer.remove(at);
        match fewer.is_empty() {
            true => found.push(PartChange::new(name_end..whole.end + 1, "", 3)),
            false => found.push(PartChange::new(whole.clone(), fewer.join(", "), 3)),
        }
        if at > 0 {
            let mut swapped = texts.clone();
            swapped.swap(at - 1, at);
            found.push(PartChange::new(whole.clone(), swapped.join(", "), 1));
        }
        // The same index of a later axis.
        if at + 1 == texts.len() {
            let doubt = if texts[at] == "own" { 1 } else { 3 };
            let before = [":, ", ":, :, "].into_iter();
            found.extend(before.map(|axes| PartChange::new(part.start..part.start, axes, doubt)));
        }
    }
    for word in words.iter().filter(|word| list.len() == 1 || **word == "own") {
        let doubt = if *word == "own" { 2 } else { 6 };
        found.push(PartChange::new(whole.start..whole.start, format!("{word}, "), doubt));
        found.push(PartChange::new(whole.end..whole.end, format!(", {word}"), doubt));
    }
    found
}

/// Other orders of the words of `flags=[..]` and `perm=[..]`, and of the last number of `cat`.
fn list_changes(code: &str) -> Vec<PartChange> {
    let mut found = Vec::new();
    for key in ["flags=[", "perm=["] {
        let Some(begin) = code.find(key).map(|at| at + key.len()) else { continue };
        let Some(length) = code[begin..].find(']') else { continue };
        let whole = begin..begin + length;
        let words: Vec<&str> = code[whole.clone()].split(", ").collect();
        for first in 0..words.len() {
            for second in first + 1..words.len() {
                let mut other = words.clone();
                other.swap(first, second);
                if other != words {
                    found.push(PartChange::new(whole.clone(), other.join(", "), 1));
                }
            }
        }
    }
    if let Some(begin) = code.find("dim=").map(|at| at + "dim=".len()) {
        let length = code[begin..].bytes().take_while(u8::is_ascii_digit).count();
        let others = ["0", "1", "2"].into_iter().filter(|other| code[begin..begin + length] != **other);
        found.extend(others.map(|other| PartChange::new(begin..begin + length, other, 1)));
    }
    if let Some(open) = code.find("cat(") {
        let ends = code.rfind(", ").filter(|at| *at > open).zip(code.rfind(')'));
        if let Some((comma, close)) = ends.filter(|(comma, close)| comma + 2 < *close) {
            let others = ["0", "1", "2"].into_iter().filter(|other| code[comma + 2..close] != **other);
            found.extend(others.map(|other| PartChange::new(comma + 2..close, other, 1)));
        }
    }
    found
}

/// The two sides of an operator exchanged.
fn side_changes(code: &str) -> Vec<PartChange> {
    let sides = communicated(code).map(|[left, right]| {
        let exchanged = format!("{} -> {}", &code[right.clone()], &code[left.clone()]);
        PartChange::new(left.start..right.end, exchanged, 1)
    });
    let mut found: Vec<PartChange> = sides.into_iter().collect();
    for between in BETWEEN {
        let Some(at) = code.find(between) else { continue };
        let begin = code[..at].rfind([' ', '(']).map_or(0, |before| before + 1);
        let rest = &code[at + between.len()..];
        let length = rest.find([' ', ',', ')']).unwrap_or(rest.len());
        let (left, right) = (&code[begin..at], &rest[..length]);
        let is_name = |side: &str| side.starts_with(|c: char| c.is_ascii_uppercase());
        if is_name(left) && is_name(right) {
            let end = at + between.len() + length;
            found.push(PartChange::new(begin..end, format!("{right}{between}{left}"), 1));
        }
    }
    found
}

/// Other orders of the operands of a call: two exchanged, and each one in front.
fn operand_orders(code: &str) -> Vec<PartChange> {
    let Some(open) = code.find('(').filter(|open| code[..*open].contains(" = ")) else { return Vec::new() };
    let Some(close) = code.rfind(')').filter(|close| *close > open) else { return Vec::new() };
    let mut operands: Vec<&str> = split_operands(&code[open + 1..close]);
    operands.truncate(operands.iter().take_while(|operand| !operand.contains('=') && !operand.contains("->")).count());
    let whole = open + 1..open + 1 + operands.join(", ").len();
    let mut orders: Vec<(Vec<&str>, u32)> = Vec::new();
    for first in 0..operands.len() {
        for second in first + 1..operands.len() {
            let mut other = operands.clone();
            other.swap(first, second);
            let mut front = operands.clone();
            front[first..=second].rotate_right(1);
            // Between two others an operand is rather misplaced than exchanged.
            let doubt = if second - first > 1 { 5 } else { 1 };
            let mut back = operands.clone();
            back[first..=second].rotate_left(1);
            let doubt_of_back = if second - first > 1 { 3 } else { 1 };
            orders.extend([(front, 1), (back, doubt_of_back), (other, doubt)]);
        }
    }
    orders.retain(|(order, _)| *order != operands);
    orders.dedup_by(|one, other| one.0 == other.0);
    orders.into_iter().map(|(order, doubt)| PartChange::new(whole.clone(), order.join(", "), doubt)).collect()
}

/// The name of a tensor that a line declares with `alloc`, and the place of its first axis.
fn local_type(line: &str) -> Option<(&str, usize)> {
    let (head, value) = line.split_once(" = ")?;
    let (name, ty) = head.split_once(": ").filter(|_| value.starts_with("alloc") && line.starts_with(' '))?;
    Some((name.trim_start(), head.len() - ty.len() + ty.find('[')? + 1))
}

/// The index of a loop and the number of its iterations: `j` and `p` of `for j in p:`.
fn loop_words(head: &str) -> Option<(&str, &str)> {
    let (index, rest) = head.strip_prefix("for ")?.split_once(" in ")?;
    let count = rest.split([':', ' ']).next()?;
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_word(index) && is_word(count)).then_some((index, count))
}
