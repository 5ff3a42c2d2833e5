//! Converts edits of a canonical text to edits of the author's, whose layout differs.
//!
//! Both texts have the same statements. Lines with the same words correspond to each other, and so do those with the
//! same ops: only the changed lines get the canonical layout.

use crate::ReadOptions;
use crate::diag::Span;
use crate::diag::TextEdit;
use crate::diag::fix::{aligned_lines, apply_edits};
use crate::ops::OpRegistry;
use std::ops::Range;

/// The maximum number of lines of a text that get the canonical layout with a fix.
const MOST_LAID_OUT: usize = 8;

/// The correspondence of a canonical text and the author's.
pub(super) struct TextLayout<'a> {
    canonical: Vec<&'a str>,
    authored: Vec<&'a str>,
    /// Corresponding parts of both texts, in order and without gaps.
    parts: Vec<LayoutPart>,
}

/// Lines of the canonical text, and those of the author's with the same statements.
#[derive(Clone, PartialEq, Eq, Debug)]
struct LayoutPart {
    canonical: Range<usize>,
    authored: Range<usize>,
}

/// A line of each text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LinePair {
    canonical: usize,
    authored: usize,
}

impl<'a> TextLayout<'a> {
    /// The layout of two texts with the same statements, which may name these ops.
    pub(super) fn new(canonical: &'a str, authored: &'a str, ops: OpRegistry) -> Self {
        let links = op_lines(canonical, authored, ops);
        let canonical: Vec<&str> = canonical.split_inclusive('\n').collect();
        let authored: Vec<&str> = authored.split_inclusive('\n').collect();
        let mut layout = Self { parts: Vec::new(), canonical, authored };
        let (old, new) = (words_of_lines(&layout.canonical), words_of_lines(&layout.authored));
        let mut ends = LinePair { canonical: 0, authored: 0 };
        for (c, a) in aligned_lines(&old, &new) {
            layout.add_unequal(&links, ends, LinePair { canonical: c, authored: a });
            layout.parts.push(LayoutPart { canonical: c..c + 1, authored: a..a + 1 });
            ends = LinePair { canonical: c + 1, authored: a + 1 };
        }
        let last = LinePair { canonical: layout.canonical.len(), authored: layout.authored.len() };
        layout.add_unequal(&links, ends, last);
        layout
    }

    /// Adds the parts of lines with other words, as small as the common ops allow.
    fn add_unequal(&mut self, links: &[LinePair], from: LinePair, to: LinePair) {
        let mut at = from;
        while at.canonical < to.canonical {
            let part = self.closed_part(links, at, to);
            at = LinePair { canonical: part.canonical.end, authored: part.authored.end };
            self.parts.push(part);
        }
        if at.authored < to.authored {
            self.parts.push(LayoutPart { canonical: at.canonical..to.canonical, authored: at.authored..to.authored });
        }
    }

    /// The fewest lines from a pair on whose ops all belong to them; a line without ops belongs to the next one.
    fn closed_part(&self, links: &[LinePair], from: LinePair, to: LinePair) -> LayoutPart {
        let mut part =
            LayoutPart { canonical: from.canonical..from.canonical + 1, authored: from.authored..from.authored };
        loop {
            let before = part.clone();
            for link in links {
                let inside = (from.canonical..to.canonical).contains(&link.canonical)
                    && (from.authored..to.authored).contains(&link.authored);
                if inside && (part.canonical.contains(&link.canonical) || part.authored.contains(&link.authored)) {
                    part.canonical.end = part.canonical.end.max(link.canonical + 1);
                    part.authored.end = part.authored.end.max(link.authored + 1);
                }
            }
            let is_open = part.authored.is_empty() && part.canonical.end < to.canonical;
            if is_open && has_statement(self.canonical[part.canonical.end - 1]) {
                part.canonical.end += 1;
            }
            if part == before {
                return part;
            }
        }
    }

    /// Converts edits of the canonical text to the author's; `None` if they would change the layout of many lines.
    pub(super) fn edits_of_author(&self, edits: &[TextEdit]) -> Option<Vec<TextEdit>> {
        let starts = line_starts(&self.canonical);
        let mut moved: Vec<TextEdit> = Vec::new();
        let mut rest = edits;
        while let Some(first) = rest.first() {
            let mut taken = 1;
            let mut parts = self.parts_of_edit(first, &starts);
            while let Some(next) = rest.get(taken) {
                let other = self.parts_of_edit(next, &starts);
                if other.start >= parts.end {
                    break;
                }
                parts = parts.start.min(other.start)..parts.end.max(other.end);
                taken += 1;
            }
            moved.push(self.joined_edit(&rest[..taken], parts, &starts)?);
            rest = &rest[taken..];
        }
        Some(moved)
    }

    /// The parts that an edit changes. An insertion has an empty range between two, unless it goes into a block that
    /// the author has written on the line of its header.
    fn parts_of_edit(&self, edit: &TextEdit, starts: &[usize]) -> Range<usize> {
        let [first, end] =
            [edit.span.start, edit.span.end].map(|byte| starts.partition_point(|&start| start < byte as usize));
        let from = self.parts.partition_point(|part| part.canonical.end <= first);
        let to = self.parts.partition_point(|part| part.canonical.start < end);
        if first < end {
            return from..to.max(from);
        }
        // Lines that only the author's text has come before the insertion.
        let is_between = self.parts.get(from).is_none_or(|part| part.canonical.start >= first);
        let is_inner = from > 0 && is_between && self.is_inside_header_line(&self.parts[from - 1], &edit.text);
        match (is_inner, is_between) {
            (true, _) => from - 1..from,
            (false, true) => from..from,
            (false, false) => from..from + 1,
        }
    }

    /// Returns true if lines after a part are indented more than its first one, although its author has written it on
    /// one line.
    fn is_inside_header_line(&self, part: &LayoutPart, lines: &str) -> bool {
        let is_shortened = part.canonical.len() > 1 && part.authored.len() == 1;
        is_shortened && indentation(lines).len() > indentation(self.canonical[part.canonical.start]).len()
    }

    /// Joins edits of some parts of the canonical text to one of the author's.
    fn joined_edit(&self, edits: &[TextEdit], parts: Range<usize>, starts: &[usize]) -> Option<TextEdit> {
        let changed = &self.parts[parts.clone()];
        if changed.iter().filter(|part| !self.is_same(part)).map(|part| part.authored.len()).sum::<usize>()
            > MOST_LAID_OUT
        {
            return None;
        }
        let next = self.parts.get(parts.start);
        let first = next.map_or(self.canonical.len(), |part| part.canonical.start);
        let authored = next.map_or(self.authored.len(), |part| part.authored.start);
        let end = changed.last().map_or(first, |part| part.canonical.end);
        let authored_end = changed.last().map_or(authored, |part| part.authored.end);
        let base = starts.get(first).copied().unwrap_or_else(|| text_length(&self.canonical));
        let inner = edits.iter().map(|edit| {
            let span = Span::new((edit.span.start as usize).checked_sub(base)?, edit.span.end as usize - base);
            Some(TextEdit { span, text: edit.text.clone() })
        });
        let text = apply_edits(&self.canonical[first..end].concat(), &inner.collect::<Option<Vec<_>>>()?)?;
        let text = text.split_inclusive('\n').map(|line| self.as_authored(line, first..end)).collect();
        let (start, stop) = (text_length(&self.authored[..authored]), text_length(&self.authored[..authored_end]));
        Some(TextEdit { span: Span::new(start, stop), text })
    }

    /// Returns true if a part is one line of the same words.
    fn is_same(&self, part: &LayoutPart) -> bool {
        part.canonical.len() == 1
            && part.authored.len() == 1
            && self.canonical[part.canonical.start]
                .split_whitespace()
                .eq(self.authored[part.authored.start].split_whitespace())
    }

    /// A line of the changed canonical text, from between or from these lines: the author's, if there is one, else with
    /// the indentation of the author's lines beside it.
    fn as_authored(&self, line: &str, lines: Range<usize>) -> String {
        // A line from another place has moved.
        let (near, far): (Vec<&LayoutPart>, Vec<&LayoutPart>) = self
            .parts
            .iter()
            .filter(|part| part.canonical.len() == 1 && part.authored.len() == 1)
            .partition(|part| lines.contains(&part.canonical.start));
        let same = near.into_iter().chain(far);
        if let Some(part) = same.into_iter().find(|part| self.canonical[part.canonical.start] == line) {
            return self.authored[part.authored.start].to_owned();
        }
        let own = indentation(line);
        if own.len() == line.trim_end_matches(['\r', '\n']).len() {
            return line.to_owned();
        }
        format!("{}{}", self.authored_indentation(own.len(), lines), &line[own.len()..])
    }

    /// The depth of a part in the canonical text.
    fn depth_of(&self, part: &LayoutPart) -> usize {
        indentation(self.canonical[part.canonical.start]).len()
    }

    /// The author's indentation for a depth of the canonical text beside some lines.
    fn authored_indentation(&self, depth: usize, lines: Range<usize>) -> String {
        let known: Vec<&LayoutPart> = self
            .parts
            .iter()
            .filter(|part| self.is_same(part) && has_statement(self.canonical[part.canonical.start]))
            .collect();
        let above = known.iter().rev().filter(|part| part.canonical.start < lines.end);
        let outer = above.copied().find(|part| self.depth_of(part) <= depth);
        let below = known.iter().filter(|part| part.canonical.start >= lines.start);
        let inner = below.take_while(|part| self.depth_of(part) >= depth).find(|part| self.depth_of(part) == depth);
        let beside = outer.filter(|part| self.depth_of(part) == depth).or(inner.copied());
        if let Some(part) = beside {
            return indentation(self.authored[part.authored.start]).to_owned();
        }
        let base = outer.map_or("", |part| indentation(self.authored[part.authored.start]));
        format!("{base}{}", " ".repeat(depth - outer.map_or(0, |part| self.depth_of(part))))
    }
}

/// Whether a line holds more than a comment.
fn has_statement(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

/// The blanks at the start of a line.
fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn text_length(lines: &[&str]) -> usize {
    lines.iter().map(|line| line.len()).sum()
}

/// The first byte of each line.
fn line_starts(lines: &[&str]) -> Vec<usize> {
    let starts = lines.iter().scan(0, |end, line| {
        let start = *end;
        *end += line.len();
        Some(start)
    });
    starts.collect()
}

/// Lines with one blank in the place of several.
fn words_of_lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The lines at which ops begin in one text and in another one of the same programs; none if these are not the same.
fn op_lines(one: &str, other: &str, ops: OpRegistry) -> Vec<LinePair> {
    let (one, other) = (lines_of_ops(one, ops), lines_of_ops(other, ops));
    if one.len() != other.len() {
        return Vec::new();
    }
    one.into_iter().zip(other).map(|(canonical, authored)| LinePair { canonical, authored }).collect()
}

/// The line of each op, in the order of the programs.
fn lines_of_ops(text: &str, ops: OpRegistry) -> Vec<usize> {
    let (programs, _) = crate::load_with_options(text, &ReadOptions::with_ops(ops));
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let starts = line_starts(&lines);
    let mut found = Vec::new();
    for program in &programs {
        program.walk(program.body(), &mut |op| {
            let start = program.op_span(op).start as usize;
            found.push(starts.partition_point(|&line| line <= start).saturating_sub(1));
        });
    }
    found
}
