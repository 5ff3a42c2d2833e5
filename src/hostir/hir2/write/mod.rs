//! The writer of `hir 2`: IR to the text that people write.
//!
//! Every program has a text, and reading it gives the same program up to numbers. `prepare` converts a program to the
//! style of June 2025, `uses` counts, `names` spells; `slices` decides which selects the statements contain, `contract`
//! which runs of ops one statement represents. If the short form of a construct does not fit exactly, the writer uses
//! the next more explicit form, in the end the printed form in backquotes.

mod communications;
mod contract;
mod divisor;
mod kept;
mod launches;
mod layout;
mod names;
mod open_streams;
mod ops;
pub mod outline;
mod parts;
mod prepare;
mod scalars;
mod slices;
mod statements;
mod tables;
mod types;
mod uses;

use super::version::version_line;
use crate::ir::edit::Edit;
use crate::ir::text::{push_integer, push_number};
use crate::ir::{BlockId, CommentPlace, DeviceMesh, MeshId, Program, SourceComment, Value};
use hostir_grammar::hir2::ast::FileSyntax;
use kept::{KeptStatements, SourceStatements};
use names::FileNames;
use open_streams::OpenStreams;
use rustc_hash::FxHashMap;
use statements::LINE_WIDTH;
use tables::WriteTables;

/// The text of a file that holds these programs.
///
/// The programs are unchanged afterwards: the text has their form in the style of June 2025.
pub fn write_file(programs: &mut [Program]) -> String {
    write_programs(programs, None)
}

/// The text that the programs of a file have been read from, in the canonical layout: statements that it spells in
/// another way than the writer stay as they are.
pub(super) fn write_layout(programs: &mut [Program], text: &str, file: &FileSyntax) -> String {
    write_programs(programs, Some(&SourceStatements::new(text, file)))
}

fn write_programs(programs: &mut [Program], source: Option<&SourceStatements<'_>>) -> String {
    let names = FileNames::new(programs);
    let has_new_head = !names.imports.is_empty() || names.meshes.iter().any(|mesh| mesh.sized.is_some());
    let mut out = version_line(programs, has_new_head).to_owned();
    if !programs.is_empty() {
        let comments = HeadComments::new(programs, &names);
        for text in &comments.of_file {
            push_line(text, &mut out);
        }
        push_head(programs, &names, &comments, &mut out);
    }
    let count = programs.len();
    for (at, program) in programs.iter_mut().enumerate() {
        let mut edit = Edit::new(program);
        let usual_sizes = prepare::prepare_program(&mut edit);
        let tables = WriteTables::new(edit.program(), usual_sizes);
        let kept = source.map(|source| KeptStatements::new(source, edit.program()));
        let mut writer = ProgramWriter::new(&tables, &names, at, std::mem::take(&mut out));
        writer.kept = kept.as_ref();
        writer.write_program(at);
        if at + 1 == count {
            writer.write_outer_comments(CommentPlace::End);
        }
        out = writer.out;
    }
    out
}

/// The comments in front of the first program.
#[derive(Default)]
struct HeadComments<'p> {
    /// Those below the first line.
    of_file: Vec<&'p str>,
    /// The comments above a mesh, by its place in the text.
    above: FxHashMap<usize, Vec<&'p str>>,
    /// Those at the end of its line.
    after: FxHashMap<usize, Vec<&'p str>>,
    /// The comments above an import, and at the end of its line, by its place in the text.
    of_imports: FxHashMap<CommentPlace, Vec<&'p str>>,
}

impl<'p> HeadComments<'p> {
    /// Comments of a mesh that the programs no longer have are the file's.
    fn new(programs: &'p [Program], names: &FileNames) -> Self {
        let mut found = HeadComments::default();
        for ((at, program), places) in programs.iter().enumerate().zip(&names.mesh_places) {
            for SourceComment { place, text } in program.source().comments.iter().filter(|one| !one.text.is_empty()) {
                let list = match place {
                    CommentPlace::AboveMesh(id) => places.get(id).map(|at| found.above.entry(*at).or_default()),
                    CommentPlace::AfterMesh(id) => places.get(id).map(|at| found.after.entry(*at).or_default()),
                    CommentPlace::AboveImport(line) | CommentPlace::AfterImport(line) => {
                        let has_line = (*line as usize) < names.imports.len();
                        has_line.then(|| found.of_imports.entry(*place).or_default())
                    }
                    CommentPlace::File if at == 0 => None,
                    _ => continue,
                };
                list.unwrap_or(&mut found.of_file).push(text);
            }
        }
        found
    }
}

fn push_line(text: &str, out: &mut String) {
    out.push_str(text);
    out.push('\n');
}

/// Style, sizes, streams, names and meshes.
fn push_head(programs: &[Program], names: &FileNames, comments: &HeadComments<'_>, out: &mut String) {
    let mut head = String::new();
    let (_, era) = prepare::closest_era(programs[0].style());
    if era != "2025-06" {
        head.push_str("style ");
        head.push_str(era);
        head.push('\n');
    }
    push_hints(programs, &mut head);
    if !names.given_defaults.is_empty() {
        head.push_str("names ");
        push_line(&names.given_defaults.join(", "), &mut head);
    }
    push_imports(names, comments, &mut head);
    for (at, mesh) in names.meshes.iter().enumerate() {
        for text in comments.above.get(&at).into_iter().flatten() {
            push_line(text, &mut head);
        }
        head.push_str("mesh ");
        head.push_str(&mesh.name);
        head.push_str(" = ");
        match &mesh.sized {
            Some(text) => head.push_str(text),
            None => push_mesh(&mesh.mesh, &mut head),
        }
        for text in comments.after.get(&at).into_iter().flatten() {
            head.push(' ');
            head.push_str(text);
        }
        head.push('\n');
    }
    // A blank line separates file comments from the rest.
    if !head.is_empty() && out.lines().count() > 1 {
        out.push('\n');
    }
    out.push_str(&head);
}

/// `import a, b from "file.hir"`
fn push_imports(names: &FileNames, comments: &HeadComments<'_>, out: &mut String) {
    for (line, import) in (0..).zip(&names.imports) {
        for text in comments.of_imports.get(&CommentPlace::AboveImport(line)).into_iter().flatten() {
            push_line(text, out);
        }
        out.push_str("import ");
        out.push_str(&import.names.join(", "));
        out.push_str(" from \"");
        out.push_str(&import.path);
        out.push('"');
        for text in comments.of_imports.get(&CommentPlace::AfterImport(line)).into_iter().flatten() {
            out.push(' ');
            out.push_str(text);
        }
        out.push('\n');
    }
}

/// `sizes m=64` and `streams 3`: those of the first program that has any.
fn push_hints(programs: &[Program], out: &mut String) {
    let sized = programs.iter().find(|program| !program.run_hints().sizes.is_empty());
    if let Some(program) = sized {
        out.push_str("sizes ");
        for (at, (name, value)) in program.run_hints().sizes.iter().enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            out.push_str(program.name(*name));
            out.push('=');
            push_integer(out, *value);
        }
        out.push('\n');
    }
    if let Some(streams) = programs.iter().find_map(|program| program.run_hints().streams) {
        out.push_str("streams ");
        push_number(out, u64::from(streams));
        out.push('\n');
    }
}

/// `0..4`, or nested lists.
fn push_mesh(mesh: &DeviceMesh, out: &mut String) {
    let devices = &mesh.devices;
    let consecutive = devices.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    if let ([first, ..], [.., last], true) = (devices.as_slice(), devices.as_slice(), mesh.shape.len() <= 1)
        && consecutive
    {
        push_number(out, u64::from(*first));
        out.push_str("..");
        return push_number(out, u64::from(*last) + 1);
    }
    push_mesh_axes(&mesh.shape, devices, out);
}

fn push_mesh_axes(shape: &[u32], devices: &[u32], out: &mut String) {
    out.push('[');
    match shape {
        [] | [_] => {
            for (at, device) in devices.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                push_number(out, u64::from(*device));
            }
        }
        [extent, inner @ ..] => {
            let part = (devices.len() / (*extent).max(1) as usize).max(1);
            for (at, devices) in devices.chunks(part).enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                push_mesh_axes(inner, devices, out);
            }
        }
    }
    out.push(']');
}

/// Inputs, outputs and the words around them.
struct HeaderLists<'h> {
    prefix: &'h str,
    name: &'h str,
    inputs: &'h [Value],
    outputs: &'h [Value],
}

/// The state of writing one program.
struct ProgramWriter<'p> {
    program: &'p Program,
    file: &'p FileNames,
    /// Names of the program's HostUnits.
    units: &'p [String],
    mesh_places: &'p FxHashMap<MeshId, usize>,
    tables: &'p WriteTables<'p>,
    /// For each tensor: whether the text contains its type, or inference gives it.
    declared: Vec<bool>,
    /// The mesh of the header.
    header_mesh: Option<MeshId>,
    /// The statements of the text, whose layout is written.
    kept: Option<&'p KeptStatements<'p>>,
    /// The streams and loops around the statement.
    streams: OpenStreams,
    indent: usize,
    out: String,
}

impl<'p> ProgramWriter<'p> {
    fn new(tables: &'p WriteTables<'p>, file: &'p FileNames, at: usize, out: String) -> Self {
        Self {
            program: tables.program,
            file,
            units: &file.units[at],
            mesh_places: &file.mesh_places[at],
            tables,
            declared: vec![false; tables.program.tensors().len()],
            header_mesh: None,
            kept: None,
            streams: OpenStreams::default(),
            indent: 0,
            out,
        }
    }

    /// Kernels, header, statements.
    fn write_program(&mut self, at: usize) {
        let program = self.program;
        if at > 0 {
            self.write_outer_comments(CommentPlace::File);
        }
        let (units, file) = (self.units, self.file);
        let own = program.units().iter().zip(units).filter(|((id, _), _)| !program.imports().units.contains(id));
        for ((_, unit), name) in own {
            self.push("\n");
            self.write_comment_lines(CommentPlace::StartOf(unit.body), usize::MAX);
            let lists = HeaderLists { prefix: "kernel ", name, inputs: &unit.inputs, outputs: &unit.outputs };
            self.write_header(&lists);
            self.push("\n");
            self.write_body(unit.body);
        }
        self.push("\n");
        self.write_comment_lines(CommentPlace::Container, usize::MAX);
        let lists =
            HeaderLists { prefix: "", name: &file.programs[at], inputs: program.inputs(), outputs: program.outputs() };
        self.write_header(&lists);
        self.end_line(CommentPlace::Header);
        self.write_body(program.body());
    }

    /// Comments between programs: a paragraph of their own.
    fn write_outer_comments(&mut self, place: CommentPlace) {
        if self.has_comments(place) {
            self.push("\n");
            self.write_comment_lines(place, usize::MAX);
        }
    }

    /// A header line, without its end.
    fn write_header(&mut self, lists: &HeaderLists<'_>) {
        self.header_mesh = self.shared_mesh(lists);
        let start = self.out.len();
        let tensors = lists.inputs.iter().chain(lists.outputs).filter_map(|value| value.as_tensor());
        let firsts = tensors.map(|tensor| self.tables.names.first_of_number(tensor).0 as usize);
        let undeclared: Vec<usize> = firsts.filter(|&tensor| !self.declared[tensor]).collect();
        self.write_header_parts(lists, false);
        if self.out[start..].chars().count() > LINE_WIDTH {
            self.out.truncate(start);
            undeclared.into_iter().for_each(|tensor| self.declared[tensor] = false);
            self.write_header_parts(lists, true);
        }
    }

    fn write_header_parts(&mut self, lists: &HeaderLists<'_>, multiline: bool) {
        self.push(lists.prefix);
        self.push(lists.name);
        self.push("(");
        self.write_params(lists.inputs, multiline);
        self.push(") -> (");
        self.write_params(lists.outputs, multiline);
        self.push(")");
        if self.header_mesh.is_some() {
            self.push(" on ");
            self.write_mesh_name(self.header_mesh);
        }
        self.push(":");
    }

    fn write_params(&mut self, values: &[Value], multiline: bool) {
        for (at, value) in values.iter().enumerate() {
            if multiline {
                self.push(if at > 0 { ",\n  " } else { "\n  " });
            } else if at > 0 {
                self.push(", ");
            }
            match value {
                Value::Tensor(tensor) => {
                    self.write_tensor_name(*tensor);
                    if self.take_undeclared(*tensor) {
                        self.push(": ");
                        self.write_type(*tensor);
                    }
                }
                Value::Scalar(scalar) => self.write_scalar_param(*scalar),
                other => self.write_operand(*other, 0),
            }
        }
        if multiline && !values.is_empty() {
            self.push("\n");
        }
    }

    /// The mesh that all tensors of a header have.
    fn shared_mesh(&self, lists: &HeaderLists<'_>) -> Option<MeshId> {
        let values = lists.inputs.iter().chain(lists.outputs);
        let mut tensors = values.filter_map(|value| value.as_tensor());
        let mesh = self.program.tensor(tensors.next()?).mesh?;
        tensors.all(|tensor| self.program.tensor(tensor).mesh == Some(mesh)).then_some(mesh)
    }

    /// The statements of a program or a kernel.
    fn write_body(&mut self, body: BlockId) {
        let program = self.program;
        self.streams.is_caller_bound = false;
        self.indent = 2;
        let start = self.out.len();
        self.write_whole_block(&program.block(body).ops);
        if body == program.body() {
            self.write_aliases();
            self.write_index_definitions();
        }
        self.write_end_comments(CommentPlace::EndOf(body), start);
        self.indent = 0;
    }

    fn write_aliases(&mut self) {
        let program = self.program;
        for &(new, original) in program.aliases().unwrap_or_default() {
            self.declare_tensor(new);
            self.declare_tensor(original);
            self.begin_line();
            self.push("alias ");
            self.write_tensor_name(new);
            self.push(" -> ");
            self.write_tensor_name(original);
            self.push("\n");
        }
    }

    fn write_index_definitions(&mut self) {
        let program = self.program;
        let Some(block) = program.index_definitions().filter(|block| !program.block(*block).ops.is_empty()) else {
            return;
        };
        self.begin_line();
        self.push("define:\n");
        let start = self.out.len();
        self.indent += 2;
        self.write_ops(&program.block(block).ops);
        self.write_end_comments(CommentPlace::EndOf(block), start);
        self.indent -= 2;
    }
}
