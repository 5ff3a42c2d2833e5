//! Names that a program defines and does not use: a right program rarely has one, a wrong name leaves one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The number of names that the program around a line defines and does not use, among them results that are replaced
/// before they are used.
pub(super) fn count_unused(text: &str, line: usize) -> usize {
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let is_head = |at: &usize| lines[*at].starts_with(|c: char| c.is_ascii_alphabetic()) && lines[*at].contains('(');
    let Some(head) = (0..=line.min(lines.len().saturating_sub(1))).rev().find(is_head) else { return 0 };
    let end = (head + 1..lines.len()).find(is_head).unwrap_or(lines.len());
    let mut names = NameUses::default();
    lines.iter().filter(|line| line.starts_with("mesh ")).for_each(|line| names.add_uses(line));
    names.add_head(lines[head]);
    lines[head + 1..end].iter().for_each(|code| names.add_line(code));
    names.unused_count()
}

/// The definitions and uses of a program's names so far.
#[derive(Default)]
struct NameUses<'t> {
    defined: BTreeSet<&'t str>,
    /// Also names that a later line defines: an iteration uses what the one before has defined.
    used: BTreeSet<&'t str>,
    /// Outputs, and tensors that share memory, which are used through the other one.
    kept: BTreeSet<&'t str>,
    /// The indentation of the last whole definition of a name that nothing has used since.
    pending: BTreeMap<&'t str, usize>,
    replaced: usize,
    /// The words of the types of outputs.
    extents: BTreeSet<&'t str>,
}

impl<'t> NameUses<'t> {
    fn add_head(&mut self, head: &'t str) {
        let (inputs, outputs) = head.split_once("->").unwrap_or((head, ""));
        let names = |part: &'t str| part.match_indices(": ").filter_map(move |(at, _)| last_word(&part[..at]));
        self.kept.extend(names(outputs));
        self.defined.extend(names(inputs));
        self.extents.extend(extent_words(outputs));
        self.used.extend(extent_words(inputs));
    }

    fn add_line(&mut self, code: &'t str) {
        let indent = code.len() - code.trim_start().len();
        let start = statement_start(code);
        let statement = &code[start..];
        self.add_uses(&code[..start]);
        let Some(equals) = statement.find(" = ").filter(|at| !statement[..*at].contains(['(', '{'])) else {
            self.add_uses(statement);
            return;
        };
        let (left, right) = (&statement[..equals], &statement[equals + 3..]);
        self.add_uses(right);
        let target = left.split(": ").next().unwrap_or_default();
        let (names, index) = target.split_at(target.find('[').unwrap_or(target.len()));
        self.add_uses(index);
        // Of several results one may be enough.
        let name = names.split(", ").next().unwrap_or_default();
        self.defined.insert(name);
        if right.contains("share=") {
            self.kept.insert(name);
        }
        if !index.is_empty() || right.starts_with("alloc") {
            self.pending.remove(name);
            return;
        }
        self.replaced += usize::from(self.pending.insert(name, indent) == Some(indent));
    }

    /// Counts the names of a text as used, but for those that a communication writes.
    fn add_uses(&mut self, text: &'t str) {
        for word in word_places(text) {
            let before = &text[..word.start];
            let name = &text[word];
            self.pending.remove(name);
            if !is_written(before) {
                self.used.insert(name);
            }
        }
    }

    /// The extents of outputs that nothing else has.
    fn lost_extents(&self) -> usize {
        self.extents.iter().filter(|extent| !self.used.contains(**extent)).count()
    }

    fn unused_count(&self) -> usize {
        let unused = self.defined.difference(&self.used).filter(|name| !self.kept.contains(**name));
        unused.count() + self.replaced + self.lost_extents()
    }
}

/// Returns true if what follows a text is written by a communication, or freed.
fn is_written(before: &str) -> bool {
    let is_received = before.ends_with("recv(") && !before.ends_with("send_recv(");
    is_received || before.ends_with("-> ") || before.ends_with("free ")
}

/// The words in the brackets of types.
fn extent_words(text: &str) -> impl Iterator<Item = &str> {
    let lists = text.split('[').skip(1).filter_map(|rest| rest.split(']').next());
    lists.flat_map(|list| {
        let names =
            word_places(list).into_iter().filter(|word| list[word.start..].starts_with(|c: char| c.is_alphabetic()));
        // `x:p`, `r.n`
        names.filter(|word| !list[word.end..].starts_with([':', '.'])).map(|word| &list[word])
    })
}

/// The first byte of the statement after the headers on its line.
fn statement_start(code: &str) -> usize {
    let own = code.len() - code.trim_start().len();
    let is_branch = ["if ", "for ", "else", "stream "].iter().any(|word| code[own..].starts_with(word));
    if is_branch { code.rfind(": ").map_or(code.len(), |at| at + 2) } else { own }
}

fn last_word(text: &str) -> Option<&str> {
    let word = word_places(text).pop().filter(|word| word.end == text.len())?;
    Some(&text[word])
}

/// The places of the words of a text.
pub(super) fn word_places(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, letter) in text.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric() || *c == '_') {
        let end = at + letter.len_utf8();
        match found.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => found.push(at..end),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_counted() {
        let count = |body: &str| count_unused(&format!("hir 2\nf(A: f32[n], B: f32[n]) -> (Y: f32[n]):\n{body}"), 2);
        assert_eq!(count("  Y = A + B\n"), 0);
        assert_eq!(count("  U = relu(A)\n  Y = A + B\n"), 1);
        assert_eq!(count("  U = relu(A)\n  U = exp(B)\n  Y = U + B\n"), 1);
        assert_eq!(count("  R: f32[n] = alloc\n  if n > 1: wait send_recv(A -> R)\n  Y = Set(B)\n"), 1);
        assert_eq!(count("  h = allgather(A -> Y)\n  wait h\n  Y = Y + B\n"), 0);
    }
}
