//! The place of a line in its text: the program around it, and what that has.

use super::line::{CodeLine, has_word, is_name, split_items};

/// The place of a line in its text.
pub(super) struct LineContext<'t> {
    pub(super) text: &'t str,
    /// The byte at which the line begins.
    pub(super) start: usize,
    /// The lines that are to be written above it.
    pub(super) above: &'t [String],
}

impl<'t> LineContext<'t> {
    /// The header of the program around the line.
    pub(super) fn header(&self) -> &'t str {
        let before = self.text.get(..self.start).unwrap_or_default();
        let mut headers = before.lines().rev().filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
        headers.next().filter(|line| line.contains('(')).unwrap_or_default()
    }

    /// The names of the program's outputs.
    pub(super) fn outputs(&self) -> Vec<&'t str> {
        let results = self.header().split_once("->").map_or("", |(_, results)| results);
        let inside = results.trim_start().strip_prefix('(').unwrap_or_default();
        let line = CodeLine::new(inside);
        let close = (0..line.pieces.len()).find(|&at| line.pieces[at].depth == 0 && line.piece_text(at) == ")");
        let Some(close) = close else { return Vec::new() };
        let items = split_items(&inside[..line.pieces[close].place.start]);
        let names = items.into_iter().map(|item| item.split([':', '@']).next().unwrap_or_default().trim());
        names.filter(|name| is_name(name)).collect()
    }

    /// The lines of the program's statements without their comments.
    pub(super) fn statements(&self) -> impl Iterator<Item = &'t str> {
        let before = self.text.get(..self.start).unwrap_or_default();
        let header = self.header().len();
        let begin = before.rfind(self.header()).filter(|_| header > 0).map_or(self.text.len(), |at| at + header);
        let body = self.text.get(begin..).unwrap_or_default().lines().skip(1);
        let own = body.take_while(|line| !line.starts_with(|c: char| c.is_ascii_alphabetic()));
        own.map(|line| line.split("//").next().unwrap_or_default().trim())
    }

    /// True if a statement of the program gives a tensor its elements.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.statements().any(|code| {
            let rest = code.strip_prefix(name).map(str::trim_start);
            let is_target = rest.is_some_and(|rest| {
                let value = rest.split_once('=').map_or("", |(_, value)| value.trim_start());
                rest.starts_with(['=', ':', '[']) && !value.starts_with("alloc") && !value.is_empty()
            });
            is_target || code.contains(&format!("-> {name})")) || code.contains(&format!("-> {name},"))
        })
    }

    /// A name for a tensor that neither the text nor the line has.
    pub(super) fn unused_name(&self, code: &str) -> String {
        self.unused_names(code, 1).pop().unwrap_or_default()
    }

    /// Several such names.
    pub(super) fn unused_names(&self, code: &str, count: usize) -> Vec<String> {
        let words = ["U", "V", "W", "Z"].into_iter().map(str::to_owned);
        let names = words.chain((2..).map(|number| format!("U{number}")));
        names.filter(|name| !self.has_word(name) && !has_word(code, name)).take(count).collect()
    }

    /// True if the text or a line above has a word.
    fn has_word(&self, word: &str) -> bool {
        has_word(self.text, word) || self.above.iter().any(|line| has_word(line, word))
    }

    /// True if the program declares a name, or has it as an input or output.
    pub(super) fn is_declared(&self, name: &str) -> bool {
        let declared = format!("{name}:");
        self.header().contains(&declared) || self.statements().any(|code| code.starts_with(&declared))
    }
}
