//! Hovers: the facts about a name, or about an op.

use super::navigation::{NameAtPosition, name_at};
use super::streams::StreamWork;
use super::types::{mesh_text, type_text};
use super::words::{describe_word, is_in_comment, word_at};
use crate::documents::Document;
use crate::session::RequestContext;
use crate::snapshot::TextSection;
use hostir::analysis::{TensorAccess, TensorUses};
use hostir::diag::{Diags, Span};
use hostir::ir::{OpId, Program, TensorId, Value, statement_label};
use hostir::lower::{infer_sizes, sized_axes};
use hostir::plan::{AxesTable, ExtentEnv};
use hostir::symbols::SymbolKind;
use lsp_types::{Hover, HoverContents, HoverParams, MarkupContent, MarkupKind};

/// The maximum number of statements that are listed under one title.
const MOST_LISTED: usize = 8;

/// The facts about the name or the op at a position.
///
/// # Errors
/// None.
pub fn show_hover(context: &RequestContext<'_>, params: HoverParams) -> Result<Option<Hover>, String> {
    let position = params.text_document_position_params.position;
    let document = context.document();
    let (text, span) = match name_at(context, position) {
        Some(found) => (describe_name(context, &found), found.section.span_in_document(found.place)),
        None => {
            let offset = document.positions.offset_of(&document.text, position);
            let word = word_at(&document.text, offset).filter(|_| !is_in_comment(&document.text, offset));
            let Some(span) = word else { return Ok(None) };
            let described = describe_word(&document.text[span.as_usize_range()], context.snapshot.values.ops);
            let Some(text) = described else { return Ok(None) };
            (text, span)
        }
    };
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value: text });
    Ok(Some(Hover { contents, range: Some(document.positions.range_of(span)) }))
}

/// Describes the names of one program.
struct NameDescriber<'a> {
    document: &'a Document,
    section: &'a TextSection,
    program: &'a Program,
    env: Option<ExtentEnv>,
}

fn describe_name(context: &RequestContext<'_>, found: &NameAtPosition<'_>) -> String {
    let NameAtPosition { section, symbol, .. } = found;
    let number = symbol.program.or_else(|| program_at(section, found.place));
    let Some(program) = number.and_then(|number| section.programs.get(number)) else {
        return code_block(line_of(section, symbol.declaration));
    };
    let env = infer_sizes(program, &context.snapshot.values.size_settings(program), &mut Diags::default());
    let describer = NameDescriber { document: context.document(), section, program, env };
    match symbol.kind {
        SymbolKind::Tensor => describer.describe_tensor(&symbol.name, &symbol.tensors),
        SymbolKind::Handle => describer.describe_handle(&symbol.name, symbol.handle),
        SymbolKind::Stream => describer.describe_stream(&symbol.name),
        SymbolKind::Size => describer.describe_size(&symbol.name),
        SymbolKind::Mesh => describer.describe_mesh(&symbol.name, symbol.declaration),
        SymbolKind::Scalar | SymbolKind::Index | SymbolKind::Kernel | SymbolKind::Program | SymbolKind::Unknown => {
            code_block(line_of(section, symbol.declaration))
        }
    }
}

/// The number of the program that a place is in; the first one for the lines in front of all.
fn program_at(section: &TextSection, place: Span) -> Option<usize> {
    let before = section.programs.iter().take_while(|program| program.source().header.start <= place.start);
    (!section.programs.is_empty()).then(|| before.count().saturating_sub(1))
}

/// The line that a place is in, without blanks around it.
pub(super) fn line_of(section: &TextSection, place: Span) -> &str {
    let text = &section.text;
    let start = text[..place.start as usize].rfind('\n').map_or(0, |at| at + 1);
    let end = text[place.start as usize..].find('\n').map_or(text.len(), |at| place.start as usize + at);
    text[start..end].trim()
}

fn code_block(line: &str) -> String {
    format!("```hir\n{line}\n```\n")
}

/// `4 x 8`
fn extents_text(extents: &[usize]) -> String {
    match extents.is_empty() {
        true => "scalar".to_owned(),
        false => extents.iter().map(usize::to_string).collect::<Vec<_>>().join(" x "),
    }
}

impl NameDescriber<'_> {
    fn describe_tensor(&self, name: &str, tensors: &[TensorId]) -> String {
        let Some(&tensor) = tensors.first() else { return code_block(name) };
        let mut text = code_block(&format!("{name}: {}", type_text(self.program, tensor)));
        if let Some(shape) = self.shape_text(tensor) {
            text.push_str(&format!("\n{shape}\n"));
        }
        if let Some(mesh) = self.program.tensor(tensor).mesh {
            text.push_str(&format!("\nmesh {}\n", mesh_text(self.program, mesh)));
        }
        let uses = TensorUses::from_program(self.program);
        let mut owners: Vec<TensorId> = tensors.iter().map(|tensor| uses.owner_of(self.program, *tensor)).collect();
        owners.dedup();
        let of_owner = owners.iter().flat_map(|owner| uses.of_tensor(*owner));
        let (mut writers, mut readers) = (Vec::new(), Vec::new());
        for one in of_owner {
            if matches!(one.access, TensorAccess::Write | TensorAccess::Both) {
                writers.push(one.op);
            }
            if matches!(one.access, TensorAccess::Read | TensorAccess::Both) && !self.is_result(one.op, &uses, &owners)
            {
                readers.push(one.op);
            }
        }
        text.push_str(&self.list_ops("written by", &writers));
        text.push_str(&self.list_ops("read by", &readers));
        text
    }

    /// Returns true if an op has the tensor among its results alone: a communication writes it when it ends.
    fn is_result(&self, op: OpId, uses: &TensorUses, owners: &[TensorId]) -> bool {
        let op = self.program.op(op);
        let mut read = op.input_tensors().map(|tensor| uses.owner_of(self.program, tensor));
        !read.any(|owner| owners.contains(&owner))
    }

    /// `shape 4 x 8, on each rank 1 x 8`.
    fn shape_text(&self, tensor: TensorId) -> Option<String> {
        let axes = sized_axes(self.program, self.env.as_ref()?, &AxesTable::new(self.program), tensor)?;
        let whole: Vec<usize> = axes.iter().map(|axis| axis.extent).collect();
        let local: Vec<usize> = axes.iter().map(hostir::lower::IoTensorAxis::local_extent).collect();
        match whole == local {
            true => Some(format!("shape {}", extents_text(&whole))),
            false => Some(format!("shape {}, on each rank {}", extents_text(&whole), extents_text(&local))),
        }
    }

    /// The statements of ops, each once, with their lines.
    fn list_ops(&self, title: &str, ops: &[OpId]) -> String {
        let mut lines: Vec<(u32, String)> = ops.iter().map(|op| self.line_of_op(*op)).collect();
        lines.sort();
        lines.dedup();
        if lines.is_empty() {
            return String::new();
        }
        let mut text = format!("\n{title}\n");
        for (line, label) in lines.iter().take(MOST_LISTED) {
            text.push_str(&format!("- line {}: `{label}`\n", line + 1));
        }
        if lines.len() > MOST_LISTED {
            text.push_str(&format!("- and {} more\n", lines.len() - MOST_LISTED));
        }
        text
    }

    fn line_of_op(&self, op: OpId) -> (u32, String) {
        let span = self.section.span_in_document(self.program.op_span(op));
        (self.document.positions.position_of(span.start).line, statement_label(self.program, op))
    }

    fn describe_handle(&self, name: &str, number: Option<u32>) -> String {
        let (mut started, mut waited) = (Vec::new(), Vec::new());
        self.program.walk_with_units(&mut |id| {
            let op = self.program.op(id);
            let is_waited = op.operands.iter().any(|value| matches!(value, Value::Handle(it) if Some(*it) == number));
            if op.kind.is_wait() && is_waited {
                waited.push(id);
            } else if op.number() == number && number.is_some() {
                started.push(id);
            }
        });
        let title = match name.starts_with(|first: char| first.is_ascii_digit()) {
            true => format!("Communication {name}"),
            false => name.to_owned(),
        };
        let mut text = code_block(&title);
        text.push_str(&self.list_ops("started by", &started));
        text.push_str(&self.list_ops("waited for by", &waited));
        let results: Vec<TensorId> = started.iter().flat_map(|op| self.program.op(*op).output_tensors()).collect();
        if let Some(&first) = results.first().filter(|_| !waited.is_empty()) {
            let name = self.program.tensor_name(first);
            text.push_str(&format!("\nwhat comes after the wait on its stream may read `{name}`\n"));
        }
        if waited.is_empty() && !started.is_empty() {
            text.push_str("\nnothing waits for it\n");
        }
        text
    }

    fn describe_stream(&self, name: &str) -> String {
        let mut text = code_block(&format!("stream {name}"));
        let work = StreamWork::from_program(self.program);
        if let Some(stream) = work.find_stream(self.program, name) {
            text.push_str(&self.list_ops("runs in this order", work.statements_on(stream)));
            let syncs = work.syncs.iter().filter(|sync| sync.stream == stream).map(|sync| sync.op);
            text.push_str(&self.list_ops("waited for by", &syncs.collect::<Vec<_>>()));
        }
        text
    }

    fn describe_size(&self, name: &str) -> String {
        let value =
            self.program.names().find_symbol(name).and_then(|symbol| self.env.as_ref()?.name_value(None, symbol));
        match value {
            Some(value) => code_block(&format!("{name} = {value}")),
            None => format!("{}\na size, which the caller gives\n", code_block(name)),
        }
    }

    fn describe_mesh(&self, name: &str, declaration: Span) -> String {
        let mut text = code_block(line_of(self.section, declaration));
        let named = self.program.meshes().iter().find(|(id, _)| self.program.mesh_name(Some(*id)) == name);
        if let Some((id, _)) = named {
            text.push_str(&format!("\n{}\n", mesh_text(self.program, id)));
        }
        text
    }
}
