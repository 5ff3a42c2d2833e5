//! Reads `hir 2`: makes IR of a syntax tree.
//!
//! Reading never fails: it reports errors and leaves the statements out. It builds the IR in the style of June 2025 and
//! converts it at the end if the text asks for another one. A statement may become several ops: slices inside of it
//! (`slices`), the loops of `on streams` (`control`), a communication and its Wait (`posts`).

mod calls;
mod comments;
mod communications;
mod control;
mod declare;
mod division;
mod exprs;
mod file_scope;
mod foreign;
mod foreign_forms;
mod given_memory;
mod handles;
mod imports;
mod launches;
mod missing_team;
mod nested;
mod numbering;
mod program;
mod program_meshes;
mod report;
mod report_calls;
mod report_names;
mod scalar_blocks;
mod scope;
pub(crate) mod sized_meshes;
mod slices;
mod statement_index;
mod statements;
mod stream_scope;
mod types;
mod unbound;
mod verbatim;
mod word_table;

use crate::diag::{Diags, syntax_error};
use crate::hir2::defaults::{default_mesh_name, is_default_name};
use crate::ir::{DeviceMesh, Era, GivenSizes, NO_MESH, Program, RESERVED_WORDS, Style, is_numbered_name};
use crate::ops::OpRegistry;
use comments::find_mesh_comments;
use file_scope::{FilePlace, FileScope, NamedMesh, ProgramPlace, mesh_uses};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, MeshItem};
use imports::ImportTable;
use program::{KernelSource, ProgramReader, ProgramTables};
use program_meshes::rank_count_size;
use rustc_hash::{FxHashMap, FxHashSet};
pub use scope::{DeclaredName, Meaning};
use sized_meshes::{FileSizes, SizedMesh};

/// Parses and reads all programs of a text in `hir 2`.
pub fn read_text(text: &str) -> (Vec<Program>, Diags) {
    let parsed = hostir_grammar::hir2::parse(text);
    let mut diags = Diags { items: parsed.errors.into_iter().map(syntax_error).collect() };
    let programs = read_file(&parsed.file, text, &mut diags);
    diags.sort_by_place();
    (programs, diags)
}

/// Number of programs of a file.
pub fn program_count(file: &FileSyntax) -> usize {
    program_names(file).count()
}

/// The names of the programs of a file, in order.
pub fn program_names(file: &FileSyntax) -> impl Iterator<Item = &str> {
    file.items.iter().filter_map(|item| match item {
        ItemSyntax::Program(program) => Some(file.symbol_text(program.name.name)),
        ItemSyntax::Import(_) | ItemSyntax::Kernel(_) | ItemSyntax::Mesh(_) => None,
    })
}

/// The offset at which each item of a file begins, and the number of its program; `None` for a mesh, an import and
/// imported texts.
pub(crate) fn item_starts(file: &FileSyntax) -> Vec<(u32, Option<usize>)> {
    let mut programs = 0;
    let mut starts = Vec::with_capacity(file.items.len());
    for item in &file.items {
        match item {
            ItemSyntax::Import(import) => starts.push((import.span.start, None)),
            ItemSyntax::Mesh(mesh) => starts.push((mesh.name.span.start, None)),
            // A kernel belongs to the program that follows it.
            ItemSyntax::Kernel(kernel) => starts.push((kernel.span.start, Some(programs))),
            ItemSyntax::Program(program) => {
                starts.push((program.span.start, Some(programs)));
                programs += 1;
            }
        }
    }
    starts.extend(file.parts.iter().map(|part| (part.start, None)));
    starts
}

/// Reads all programs of a file; `source` is its text.
pub fn read_file(file: &FileSyntax, source: &str, diags: &mut Diags) -> Vec<Program> {
    let mut reader = FileReader::new(file, source);
    (0..program_count(file)).map(|position| reader.read_program(position, diags)).collect()
}

/// Reads one program of a file, from 0. Errors about the file as a whole come with the first. A number past the last
/// gives an empty program.
pub fn read_program(file: &FileSyntax, source: &str, position: usize, diags: &mut Diags) -> Program {
    FileReader::new(file, source).read_program(position, diags)
}

/// Reads the programs of a file; collects the facts about the file once.
pub struct FileReader<'a> {
    file: &'a FileSyntax,
    source: &'a str,
    shared: FileScope,
    tables: ProgramTables,
    /// Errors about the file as a whole.
    about_file: Diags,
    /// Errors about meshes that are given by sizes, until they are reported.
    about_sizes: Diags,
}

impl<'a> FileReader<'a> {
    /// A reader for `file`, which was read from `source`.
    pub fn new(file: &'a FileSyntax, source: &'a str) -> Self {
        Self::with_sizes(file, source, &GivenSizes::default())
    }

    /// The same for these values of the meshes' sizes.
    pub fn with_sizes(file: &'a FileSyntax, source: &'a str, given: &GivenSizes) -> Self {
        let mut about_file = Diags::default();
        let given_names: FxHashSet<Symbol> = file.head.given_names.iter().map(|given| given.name).collect();
        let mut about_sizes = Diags::default();
        let sizes = FileSizes::choose(file, given, &mut about_sizes);
        let mut meshes = declare_listed_meshes(file, &mut about_file);
        declare_sized_meshes(file, &sizes, &mut meshes, &mut about_sizes);
        name_default_meshes(file, &given_names, &mut meshes);
        let style = file_style(file, &mut about_file);
        check_item_names(file, &mut about_file);
        let programs = find_programs(file);
        let mesh_comments = find_mesh_comments(file, &programs);
        let imports = ImportTable::new(file, &mut about_file);
        let ops = OpRegistry::OURS;
        let shared = FileScope { ops, imports, meshes, sizes, style, given_names, programs, mesh_comments };
        Self { file, source, shared, tables: ProgramTables::new(file), about_file, about_sizes }
    }

    /// With these ops.
    #[must_use]
    pub fn with_ops(mut self, ops: OpRegistry) -> Self {
        self.shared.ops = ops;
        self
    }

    /// Keeps the declarations of names in the programs that are read from now on.
    #[must_use]
    pub fn with_declarations(mut self) -> Self {
        self.tables.scope.keep_declarations();
        self
    }

    /// The declarations that were kept, in the order of reading. An imported kernel's come once for each program.
    pub fn declarations(&self) -> &[DeclaredName] {
        self.tables.scope.declarations()
    }

    /// Reads one program, from 0. Errors about the file as a whole come with the first, those about the sizes of meshes
    /// with the first that is read: they are about a run of this program. A number past the last gives an empty
    /// program.
    pub fn read_program(&mut self, position: usize, diags: &mut Diags) -> Program {
        diags.items.append(&mut self.about_sizes.items);
        if position == 0 {
            diags.items.extend(self.about_file.items.iter().cloned());
        }
        let file = self.file;
        let Some(place) = self.shared.programs.get(position) else { return Program::default() };
        let Some(ItemSyntax::Program(program)) = file.items.get(place.item) else { return Program::default() };
        let imported = self.shared.imports.kernels_of(file, program);
        let mut kernels: Vec<KernelSource<'_>> =
            imported.into_iter().map(|item| KernelSource { number: None, item }).collect();
        kernels.extend((place.first..place.item).filter_map(|number| match &file.items[number] {
            ItemSyntax::Kernel(item) => Some(KernelSource { number: Some(number), item }),
            ItemSyntax::Import(_) | ItemSyntax::Mesh(_) | ItemSyntax::Program(_) => None,
        }));
        let place = FilePlace { number: place.item, position };
        let mut reader = ProgramReader::new(file, self.source, &self.shared, &mut self.tables, place, diags);
        reader.read_program(&kernels, program);
        reader.finish()
    }
}

/// The items of each program.
fn find_programs(file: &FileSyntax) -> Vec<ProgramPlace> {
    let mut programs: Vec<ProgramPlace> = Vec::new();
    for (item, program) in file.items.iter().enumerate() {
        let ItemSyntax::Program(program) = program else { continue };
        let first = programs.last().map_or(0, |before| before.item + 1);
        programs.push(ProgramPlace { first, item, start: program.span.start });
    }
    programs
}

/// Kernels and programs have names of their own, and each kernel a program after it.
fn check_item_names(file: &FileSyntax, diags: &mut Diags) {
    let mut names: FxHashMap<Symbol, Span> = FxHashMap::default();
    let mut lone = None;
    for item in &file.items {
        match item {
            ItemSyntax::Kernel(kernel) => lone = lone.or(Some(kernel)),
            ItemSyntax::Program(_) => lone = None,
            ItemSyntax::Mesh(_) | ItemSyntax::Import(_) => {}
        }
        for name in item.names() {
            let text = file.symbol_text(name.name);
            if RESERVED_WORDS.contains(&text) || (text == NO_MESH && matches!(item, ItemSyntax::Mesh(_))) {
                report_names::report_reserved(text, name.span, diags);
            } else if is_numbered_name(text) {
                report_names::report_numbered(text, Meaning::Poisoned, name.span, diags);
            }
            if let Some(first) = names.insert(name.name, name.span) {
                report_names::report_twice(file, *name, first, diags);
            }
        }
    }
    if let Some(kernel) = lone {
        report::report_lone_kernel(file, kernel, diags);
    }
    for given in file.head.given_names.iter().filter(|given| !names.contains_key(&given.name)) {
        report_names::report_given_name(file.symbol_text(given.name), given.span, diags);
    }
}

fn mesh_items(file: &FileSyntax) -> impl Iterator<Item = &MeshItem> {
    file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some(mesh),
        ItemSyntax::Import(_) | ItemSyntax::Kernel(_) | ItemSyntax::Program(_) => None,
    })
}

/// The meshes of a file, without the devices of those that are given by sizes.
fn declare_listed_meshes(file: &FileSyntax, diags: &mut Diags) -> FxHashMap<Symbol, NamedMesh> {
    let mut meshes: FxHashMap<Symbol, NamedMesh> = FxHashMap::default();
    for item in mesh_items(file) {
        meshes.entry(item.name.name).or_insert_with(|| declare_listed_mesh(item, diags));
    }
    meshes
}

/// Gives meshes their devices, unless there is an error about their sizes.
fn declare_sized_meshes(
    file: &FileSyntax,
    sizes: &FileSizes,
    meshes: &mut FxHashMap<Symbol, NamedMesh>,
    diags: &mut Diags,
) {
    if diags.has_errors() {
        return;
    }
    let mut seen = FxHashSet::default();
    for item in mesh_items(file).filter(|item| seen.insert(item.name.name)) {
        if let Some(SizedMesh { mesh, text }) = sizes.find_devices(file, item, diags) {
            let rank_count = rank_count_size(file, item);
            let named = NamedMesh { mesh, is_default: false, is_poisoned: false, sized: text, rank_count };
            meshes.insert(item.name.name, named);
        }
    }
}

/// A mesh of numbers; one without devices has an error.
fn declare_listed_mesh(item: &MeshItem, diags: &mut Diags) -> NamedMesh {
    let is_right = report::check_mesh_devices(item, diags);
    let is_poisoned = !is_right || item.devices.is_empty() || item.shape.is_empty();
    let mesh = DeviceMesh { shape: item.shape.clone(), devices: item.devices.clone() };
    NamedMesh { mesh, is_default: false, is_poisoned, sized: None, rank_count: None }
}

/// Finds the meshes whose names are those that a writer gives to meshes without one: the writer counts meshes in the
/// order of their first use, so that names in another order are the author's.
fn name_default_meshes(file: &FileSyntax, given_names: &FxHashSet<Symbol>, meshes: &mut FxHashMap<Symbol, NamedMesh>) {
    if meshes.is_empty() {
        return;
    }
    let mut seen: FxHashSet<Symbol> = FxHashSet::default();
    let names = file.items.iter().flat_map(ItemSyntax::names);
    let texts: FxHashSet<&str> = names.map(|name| file.symbol_text(name.name)).collect();
    // Those that no tensor has follow, as they are declared.
    let declared = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some(mesh.name.name),
        _ => None,
    });
    for name in mesh_uses(file).map(|(_, name)| name).chain(declared) {
        let Some(mesh) = meshes.get_mut(&name).filter(|_| !seen.contains(&name)) else { continue };
        let default = default_mesh_name(seen.len());
        mesh.is_default = !given_names.contains(&name)
            && is_default_name(file.symbol_text(name), &default, |text| texts.contains(text));
        seen.insert(name);
        if seen.len() == meshes.len() {
            break;
        }
    }
}

fn file_style(file: &FileSyntax, diags: &mut Diags) -> Style {
    let Some(named) = file.head.style else { return Style::default() };
    match Era::parse(file.symbol_text(named.name)) {
        Some(era) => era.style(),
        None => {
            report::report_style(file, named, diags);
            Style::default()
        }
    }
}
