//! All that reading says about a text: its programs, its names, and the diagnostics of the reader and the verifier.
//!
//! A snapshot depends on the text, on those that it imports and on the values for a run, on nothing else: a server that
//! has seen a thousand changes says the same as one that has just opened the text.

use crate::settings::RunValues;
use hostir::diag::files::TextFiles;
use hostir::diag::focus::narrow_places;
use hostir::diag::{Diag, DiagLabel, Diags, Span, message};
use hostir::hir2::read::DeclaredName;
use hostir::hir2::{link_imports, notation_of, own_text};
use hostir::ir::Program;
use hostir::symbols::SymbolTable;
use hostir::{ParsedFile, ReadOptions};
use hostir_grammar::hir2::ast::ItemSyntax;
use std::sync::{Arc, OnceLock};

/// Gives the text of an imported file by its path, or the reason why there is none.
pub type ImportSource<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// A text as it was read.
#[derive(Debug)]
pub struct Snapshot {
    /// The values for which it was read.
    pub values: RunValues,
    /// The whole text; with `// -----` between several texts, each of these.
    pub sections: Vec<TextSection>,
    /// The diagnostics of reading and verifying, with places in the document.
    pub diags: Vec<Diag>,
}

/// One text of a document.
#[derive(Debug)]
pub struct TextSection {
    /// Its first byte in the document.
    pub start: u32,
    /// The length without imported texts.
    pub length: u32,
    /// The text, followed by those that it imports.
    pub text: Arc<str>,
    /// The syntax tree.
    pub file: Arc<ParsedFile>,
    /// The programs, as far as they could be read.
    pub programs: Vec<Program>,
    /// The diagnostics of reading and verifying, with places in this text.
    pub diags: Vec<Diag>,
    /// The declarations of names.
    declared: Vec<DeclaredName>,
    /// The names with their places, once a request has asked for them.
    symbols: OnceLock<SymbolTable>,
}

/// A text with its tree, of which that of the text after an edit is made.
#[derive(Clone, Debug)]
pub struct KnownTree {
    text: Arc<str>,
    file: Arc<ParsedFile>,
}

impl KnownTree {
    /// Parses a text with what is known of the one before. It is known itself from then on.
    fn parse_text(known: &mut Option<Self>, text: &Arc<str>) -> (Arc<ParsedFile>, Diags) {
        if let Some(known) = known
            // A proof may still have the tree, which then stays as it is.
            && let Some(errors) = Arc::make_mut(&mut known.file).reparse(&known.text, text)
        {
            known.text = text.clone();
            return (known.file.clone(), errors);
        }
        // The memory of the tree is free before there is another.
        *known = None;
        let (file, errors) = ParsedFile::parse(text);
        let file = Arc::new(file);
        *known = file.is_hir2().then(|| Self { text: text.clone(), file: file.clone() });
        (file, errors)
    }
}

impl Snapshot {
    /// Reads a text, of which a tree may be known from before an edit.
    pub fn from_text(
        text: &Arc<str>,
        values: RunValues,
        imports: &mut ImportSource<'_>,
        known: &mut Option<KnownTree>,
    ) -> Self {
        let parts = match values.is_divided {
            true => hostir_grammar::split_input(text),
            false => vec![(0, &**text)],
        };
        let options = values.read_options();
        let sections: Vec<TextSection> = match parts.as_slice() {
            [_] => vec![TextSection::read(0, text, &options, imports, known)],
            // Parts of a text are short, and there are new ones after an edit.
            several => several
                .iter()
                .map(|(start, text)| TextSection::read(*start as u32, &(*text).into(), &options, imports, &mut None))
                .collect(),
        };
        let diags = sections.iter().flat_map(|section| section.place_diags(&section.diags)).collect();
        Self { values, sections, diags }
    }

    /// The text that a byte of the document is in.
    pub fn section_at(&self, offset: u32) -> &TextSection {
        let after = self.sections.partition_point(|section| section.start <= offset);
        &self.sections[after.saturating_sub(1)]
    }
}

impl TextSection {
    fn read(
        start: u32,
        own: &Arc<str>,
        options: &ReadOptions,
        imports: &mut ImportSource<'_>,
        known: &mut Option<KnownTree>,
    ) -> Self {
        let text: Arc<str> = link_imports(own, imports).map_or_else(|| own.clone(), Into::into);
        let (file, syntax) = KnownTree::parse_text(known, &text);
        Self { start, length: own.len() as u32, ..Self::read_parsed(text, file, &syntax, options) }
    }

    /// Reads a text that is followed by those that it imports.
    pub fn read_linked(text: impl Into<Arc<str>>, options: &ReadOptions) -> Self {
        let text = text.into();
        let (file, syntax) = ParsedFile::parse(&text);
        Self::read_parsed(text, Arc::new(file), &syntax, options)
    }

    fn read_parsed(text: Arc<str>, file: Arc<ParsedFile>, syntax: &Diags, options: &ReadOptions) -> Self {
        let mut reader = file.reader_with_options(&text, options).with_declarations();
        let mut diags = syntax.clone();
        // Errors about the file as a whole come with the first program.
        let programs = (0..file.program_count().max(1)).map(|number| {
            let mut found = syntax.clone();
            file.keep_errors_of(number, &mut found);
            let known = found.items.len();
            let program = reader.read_program(number, &mut found);
            verify_read(&program, number < file.program_count(), &mut found);
            diags.items.extend(found.items.drain(known..));
            program
        });
        let mut programs: Vec<Program> = programs.collect();
        programs.truncate(file.program_count());
        diags.sort_by_place();
        remove_repeated(&mut diags);
        let declared = reader.declarations().to_vec();
        drop(reader);
        let length = own_text(&text).len() as u32;
        Self { start: 0, length, text, file, programs, diags: diags.items, declared, symbols: OnceLock::new() }
    }

    /// The names with their places in this text.
    pub fn symbols(&self) -> &SymbolTable {
        self.symbols.get_or_init(|| SymbolTable::new(&self.file, &self.text, &self.declared, &self.programs))
    }

    /// True if the text has errors.
    pub fn has_errors(&self) -> bool {
        self.diags.iter().any(|diag| diag.severity == hostir::diag::Severity::Error)
    }

    /// The text itself, without imported ones.
    pub fn own_text(&self) -> &str {
        own_text(&self.text)
    }

    /// The offset in this text of a byte of the document; of a byte past its end the end.
    pub fn offset_in(&self, offset: u32) -> u32 {
        offset.saturating_sub(self.start).min(self.length)
    }

    /// The place in the document of one of this text.
    pub fn span_in_document(&self, span: Span) -> Span {
        Span { start: span.start + self.start, end: span.end + self.start }
    }

    /// True if a place is in the text itself, not in an imported one.
    pub fn is_own(&self, span: Span) -> bool {
        span.end <= self.length
    }

    /// Diagnostics about this text as the document shows them: in the words of its notation, at narrow places. One
    /// about an imported file is at the import.
    pub fn place_diags(&self, diags: &[Diag]) -> Vec<Diag> {
        let notation = notation_of(&self.text);
        let mut diags: Vec<Diag> = diags.iter().map(|diag| diag.in_notation(notation)).collect();
        narrow_places(&self.text, &mut diags);
        let files = TextFiles::new("", &self.text);
        let placed = diags.iter().map(|diag| {
            let placed = files.place_diag(diag);
            let mut diag = match placed.name.is_empty() {
                true => placed.diag.into_owned(),
                false => self.at_import(&placed.name, &placed.diag),
            };
            diag.spans_mut().for_each(|span| *span = self.span_in_document(*span));
            diag
        });
        placed.collect()
    }

    /// A diagnostic about an imported file, at the path of its import, or at the first import if another file imports it.
    fn at_import(&self, path: &str, diag: &Diag) -> Diag {
        let span = self.import_paths().find(|(known, _)| *known == path).or_else(|| self.import_paths().next());
        Diag {
            message: message!("in `{}`: {}", path, diag.message),
            primary: span.map(|(_, span)| DiagLabel { span, text: Default::default() }),
            labels: Vec::new(),
            fixes: Vec::new(),
            focus: None,
            ..diag.clone()
        }
    }

    /// The paths of the imports of the text, each with its place.
    fn import_paths(&self) -> impl Iterator<Item = (&str, Span)> {
        let file = match &*self.file {
            ParsedFile::Hir2(file) => Some(file),
            ParsedFile::Printed(_) => None,
        };
        file.into_iter().flat_map(|file| {
            file.items.iter().filter_map(|item| match item {
                ItemSyntax::Import(import) => Some((file.symbol_text(import.path), import.path_span)),
                _ => None,
            })
        })
    }
}

/// Verifies a program as far as it was read.
fn verify_read(program: &Program, exists: bool, diags: &mut Diags) {
    if !exists {
        return;
    }
    if diags.has_errors() {
        let earlier: Vec<Span> = diags.primary_spans().collect();
        hostir::verify::verify_partial(program, &earlier, diags);
    } else {
        hostir::verify::verify(program, diags);
    }
}

/// Keeps the first of equal diagnostics: several programs may report one thing that they share.
fn remove_repeated(diags: &mut Diags) {
    let mut kept: Vec<Diag> = Vec::with_capacity(diags.items.len());
    for diag in diags.items.drain(..) {
        let start = diag.primary.as_ref().map(|label| label.span);
        let same_place = kept.iter().rev().take_while(|other| other.primary.as_ref().map(|label| label.span) == start);
        if !same_place.into_iter().any(|other| *other == diag) {
            kept.push(diag);
        }
    }
    diags.items = kept;
}
