//! Places that show where an error comes from: the declaration of a tensor whose axes do not fit, the loop of an index
//! that leaves its range, the mesh of a team, and names that nothing uses where another name is missing.

use super::consistency::may_be_slip;
use super::lines::{indent_width, line_number, outer_lines};
use super::own_handles::name_second;
use super::refuted::retract_fixes;
use crate::diag::{Applicability, Diag, Fix, PartKind, Span, codes, nearest_candidate};
use crate::hir2::is_hir2;
use crate::symbols::{NamedSymbol, SymbolKind, SymbolTable};
use crate::{ParsedFile, ReadOptions};

/// The maximum number of labels that one rule adds.
const MOST_LABELS: usize = 2;

/// The maximum number of tensors of a statement that are shown.
const MOST_OPERANDS: usize = 3;

/// Errors about the axes, sizes and elements of the tensors of a statement.
const OF_AXES: &[&str] =
    &[codes::OWN_INDEX, codes::RANK, codes::FLAGS, codes::PERMUTATION, codes::LAYOUT, codes::SHAPES, codes::DTYPE];

/// Errors at an iteration of a loop.
const OF_STEPS: &[&str] =
    &[codes::OUT_OF_RANGE, codes::POSTS, codes::UNWRITTEN_OUTPUT, codes::UNINITIALISED, codes::UNJOINED];

/// Errors about the devices of a mesh.
const OF_MESHES: &[&str] = &[codes::SIZE_CONFLICT, codes::ROOT, codes::TEAM];

/// Errors about tensors without a mesh.
const OF_MISSING_MESHES: &[&str] = &[codes::NO_MESH, codes::MISSING_ARGUMENT];

/// Errors about names that nothing declares.
const OF_NAMES: &[&str] = &[codes::UNDEFINED_TENSOR, codes::UNKNOWN_SCALAR, codes::UNKNOWN_HANDLE];

/// Errors about communications with one name.
const OF_HANDLES: &[&str] = &[codes::DUPLICATE_NUMBER];

/// The names of a text in `hir 2`.
pub(super) struct TextContext<'t> {
    text: &'t str,
    table: SymbolTable,
}

impl<'t> TextContext<'t> {
    /// The names of a text; `None` if it is in the printed form, or no diagnostic needs them.
    pub(super) fn for_diags(text: &'t str, diags: &[Diag], options: &ReadOptions) -> Option<Self> {
        let wanted = [OF_AXES, OF_STEPS, OF_MESHES, OF_MISSING_MESHES, OF_NAMES, OF_HANDLES].concat();
        let is_wanted = |diag: &Diag| wanted.contains(&diag.code) || may_be_slip(diag) || diag.code == codes::REPLICAS;
        if !is_hir2(text) || !diags.iter().any(is_wanted) {
            return None;
        }
        let (file, mut found) = ParsedFile::parse(text);
        let mut reader = file.reader_with_options(text, options).with_declarations();
        let programs: Vec<_> = (0..file.program_count()).map(|at| reader.read_program(at, &mut found)).collect();
        let table = SymbolTable::new(&file, text, reader.declarations(), &programs);
        Some(Self { text, table })
    }

    /// The names with their places.
    pub(super) fn table(&self) -> &SymbolTable {
        &self.table
    }

    /// Proposes names that are written and nothing uses in the place of one that is missing, the missing name for
    /// communications without one, and a new one for the second of two with one name.
    pub(super) fn propose_names(&self, diag: &mut Diag) {
        let Some(place) = diag.primary.as_ref().map(|label| label.span) else { return };
        let names_tensor = diag.message.parts().iter().any(|part| part.kind == PartKind::Tensor);
        if OF_MISSING_MESHES.contains(&diag.code) && (names_tensor || diag.code == codes::NO_MESH) {
            diag.fixes.extend(self.head_with_mesh(place));
        }
        if OF_HANDLES.contains(&diag.code) {
            let mut handles = self.table.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Handle);
            let shared = handles.find(|symbol| symbol.places.iter().any(|other| other.start == place.start));
            diag.fixes.extend(shared.and_then(|symbol| name_second(self.text, diag, &symbol.places)));
        }
        if !OF_NAMES.contains(&diag.code) {
            return;
        }
        let Some(missing) = self.text.get(place.as_usize_range()) else { return };
        if let Some(note) = self.kernel_name_note(missing, place) {
            diag.notes.insert(0, note.into());
            return;
        }
        let near = self
            .unused_names(place)
            .into_iter()
            .find(|symbol| nearest_candidate(missing, [symbol.name.as_str()]).is_some());
        if let Some(near) = near {
            let others: Vec<usize> = (0..diag.fixes.len()).filter(|&at| !diag.fixes[at].edits.is_empty()).collect();
            retract_fixes(diag, &others);
            let fix = Fix::replacement(format!("write `{}`", near.name), place, near.name.clone());
            diag.notes.insert(0, format!("did you mean `{}`? Nothing uses that", near.name).into());
            diag.fixes.push(Fix { applicability: Applicability::MaybeIncorrect, ..fix });
        }
    }

    /// The note for a missing name that means something in a kernel, whose results have names of their own here.
    fn kernel_name_note(&self, missing: &str, place: Span) -> Option<String> {
        let here = self.program_at(place)?;
        let mut named = self.table.symbols().iter().filter(|symbol| symbol.name == missing);
        let inner = named.find_map(|symbol| self.program_at(symbol.declaration).filter(|start| *start != here))?;
        let kernel = self.text[inner as usize..].strip_prefix("kernel ")?.split('(').next()?;
        let body = &self.text[here as usize..place.start as usize];
        let call = body
            .lines()
            .filter_map(|line| line.split_once(" = "))
            .find(|(_, value)| value.strip_prefix(kernel).is_some_and(|rest| rest.starts_with('(')));
        let result = call.map(|(head, _)| head.trim().split([':', '[']).next().unwrap_or_default().to_owned());
        let result = result.map_or_else(String::new, |name| format!("; its result here is `{name}`"));
        Some(format!("`{missing}` is a tensor inside of the kernel `{kernel}`, and no name outside of it{result}"))
    }

    /// Adds the labels that a diagnostic lacks.
    pub(super) fn add_labels(&self, diag: &mut Diag) {
        let Some(place) = diag.primary.iter().chain(&diag.labels).map(|label| label.span).next() else { return };
        if OF_AXES.contains(&diag.code) {
            let said = diag.message.as_str().to_owned();
            let named: Vec<&str> = said.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
            let mut symbols = self.symbols_of(place, diag.code);
            symbols.retain(|symbol| named.contains(&symbol.name.as_str()));
            for symbol in symbols.into_iter().take(MOST_OPERANDS) {
                self.add_label(diag, symbol.declaration, format!("`{}` is declared here", symbol.name));
            }
        }
        if OF_STEPS.contains(&diag.code) {
            self.label_loops(diag, place);
        }
        if diag.code == codes::OUT_OF_RANGE {
            for symbol in self.symbols_in(place, SymbolKind::Scalar).into_iter().take(MOST_LABELS) {
                self.add_label(diag, symbol.declaration, format!("`{}` is computed here", symbol.name));
            }
        }
        if OF_MESHES.contains(&diag.code) {
            self.label_mesh(diag);
        }
        if OF_NAMES.contains(&diag.code) && diag.fixes.iter().all(|fix| fix.edits.is_empty()) {
            // Of many nobody knows which one belongs here.
            let mut unused = self.unused_names(place);
            unused.retain(|symbol| (symbol.kind == SymbolKind::Handle) == (diag.code == codes::UNKNOWN_HANDLE));
            for symbol in unused.iter().filter(|_| unused.len() <= MOST_LABELS) {
                self.add_label(diag, symbol.declaration, format!("nothing uses this `{}`", symbol.name));
            }
        }
    }

    fn add_label(&self, diag: &mut Diag, span: Span, text: String) {
        let line = line_number(self.text, span.start);
        let mut shown = diag.primary.iter().chain(&diag.labels);
        if shown.all(|label| line_number(self.text, label.span.start) != line) {
            diag.labels.push(crate::diag::DiagLabel { span, text: text.into() });
        }
    }

    /// The tensors at a place: that of an index, or those of a statement.
    fn symbols_of(&self, place: Span, code: &str) -> Vec<&NamedSymbol> {
        let place = match code {
            codes::OWN_INDEX => {
                let head = self.text.get(..place.start as usize).and_then(|before| before.rfind('['));
                head.map_or(place, |open| Span::new(open.saturating_sub(1), open))
            }
            _ => place,
        };
        self.symbols_in(place, SymbolKind::Tensor)
    }

    /// The symbols of a kind with a name at a place, in the order of the text.
    fn symbols_in(&self, place: Span, kind: SymbolKind) -> Vec<&NamedSymbol> {
        let mut found: Vec<&NamedSymbol> = Vec::new();
        for (span, symbol) in self.table.places() {
            let is_inside = span.end > place.start && span.start < place.end;
            if is_inside && symbol.kind == kind && !found.contains(&symbol) {
                found.push(symbol);
            }
        }
        found
    }

    /// Labels the loops around the places of an error whose index it names.
    fn label_loops(&self, diag: &mut Diag, place: Span) {
        let texts = diag.notes.iter().chain(diag.primary.iter().chain(&diag.labels).map(|label| &label.text));
        let said: Vec<String> = texts.map(|text| text.as_str().to_owned()).collect();
        let places: Vec<Span> = std::iter::once(place).chain(diag.labels.iter().map(|label| label.span)).collect();
        let mut loops: Vec<Span> = places.iter().flat_map(|place| self.loops_around(place.start)).collect();
        loops.sort_unstable();
        loops.dedup();
        for head in loops.into_iter().rev().take(MOST_LABELS) {
            let Some(index) = self.text.get(head.as_usize_range()).and_then(loop_index) else { continue };
            if said.iter().any(|text| text.contains(&format!("{index}="))) {
                self.add_label(diag, head, format!("the loop of `{index}`"));
            }
        }
    }

    /// The heads of the loops around a place: `for s in p`.
    fn loops_around(&self, at: u32) -> Vec<Span> {
        let Some(before) = self.text.get(..at as usize) else { return Vec::new() };
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let heads = outer_lines(self.text, start).into_iter().filter_map(|start| {
            let line = self.text[start..].lines().next()?;
            let own = indent_width(line);
            let head = line[own..].split(':').next()?;
            loop_index(head).map(|_| Span::new(start + own, start + own + head.len()))
        });
        heads.collect()
    }

    /// The fix that gives the program around a place the only mesh of the text; `None` if its head has one.
    fn head_with_mesh(&self, place: Span) -> Option<Fix> {
        let mut meshes = self.table.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Mesh);
        let (Some(mesh), None) = (meshes.next(), meshes.next()) else { return None };
        let start = match self.program_at(place) {
            Some(start) if line_number(self.text, start) != line_number(self.text, mesh.declaration.start) => {
                start as usize
            }
            _ => self.text[..place.start as usize].rfind('\n')? + 1,
        };
        let head = self.text.get(start..)?.lines().next()?;
        let end = start + head.strip_suffix(':')?.len();
        if head.contains(" on ") {
            return None;
        }
        let fix = Fix::replacement(
            format!("write ` on {}` at the end of the head", mesh.name),
            Span::new(end, end),
            format!(" on {}", mesh.name),
        );
        Some(Fix { applicability: Applicability::Untried, ..fix })
    }

    /// Labels the mesh that an error names, or the only one for an error about ranks.
    fn label_mesh(&self, diag: &mut Diag) {
        let is_of_ranks = [codes::ROOT, codes::TEAM].contains(&diag.code);
        let texts = std::iter::once(&diag.message).chain(&diag.notes);
        let named: Vec<&str> = texts.flat_map(|text| text.texts_of(PartKind::Mesh)).collect();
        let is_named = |mesh: &NamedSymbol| named.contains(&mesh.name.as_str());
        let mut meshes = self.table.symbols().iter().filter(|symbol| symbol.kind == SymbolKind::Mesh);
        if let (Some(mesh), None) = (meshes.next(), meshes.next())
            && (is_of_ranks || is_named(mesh))
        {
            self.add_label(diag, mesh.declaration, format!("`{}` is declared here", mesh.name));
        }
    }

    /// The tensors, scalars and communications before a place that have no other place, the nearest first.
    fn unused_names(&self, place: Span) -> Vec<&NamedSymbol> {
        let kinds = [SymbolKind::Tensor, SymbolKind::Scalar, SymbolKind::Handle];
        let scope = self.program_at(place);
        let mut found: Vec<&NamedSymbol> = self.table.symbols().iter().collect();
        found.retain(|symbol| {
            let is_here = scope.is_none_or(|start| symbol.declaration.start >= start) && symbol.declaration < place;
            is_here && kinds.contains(&symbol.kind) && self.is_lost(symbol)
        });
        found.sort_by_key(|symbol| std::cmp::Reverse(symbol.declaration));
        found
    }

    /// Returns true if nothing reads a name between where it is defined and where it is defined again, or ends.
    fn is_lost(&self, symbol: &NamedSymbol) -> bool {
        match symbol.places.as_slice() {
            [_] => true,
            [first, second, ..] => symbol.kind == SymbolKind::Tensor && self.is_value(*first) && self.is_value(*second),
            [] => false,
        }
    }

    /// Returns true if a name at the beginning of a line gets a value that a statement computes.
    fn is_value(&self, name: Span) -> bool {
        let Some(before) = self.text.get(..name.start as usize) else { return false };
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let after = self.text[name.end as usize..].lines().next().unwrap_or_default();
        let value = after.split_once(" = ").filter(|(ty, _)| ty.is_empty() || ty.starts_with(": "));
        before[start..].trim().is_empty() && value.is_some_and(|(_, value)| !value.starts_with("alloc"))
    }

    /// The first byte of the program around a place.
    fn program_at(&self, place: Span) -> Option<u32> {
        let before = self.text.get(..place.start as usize)?;
        let mut end = before.len();
        while let Some(start) = before[..end].rfind('\n') {
            if before[start + 1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
                return u32::try_from(start + 1).ok();
            }
            end = start;
        }
        None
    }
}

/// The index of a loop's head.
fn loop_index(head: &str) -> Option<&str> {
    head.strip_prefix("for ")?.split(" in ").next().filter(|index| !index.contains(' '))
}
