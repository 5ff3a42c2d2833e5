//! Imports: finds the kernels that a text takes from the other texts of its bundle.
//!
//! An imported kernel becomes a HostUnit of each program that calls it, as if it were in front of that program. A file
//! may pass on what it imports itself.

use crate::diag::{Diag, Diags, Message, PartKind, codes, message, nearest_candidate};
use crate::ir::ImportLine;
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{ExprNode, FileSyntax, ImportItem, ItemSyntax, NameSyntax, PartFault, ProgramItem};
use hostir_grammar::hir2::bundle::joined_path;
use rustc_hash::{FxHashMap, FxHashSet};

/// A kernel or program of an imported text: the numbers of the text and of the item.
#[derive(Clone, Copy)]
struct ImportedItem {
    part: usize,
    item: usize,
}

/// The imports of a file.
#[derive(Default)]
pub(super) struct ImportTable {
    /// The names in the order of the text; `None` for one with an error.
    names: Vec<(Symbol, Option<ImportedItem>)>,
    faulty: FxHashSet<Symbol>,
    /// The places of calls of imported names, in order.
    calls: Vec<(u32, Symbol)>,
    /// The lines.
    pub(super) lines: Vec<ImportLine>,
}

impl ImportTable {
    pub(super) fn new(file: &FileSyntax, diags: &mut Diags) -> Self {
        let mut table = Self::default();
        let mut items = file.items.iter().chain(file.parts.iter().flat_map(|part| &part.items));
        if !items.any(|item| matches!(item, ItemSyntax::Import(_))) {
            return table;
        }
        let mut finder = ImportFinder::new(file, diags);
        table.names = finder.find_all();
        table.faulty = table.names.iter().filter(|(_, found)| found.is_none()).map(|(name, _)| *name).collect();
        // Calls of a name that an import has with a slip are no further errors.
        table.faulty.extend(finder.meant);
        table.names.iter().filter(|(_, found)| found.is_some()).for_each(|(name, _)| {
            table.faulty.remove(name);
        });
        let known: FxHashSet<Symbol> = table.names.iter().map(|(name, _)| *name).collect();
        let calls = file.exprs.iter().filter_map(|(node, span)| match node {
            ExprNode::Call(name, _) if known.contains(&name.name) => Some((span.start, name.name)),
            _ => None,
        });
        table.calls = calls.collect();
        table.calls.sort_unstable_by_key(|(start, _)| *start);
        table.lines = imports_in(&file.items)
            .map(|import| ImportLine {
                path: file.symbol_text(import.path).into(),
                names: import.names.iter().map(|name| file.symbol_text(name.name).into()).collect(),
            })
            .collect();
        table
    }

    /// Returns true for a name whose import has an error: its calls are no further errors.
    pub(super) fn is_faulty(&self, name: Symbol) -> bool {
        self.faulty.contains(&name)
    }

    /// The imported kernels that a program calls, in the order of the imports.
    pub(super) fn kernels_of<'a>(&self, file: &'a FileSyntax, program: &ProgramItem) -> Vec<&'a ProgramItem> {
        let first = self.calls.partition_point(|(start, _)| *start < program.span.start);
        let inside = self.calls[first..].iter().take_while(|(start, _)| *start < program.span.end);
        let called: FxHashSet<Symbol> = inside.map(|(_, name)| *name).collect();
        let found = self.names.iter().filter(|(name, _)| called.contains(name)).filter_map(|(_, found)| *found);
        found.filter_map(|found| program_of(&file.parts.get(found.part)?.items, found.item)).collect()
    }
}

fn imports_in(items: &[ItemSyntax]) -> impl Iterator<Item = &ImportItem> {
    items.iter().filter_map(|item| match item {
        ItemSyntax::Import(import) => Some(import),
        ItemSyntax::Mesh(_) | ItemSyntax::Kernel(_) | ItemSyntax::Program(_) => None,
    })
}

/// The kernel or program among some items.
fn program_of(items: &[ItemSyntax], number: usize) -> Option<&ProgramItem> {
    match items.get(number)? {
        ItemSyntax::Kernel(program) | ItemSyntax::Program(program) => Some(program),
        ItemSyntax::Import(_) | ItemSyntax::Mesh(_) => None,
    }
}

/// Finds imported names.
struct ImportFinder<'f> {
    file: &'f FileSyntax,
    diags: &'f mut Diags,
    /// The texts by their paths.
    parts: FxHashMap<&'f str, usize>,
    /// For each text: the text of each of its imports.
    sources: Vec<Vec<Option<usize>>>,
    /// Names that were looked up in a text.
    found: FxHashMap<(usize, Symbol), Option<ImportedItem>>,
    /// The names nearest to those that were not found.
    meant: Vec<Symbol>,
}

impl<'f> ImportFinder<'f> {
    fn new(file: &'f FileSyntax, diags: &'f mut Diags) -> Self {
        let parts = file.parts.iter().enumerate().map(|(number, part)| (part.path.as_str(), number));
        Self {
            file,
            diags,
            parts: parts.collect(),
            sources: Vec::new(),
            found: FxHashMap::default(),
            meant: Vec::new(),
        }
    }

    /// The names that the first text imports. Reports the errors of all imports.
    fn find_all(&mut self) -> Vec<(Symbol, Option<ImportedItem>)> {
        let file = self.file;
        let own: Vec<Option<usize>> = imports_in(&file.items).map(|import| self.find_source("", import)).collect();
        for part in &file.parts {
            let sources = imports_in(&part.items).map(|import| self.find_source(&part.path, import)).collect();
            self.sources.push(sources);
        }
        self.report_cycles();
        let mut names = Vec::new();
        for (import, source) in imports_in(&file.items).zip(own) {
            for name in &import.names {
                let found = source.and_then(|part| self.find_name(part, *name));
                names.push((name.name, found));
            }
        }
        for part in 0..file.parts.len() {
            for (at, import) in imports_in(&file.parts[part].items).enumerate() {
                let Some(source) = self.sources[part][at] else { continue };
                import.names.iter().for_each(|name| _ = self.find_name(source, *name));
            }
        }
        names
    }

    /// The text that an import of a file names.
    fn find_source(&mut self, importer: &str, import: &ImportItem) -> Option<usize> {
        let path = self.file.symbol_text(import.path);
        if path.is_empty() {
            return None;
        }
        let joined = match joined_path(importer, path) {
            Ok(joined) => joined,
            Err(reason) => {
                let note = "an import names a file in the folder of its own file or below it, as `\"lib/axpy.hir\"`";
                self.report(codes::IMPORT_PATH, import.path_span, message!("`{}` {}", path, reason), note);
                return None;
            }
        };
        let Some(&part) = self.parts.get(joined.as_str()) else {
            let note = "a program that is not read from a file gets the texts of its imports by \
                        `hostir::hir2::link_imports`, or after lines `file \"name.hir\"` at its end";
            self.report(codes::IMPORT_FILE, import.path_span, message!("the text of `{}` is not given", joined), note);
            return None;
        };
        let (reason, note) = match &self.file.parts[part].fault {
            None => return Some(part),
            // Its own error was reported.
            Some(PartFault::Version) => return None,
            Some(PartFault::NoText(reason)) => {
                (reason.as_str(), "the path is relative to the folder of the importing file")
            }
            Some(PartFault::OtherNotation) => (
                "it is not in `hir 2`",
                "only texts in `hir 2` are imported: convert the file with `hir-opt --form=hir2`",
            ),
        };
        self.report(
            codes::IMPORT_FILE,
            import.path_span,
            message!("cannot import from `{}`: {}", joined, reason),
            note,
        );
        None
    }

    fn report(&mut self, code: &'static str, span: Span, message: Message, note: &'static str) {
        self.diags.push(Diag::error(code, span, message).with_note(note));
    }

    /// Reports files that import each other, each circle at the import that closes it.
    fn report_cycles(&mut self) {
        let mut state = vec![ImportVisit::New; self.sources.len()];
        for start in 0..self.sources.len() {
            // The path from the start, each text with its next import.
            let mut path: Vec<(usize, usize)> = Vec::new();
            if state[start] == ImportVisit::New {
                path.push((start, 0));
            }
            while let Some((part, next)) = path.last_mut() {
                let part = *part;
                state[part] = ImportVisit::Open;
                let Some(&source) = self.sources[part].get(*next) else {
                    state[part] = ImportVisit::Done;
                    path.pop();
                    continue;
                };
                *next += 1;
                let at = *next - 1;
                match source.map(|source| (source, state[source])) {
                    Some((source, ImportVisit::New)) => path.push((source, 0)),
                    Some((source, ImportVisit::Open)) => {
                        let circle = path.iter().map(|(part, _)| *part).skip_while(|part| *part != source);
                        self.report_cycle(&circle.collect::<Vec<_>>(), at);
                        let again = self.sources[part].iter_mut().filter(|other| **other == Some(source));
                        again.for_each(|other| *other = None);
                    }
                    Some((_, ImportVisit::Done)) | None => {}
                }
            }
        }
    }

    fn report_cycle(&mut self, circle: &[usize], import: usize) {
        let Some((&first, &last)) = circle.first().zip(circle.last()) else { return };
        let parts = circle.iter().chain([&first]).map(|part| &self.file.parts[*part]);
        let names: Vec<String> = parts.map(|part| format!("`{}`", part.path)).collect();
        let message = message!("files import each other: {}", names.join(" imports "));
        let Some(place) = imports_in(&self.file.parts[last].items).nth(import) else { return };
        let note = "move the kernels that both need to a file of their own";
        self.report(codes::IMPORT_CYCLE, place.path_span, message, note);
    }

    /// The kernel or program of a name in a text, which may import it itself.
    fn find_name(&mut self, part: usize, name: NameSyntax) -> Option<ImportedItem> {
        if let Some(found) = self.found.get(&(part, name.name)) {
            return *found;
        }
        let file = self.file;
        let items = &file.parts[part].items;
        let place = items.iter().position(|item| item.names().iter().any(|known| known.name == name.name));
        let found = match place.map(|number| (number, &items[number])) {
            Some((item, ItemSyntax::Kernel(program) | ItemSyntax::Program(program))) => match program.mesh {
                Some(mesh) => {
                    report_imported_mesh(file.symbol_text(mesh.name), mesh.span, self.diags);
                    None
                }
                None => Some(ImportedItem { part, item }),
            },
            Some((number, ItemSyntax::Import(import))) => {
                let at = imports_in(&items[..number]).count();
                let next = import.names.iter().find(|known| known.name == name.name);
                // Circles were cut.
                self.sources[part][at].zip(next).and_then(|(source, next)| self.find_name(source, *next))
            }
            Some((_, ItemSyntax::Mesh(_))) => {
                let message = message!(
                    "`{}` of `{}` is a mesh",
                    PartKind::Mesh.quote(file.symbol_text(name.name)),
                    file.parts[part].path
                );
                self.report(codes::IMPORT_NAME, name.span, message, "kernels are imported, and programs as kernels");
                None
            }
            None => {
                self.report_no_name(part, name);
                None
            }
        };
        self.found.insert((part, name.name), found);
        found
    }

    fn report_no_name(&mut self, part: usize, name: NameSyntax) {
        let file = self.file;
        let (text, part) = (file.symbol_text(name.name), &file.parts[part]);
        let known = part.items.iter().filter(|item| !matches!(item, ItemSyntax::Mesh(_))).flat_map(ItemSyntax::names);
        let known: Vec<&str> = known.map(|name| file.symbol_text(name.name)).collect();
        let near = nearest_candidate(text, known.iter().copied());
        self.meant.extend(near.and_then(|near| file.strings.find_symbol(near)));
        let note = match near {
            Some(near) => message!("did you mean `{}`?", PartKind::Op.quote(near)),
            None if known.is_empty() => "the file has no kernels".into(),
            None => message!("the file has `{}`", known.join("`, `")),
        };
        let message = message!("`{}` has no kernel `{}`", part.path, PartKind::Op.quote(text));
        self.diags.push(Diag::error(codes::IMPORT_NAME, name.span, message).with_note(note));
    }
}

/// The state of a text in the search for circles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportVisit {
    New,
    Open,
    Done,
}

/// Reports the mesh of an imported kernel.
pub(super) fn report_imported_mesh(text: &str, span: Span, diags: &mut Diags) {
    let message = message!("an imported kernel is on no mesh, but this one names `{}`", PartKind::Mesh.quote(text));
    let note = "leave the mesh out: the tensors of a kernel are those of the rank that runs it";
    diags.push(Diag::error(codes::IMPORTED_MESH, span, message).with_note(note));
}
