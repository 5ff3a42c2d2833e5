//! The files of a bundle: a diagnostic about an imported text is shown with the name and the lines of its file.

use super::{Diag, DiagLabel, Message, Span, message};
use hostir_grammar::hir2::bundle::{bundle_parts, own_text};
use std::borrow::Cow;

/// The files whose texts are in a text.
pub struct TextFiles<'t> {
    name: &'t str,
    own: &'t str,
    /// The others: path, start and text.
    imported: Vec<(&'t str, u32, &'t str)>,
}

/// A diagnostic with the file that it is about.
pub struct PlacedDiag<'t, 'd> {
    /// The name of the file.
    pub name: Cow<'t, str>,
    /// Its text.
    pub text: &'t str,
    /// The diagnostic with places in this text.
    pub diag: Cow<'d, Diag>,
}

impl<'t> TextFiles<'t> {
    /// The files of a text, whose own name in messages is `name`.
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let imported = bundle_parts(text).into_iter().map(|part| {
            let start = part.text.start as u32;
            (part.path, start, &text[part.text])
        });
        let imported: Vec<_> = imported.collect();
        let own = if imported.is_empty() { text } else { own_text(text) };
        Self { name, own, imported }
    }

    /// The file of a place, from 1; 0 is the first text.
    fn file_at(&self, place: u32) -> usize {
        if place as usize <= self.own.len() {
            return 0;
        }
        self.imported.partition_point(|(_, start, _)| *start <= place)
    }

    fn start_of(&self, file: usize) -> u32 {
        file.checked_sub(1).map_or(0, |at| self.imported[at].1)
    }

    /// The name of a file: the path of an imported one starts at the folder of the first.
    fn name_of(&self, file: usize) -> Cow<'t, str> {
        let Some((path, ..)) = file.checked_sub(1).map(|at| self.imported[at]) else {
            return Cow::Borrowed(self.name);
        };
        match self.name.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{path}").into(),
            None => path.into(),
        }
    }

    fn text_of(&self, file: usize) -> &'t str {
        file.checked_sub(1).map_or(self.own, |at| self.imported[at].2)
    }

    /// The diagnostic in the file of its place; labels in other files become notes.
    pub fn place_diag<'d>(&self, diag: &'d Diag) -> PlacedDiag<'t, 'd> {
        let file = diag.primary.as_ref().map_or(0, |label| self.file_at(label.span.start));
        let (name, text) = (self.name_of(file), self.text_of(file));
        let is_here = |label: &DiagLabel| self.file_at(label.span.start) == file;
        if self.imported.is_empty() || (file == 0 && diag.labels.iter().all(is_here)) {
            return PlacedDiag { name, text, diag: Cow::Borrowed(diag) };
        }
        let mut placed = diag.clone();
        let (here, elsewhere): (Vec<_>, Vec<_>) = placed.labels.into_iter().partition(is_here);
        placed.labels = here;
        placed.notes.extend(elsewhere.iter().map(|label| self.label_note(label)));
        if file > 0 {
            // Nobody edits the files of others.
            placed.fixes.retain(|fix| fix.edits.is_empty());
        }
        let start = self.start_of(file);
        placed.spans_mut().for_each(|span| *span = shifted_back(*span, start));
        PlacedDiag { name, text, diag: Cow::Owned(placed) }
    }

    /// A label in another file in words.
    fn label_note(&self, label: &DiagLabel) -> Message {
        let file = self.file_at(label.span.start);
        let at = label.span.start.saturating_sub(self.start_of(file)) as usize;
        let before = self.text_of(file).get(..at).unwrap_or_default();
        let (line, column) = (before.lines().count().max(1), before.rsplit('\n').next().unwrap_or_default());
        let line = if before.ends_with('\n') { line + 1 } else { line };
        let name = self.name_of(file).into_owned();
        message!("{}: {}:{}:{}", label.text, name, line, column.chars().count() + 1)
    }
}

fn shifted_back(span: Span, by: u32) -> Span {
    Span { start: span.start.saturating_sub(by), end: span.end.saturating_sub(by) }
}
