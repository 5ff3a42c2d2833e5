//! Reads `hir 2`: makes IR of a syntax tree.
//!
//! Reading never fails: what cannot be read is reported and left out. The IR is built in the style of June 2025 and
//! converted at the end if the text asks for another one. A statement may become several ops: slices inside of it
//! (`slices`), the loops of `on streams` (`control`), a communication and its Wait (`posts`).

mod calls;
mod comments;
mod control;
mod declare;
mod division;
mod exprs;
mod file_scope;
mod foreign;
mod posts;
mod program;
mod report;
mod scope;
mod slices;
mod statements;
mod types;
mod unbound;
mod verbatim;
mod word_table;

use crate::diag::{Diags, syntax_error};
use crate::hir2::defaults::default_mesh_name;
use crate::ir::{DeviceMesh, Era, Program, RESERVED_WORDS, Style, is_numbered_name};
use file_scope::{FilePlace, FileScope, NamedMesh};
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, ProgramItem};
use program::ProgramReader;
use rustc_hash::{FxHashMap, FxHashSet};
use scope::Meaning;

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
        ItemSyntax::Kernel(_) | ItemSyntax::Mesh(_) => None,
    })
}

/// Reads all programs of a file; `source` is the text that `file` was read from.
pub fn read_file(file: &FileSyntax, source: &str, diags: &mut Diags) -> Vec<Program> {
    (0..program_count(file)).map(|position| read_program(file, source, position, diags)).collect()
}

/// Reads one program of a file, from 0. Errors about the file as a whole come with the first. A number past the last gives
/// an empty program.
pub fn read_program(file: &FileSyntax, source: &str, position: usize, diags: &mut Diags) -> Program {
    let mut unsaid = Diags::default();
    let about_file = if position == 0 { &mut *diags } else { &mut unsaid };
    let shared = FileScope { meshes: declare_meshes(file, about_file), style: file_style(file, about_file) };
    if position == 0 {
        check_item_names(file, about_file);
    }
    let mut kernels: Vec<(usize, &ProgramItem)> = Vec::new();
    let mut programs = 0;
    for (number, item) in file.items.iter().enumerate() {
        match item {
            ItemSyntax::Mesh(_) => {}
            ItemSyntax::Kernel(kernel) => kernels.push((number, kernel)),
            ItemSyntax::Program(program) if programs == position => {
                let place = FilePlace { number, position };
                let mut reader = ProgramReader::new(file, source, &shared, place, diags);
                reader.read_program(&kernels, program);
                return reader.finish();
            }
            ItemSyntax::Program(_) => {
                programs += 1;
                kernels.clear();
            }
        }
    }
    Program::default()
}

/// Kernels and programs have names of their own, and each kernel a program behind it.
fn check_item_names(file: &FileSyntax, diags: &mut Diags) {
    let mut names: FxHashMap<Symbol, Span> = FxHashMap::default();
    let mut lone = None;
    for item in &file.items {
        let (name, span) = match item {
            ItemSyntax::Mesh(mesh) => (mesh.name, mesh.name.span),
            ItemSyntax::Kernel(program) | ItemSyntax::Program(program) => (program.name, program.name.span),
        };
        match item {
            ItemSyntax::Kernel(kernel) => lone = lone.or(Some(kernel)),
            ItemSyntax::Program(_) => lone = None,
            ItemSyntax::Mesh(_) => {}
        }
        let text = file.symbol_text(name.name);
        if RESERVED_WORDS.contains(&text) {
            report::report_reserved(text, span, diags);
        } else if is_numbered_name(text) {
            report::report_numbered(text, Meaning::Poisoned, span, diags);
        }
        if let Some(first) = names.insert(name.name, span) {
            report::report_twice(file, name, first, diags);
        }
    }
    if let Some(kernel) = lone {
        report::report_lone_kernel(file, kernel, diags);
    }
}

fn declare_meshes(file: &FileSyntax, diags: &mut Diags) -> FxHashMap<Symbol, NamedMesh> {
    let mut meshes: FxHashMap<Symbol, NamedMesh> = FxHashMap::default();
    let items = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some(mesh),
        _ => None,
    });
    let is_in_order = are_meshes_in_order(file);
    for (position, item) in items.enumerate() {
        if meshes.contains_key(&item.name.name) {
            continue;
        }
        let is_right = report::check_mesh_devices(item, diags);
        let is_poisoned = !is_right || item.devices.is_empty() || item.shape.is_empty();
        let mesh = DeviceMesh { shape: item.shape.clone(), devices: item.devices.clone() };
        let is_default = is_in_order && file.symbol_text(item.name.name) == default_mesh_name(position);
        meshes.insert(item.name.name, NamedMesh { mesh, is_default, is_poisoned });
    }
    meshes
}

/// True if a file uses its meshes in the order in which it declares them, which is that of the canonical layout. In another order a
/// mesh without a name would be written with another name than it has here.
fn are_meshes_in_order(file: &FileSyntax) -> bool {
    let items = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some(mesh.name.name),
        _ => None,
    });
    let declared: FxHashMap<Symbol, usize> = items.enumerate().map(|(at, name)| (name, at)).collect();
    if declared.len() < 2 {
        return true;
    }
    let mut last = None;
    let mut seen: FxHashSet<Symbol> = FxHashSet::default();
    mesh_uses(file).filter(|name| seen.insert(*name)).filter_map(|name| declared.get(&name)).all(|&place| {
        let is_behind = last.is_none_or(|last| last < place);
        last = Some(place);
        is_behind
    })
}

/// The names of the meshes of tensors, program by program: of inputs and outputs first.
fn mesh_uses(file: &FileSyntax) -> impl Iterator<Item = Symbol> + '_ {
    let programs = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Kernel(program) | ItemSyntax::Program(program) => Some(program),
        ItemSyntax::Mesh(_) => None,
    });
    programs.flat_map(|program| {
        let parameters = program.inputs.iter().chain(&program.outputs);
        let own = parameters.filter_map(|parameter| {
            let given = parameter.ty.and_then(|ty| file.types[ty.index()].mesh);
            given.or(program.mesh)
        });
        let inside =
            file.types.iter().filter(|ty| program.span.start <= ty.span.start && ty.span.start < program.span.end);
        own.chain(inside.filter_map(|ty| ty.mesh)).map(|name| name.name)
    })
}

fn file_style(file: &FileSyntax, diags: &mut Diags) -> Style {
    let Some(named) = file.style else { return Style::default() };
    match Era::parse(file.symbol_text(named.name)) {
        Some(era) => era.style(),
        None => {
            report::report_style(file, named, diags);
            Style::default()
        }
    }
}
