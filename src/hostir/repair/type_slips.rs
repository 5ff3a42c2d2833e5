//! Slips of a declared type: axes that are exchanged, missing, too many or others, and the devices and elements.

use super::lines::indent_width;
use super::part_change::{PartChange, comma_parts};
use crate::diag::{Diag, Notation, codes};
use std::ops::Range;

/// The doubt about another type of an input or output: the caller has it.
const OF_HEAD: u32 = 3;

/// Errors about sizes, which name them.
const OF_SIZES: &[&str] = &[codes::SHAPES, codes::SIZE_CONFLICT, codes::EXTENT];

/// The value of an operation.
type Operation = fn(i64, i64) -> Option<i64>;

/// The operators of extents, the weakest first.
const OPERATORS: &[(&str, Operation)] =
    &[(" + ", i64::checked_add), (" - ", i64::checked_sub), (" * ", i64::checked_mul), (" / ", i64::checked_div)];

/// The doubt about an extent that fits none of the sizes of which an error tells.
const OF_ODD_SIZE: u32 = 4;

/// The words for axes and elements that a text has.
#[derive(Default)]
pub(super) struct AxisWords {
    /// Extents: `m`, `p * k`.
    extents: Vec<String>,
    /// Letters of axes over devices: `x`.
    letters: Vec<String>,
    /// Types of elements.
    pub(super) elements: Vec<String>,
    /// Meshes.
    meshes: Vec<String>,
    /// Axes of teams: `d.x`.
    pub(super) team_axes: Vec<String>,
    /// Extents over devices: `p`.
    sharded: Vec<String>,
    /// The number of ranks of a mesh from 0.
    pub(super) rank_count: Option<String>,
    /// Types of elements that one declaration has.
    rare: Vec<String>,
    /// The lists of axes of all declarations.
    lists: Vec<String>,
    /// The code in backquotes of the error, as `p * t`.
    named: Vec<String>,
    /// The numbers in what is said of sizes that do not fit.
    numbers: Vec<i64>,
    /// The extents on a rank of the result that an op makes, if an error tells them.
    made: Vec<i64>,
    /// The sizes that the text gives.
    sizes: Vec<(String, i64)>,
}

impl AxisWords {
    pub(super) fn of_text(text: &str) -> Self {
        let mut words = Self::default();
        let mut seen: Vec<String> = Vec::new();
        let mut lists: Vec<String> = Vec::new();
        for line in text.lines() {
            let code = line.split("//").next().unwrap_or_default();
            for ty in written_types(code) {
                seen.push(code[ty.element.clone()].to_owned());
                lists.push(code[ty.axes[0].start..ty.end - 1].to_owned());
                add_word(&mut words.elements, &code[ty.element.clone()]);
                for axis in &ty.axes {
                    let (prefix, extent) = split_axis(&code[axis.clone()]);
                    add_word(&mut words.extents, extent);
                    if let Some(letter) = prefix.strip_suffix(':').filter(|letter| letter.len() == 1) {
                        add_word(&mut words.letters, letter);
                        add_word(&mut words.sharded, extent);
                    }
                }
            }
            if let Some(sizes) = code.strip_prefix("sizes ") {
                for (name, value) in sizes.split(", ").filter_map(|size| size.split_once('=')) {
                    words.sizes.extend(value.trim().parse().ok().map(|value| (name.trim().to_owned(), value)));
                }
                sizes.split(", ").filter_map(|size| size.split('=').next()).for_each(|name| {
                    add_word(&mut words.extents, name.trim());
                });
            }
            words.add_mesh(code);
            for (at, _) in code.match_indices("% ") {
                let count = code[at + 2..].split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
                add_word(&mut words.extents, count);
            }
        }
        let is_rare = |element: &&String| seen.iter().filter(|other| other == element).count() == 1;
        words.rare = seen.iter().filter(is_rare).cloned().collect();
        words.lists = lists;
        if words.letters.is_empty() {
            words.letters.push("x".to_owned());
        }
        words
    }

    /// The words with those in the backquotes of an error.
    pub(super) fn with_named(mut self, diag: &Diag) -> Self {
        let labels = diag.primary.iter().chain(&diag.labels).map(|label| &label.text);
        for said in std::iter::once(&diag.message).chain(&diag.notes).chain(labels) {
            let said = said.in_notation(Notation::Hir2);
            said.as_str().split('`').skip(1).step_by(2).for_each(|code| add_word(&mut self.named, code));
            if let Some((_, made)) = said.as_str().split_once("makes the shape [") {
                let extents = made.split(']').next().unwrap_or_default().split(", ");
                self.made = extents.filter_map(|extent| extent.parse().ok()).collect();
            }
            if OF_SIZES.contains(&diag.code) {
                let numbers =
                    said.as_str().split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<i64>().ok());
                self.numbers.extend(numbers);
            }
        }
        self
    }

    /// The values after `root=` that an error names.
    pub(super) fn named_roots(&self) -> impl Iterator<Item = &str> {
        self.named.iter().filter_map(|named| named.strip_prefix("root="))
    }

    /// Returns true if an extent of an axis has another value than all that is said of sizes that do not fit: with it the
    /// sizes of the text would have to change.
    fn is_odd_size(&self, axes: &[&str], at: usize, extent: &str) -> bool {
        let Some(value) = self.value_of(extent).filter(|_| !self.numbers.is_empty()) else { return false };
        let place = axes[..at].iter().filter(|axis| is_whole_axis(axis)).count();
        let is_told = self.made.len() == axes.iter().filter(|axis| is_whole_axis(axis)).count();
        match self.made.get(place).filter(|_| is_told) {
            Some(made) => *made != value,
            None => !self.numbers.contains(&value),
        }
    }

    /// The value of an extent with the sizes of the text.
    fn value_of(&self, extent: &str) -> Option<i64> {
        for (sign, apply) in OPERATORS {
            if let Some((left, right)) = extent.rsplit_once(sign) {
                return apply(self.value_of(left)?, self.value_of(right)?);
            }
        }
        let known = self.sizes.iter().find(|(name, _)| *name == *extent).map(|(_, value)| *value);
        extent.parse().ok().or(known)
    }

    /// Returns true if an error names both extents, where they meet.
    fn are_named(&self, one: &str, other: &str) -> bool {
        [one, other].iter().all(|extent| self.named.iter().any(|named| named == extent))
    }

    fn add_mesh(&mut self, code: &str) {
        let Some((name, value)) = code.strip_prefix("mesh ").and_then(|rest| rest.split_once(" = ")) else { return };
        add_word(&mut self.meshes, name);
        if let Some(count) = value.trim().strip_prefix("0..") {
            add_word(&mut self.sharded, count);
            self.rank_count.get_or_insert_with(|| count.to_owned());
        }
        // A list of lists has the axes `x`, which is the innermost, `y` and `z`.
        let depth = value.trim().bytes().take_while(|byte| *byte == b'[').count();
        if depth > 1 {
            for letter in ["x", "y", "z"].into_iter().take(depth) {
                add_word(&mut self.team_axes, &format!("{name}.{letter}"));
            }
            return;
        }
        let grid = value.trim().strip_prefix('[').and_then(|value| value.split(']').next());
        for axis in grid.into_iter().flat_map(|axes| axes.split(", ")) {
            let letter = axis.split(':').next().unwrap_or_default();
            add_word(&mut self.letters, letter);
            add_word(&mut self.sharded, axis.split(':').nth(1).unwrap_or_default());
            add_word(&mut self.team_axes, &format!("{name}.{letter}"));
        }
    }
}

fn add_word(words: &mut Vec<String>, word: &str) {
    if !word.is_empty() && words.iter().all(|known| known != word) {
        words.push(word.to_owned());
    }
}

/// A declared type of a line: `G: f32[x:p, m] @d`.
struct WrittenPlace {
    name: Range<usize>,
    element: Range<usize>,
    axes: Vec<Range<usize>>,
    /// After the bracket.
    end: usize,
}

/// The declared types of a line.
fn written_types(code: &str) -> Vec<WrittenPlace> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(": ") {
        let begin = at + 2;
        let Some(open) = code[begin..].find('[').map(|length| begin + length) else { continue };
        let is_word = code[begin..open].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let Some(close) = code[open..].find(']').map(|length| open + length).filter(|_| is_word && open > begin) else {
            continue;
        };
        let word = code[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let name = at - word.len();
        let followed = code[close + 1..].trim_start();
        let is_type = followed.is_empty() || followed.starts_with([',', ')', '=', '@']);
        if name < at && is_type && !code[open + 1..close].is_empty() {
            let axes = comma_parts(code, open + 1..close);
            found.push(WrittenPlace { name: name..at, element: begin..open, axes, end: close + 1 });
        }
    }
    found
}

/// The types that a text declares, without reductions, and these without devices: what an allgather makes.
pub(super) fn declared_types(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut gathered: Vec<String> = Vec::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        for place in written_types(code) {
            add_word(&mut found, &code[place.element.start..place.end]);
            let extents = place.axes.iter().map(|axis| split_axis(&code[axis.clone()]).1);
            let extents = extents.collect::<Vec<&str>>().join(", ");
            add_word(&mut gathered, &format!("{}[{extents}]", &code[place.element.clone()]));
        }
    }
    found.retain(|ty| !ty.contains("r."));
    gathered.iter().for_each(|ty| add_word(&mut found, ty));
    found
}

/// The prefix of an axis and its extent: `x:` and `p`, `r.` and `n`.
fn split_axis(axis: &str) -> (&str, &str) {
    let length = match axis.as_bytes() {
        [letter, b':' | b'.', ..] if letter.is_ascii_lowercase() => 2,
        _ => 0,
    };
    axis.split_at(length)
}

/// Returns true for an axis of which each rank has all.
fn is_whole_axis(axis: &str) -> bool {
    !axis.contains(':') && !axis.starts_with("r.")
}

/// A slip of a type, with the declaration.
pub(super) struct TypeSlip {
    pub(super) change: PartChange,
    pub(super) declared: String,
    pub(super) doubt: u32,
}

/// The slips of the types that a line declares.
pub(super) fn type_slips(code: &str, words: &AxisWords) -> Vec<TypeSlip> {
    let mut found = Vec::new();
    let of_line = if indent_width(code) == 0 { OF_HEAD } else { 0 };
    for ty in written_types(code) {
        for change in ty.changes(code, words) {
            let until = ty.end.max(change.part.end);
            let declared =
                format!("{}{}{}", &code[ty.name.start..change.part.start], change.text, &code[change.part.end..until]);
            let doubt = change.doubt + of_line;
            found.push(TypeSlip { change, declared, doubt });
        }
    }
    found
}

impl WrittenPlace {
    fn changes(&self, code: &str, words: &AxisWords) -> Vec<PartChange> {
        let axes: Vec<&str> = self.axes.iter().map(|axis| &code[axis.clone()]).collect();
        let list = self.axes[0].start..self.end - 1;
        let mut lists: Vec<(Vec<String>, u32)> = Vec::new();
        lists.extend(moved_prefixes(&axes, words));
        lists.extend(swapped_axes(&axes));
        lists.extend(other_counts(&axes, words));
        let own: Vec<String> = axes.iter().map(|axis| (*axis).to_owned()).collect();
        lists.retain(|(axes, _)| *axes != own);
        let changes = lists.into_iter().map(|(axes, doubt)| {
            let axes = axes.join(", ");
            // Another sum of the text is over these axes.
            let is_known = axes.contains("r.") && words.lists.contains(&axes);
            PartChange::new(list.clone(), axes, if is_known { doubt.saturating_sub(2) } else { doubt })
        });
        let mut found: Vec<PartChange> = changes.collect();
        let element = &code[self.element.clone()];
        let others = words.elements.iter().filter(|other| *other != element);
        let doubt = if words.rare.iter().any(|rare| rare == element) { 0 } else { 2 };
        found.extend(others.map(|other| PartChange::new(self.element.clone(), other.clone(), doubt)));
        found.extend(self.other_meshes(code, words));
        // A reduced axis is of a result.
        let outputs = if indent_width(code) == 0 { code.find("->").unwrap_or(code.len()) } else { 0 };
        found.retain(|change| self.name.start > outputs || !change.text.contains("r."));
        found
    }

    /// Another mesh, or one where there is none.
    fn other_meshes(&self, code: &str, words: &AxisWords) -> Vec<PartChange> {
        let rest = &code[self.end..];
        let own = rest
            .strip_prefix(" @")
            .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default());
        let end = self.end + own.map_or(0, |own| own.len() + 2);
        let others = words.meshes.iter().filter(|mesh| own != Some(mesh.as_str()));
        let doubt = if own.is_some() { 4 } else { 2 };
        others.map(|mesh| PartChange::new(self.end..end, format!(" @{mesh}"), doubt)).collect()
    }
}

fn to_owned_axes(axes: &[&str]) -> Vec<String> {
    axes.iter().map(|axis| (*axis).to_owned()).collect()
}

/// Two axes exchanged.
fn swapped_axes(axes: &[&str]) -> Vec<(Vec<String>, u32)> {
    let mut found = Vec::new();
    for first in 0..axes.len() {
        for second in first + 1..axes.len() {
            let mut other = axes.to_vec();
            other.swap(first, second);
            found.push((to_owned_axes(&other), 2));
        }
    }
    found
}

/// A prefix that another axis has, no axis, or one that had none: `x:p` and `p`, `r.n` and `n`.
fn moved_prefixes(axes: &[&str], words: &AxisWords) -> Vec<(Vec<String>, u32)> {
    let mut found = Vec::new();
    for (at, axis) in axes.iter().enumerate() {
        let (prefix, extent) = split_axis(axis);
        if prefix.is_empty() {
            let letters = words.letters.iter().map(|letter| format!("{letter}:"));
            for added in letters.chain(["r.".to_owned()]) {
                let is_second = axes.iter().any(|axis| axis.starts_with(&added));
                let mut other = to_owned_axes(axes);
                other[at] = format!("{added}{axis}");
                let is_known = added == "r." || words.sharded.iter().any(|known| known == extent);
                found.push((other, if is_second || !is_known { 5 } else { 2 }));
            }
            continue;
        }
        let mut plain = to_owned_axes(axes);
        plain[at] = extent.to_owned();
        for other in (0..axes.len()).filter(|other| *other != at && split_axis(axes[*other]).0.is_empty()) {
            let mut moved = plain.clone();
            moved[other] = format!("{prefix}{}", axes[other]);
            let is_known = !prefix.ends_with(':') || words.sharded.iter().any(|known| known == axes[other]);
            found.push((moved, if is_known { 2 } else { 5 }));
        }
        found.push((plain, 2));
    }
    found
}

/// An axis less, another one, or one more.
fn other_counts(axes: &[&str], words: &AxisWords) -> Vec<(Vec<String>, u32)> {
    let mut found = Vec::new();
    for at in 0..axes.len() {
        if axes.len() > 1 {
            let mut fewer = to_owned_axes(axes);
            fewer.remove(at);
            found.push((fewer, 4));
        }
        let (prefix, extent) = split_axis(axes[at]);
        for word in words.extents.iter().filter(|word| *word != extent) {
            let mut other = to_owned_axes(axes);
            other[at] = format!("{prefix}{word}");
            // A number is rarely meant for a name.
            let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
            let odd = if words.is_odd_size(axes, at, word) { OF_ODD_SIZE } else { 0 };
            let doubt = match is_number(word) || is_number(extent) {
                _ if words.are_named(word, extent) => 1,
                true => 5,
                false => 3,
            };
            found.push((other, doubt + odd));
        }
    }
    for at in 0..=axes.len() {
        let sharded = words.letters.iter().flat_map(|letter| {
            let counts = words.extents.iter().take(2);
            counts.map(move |count| format!("{letter}:{count}"))
        });
        let sharded: Vec<String> = sharded.filter(|_| at == 0).collect();
        for word in words.extents.iter().chain(&sharded) {
            let mut more = to_owned_axes(axes);
            more.insert(at, word.clone());
            found.push((more, if at == 0 || at == axes.len() { 2 } else { 4 }));
        }
    }
    found
}
