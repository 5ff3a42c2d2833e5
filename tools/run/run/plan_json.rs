//! `--print-plan=json`: the plans as data, with the fields that `docs/language.md` lists.
//!
//! Fields are only added. Those that say nothing about an instruction are left out.

use hostir::ir::word_of_dtype;
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferKind, BufferView, CollectiveInst, Inst, InstRole, Plan, PlanText, StreamSlot};
use serde::Serialize;

/// The version of the fields.
const VERSION: u32 = 1;

/// The plans of all ranks as one JSON value; each buffer, communicator and instruction has a line.
///
/// # Errors
/// None that these types have.
pub(super) fn plans_json(prepared: &PreparedProgram) -> serde_json::Result<String> {
    let mut out = format!("{{\"version\":{VERSION},\"ranks\":[\n");
    for rank in 0..prepared.plans.len() {
        let Some(plan) = prepared.plan_text(rank) else { continue };
        out += if rank == 0 { "" } else { ",\n" };
        write_rank(&plan, &mut out)?;
    }
    out += "\n]}\n";
    Ok(out)
}

fn write_rank(text: &PlanText<'_>, out: &mut String) -> serde_json::Result<()> {
    let plan = text.plan;
    *out += &format!("{{\"rank\":{},\"peak_bytes\":{},\"streams\":[", plan.rank, plan.peak_bytes);
    write_rows((0..plan.streams).map(|stream| plan.stream_tag(StreamSlot(stream))), out)?;
    *out += "],\"communicators\":[";
    let communicators = plan.communicators.iter().map(|(id, of)| CommunicatorRow {
        communicator: id.0,
        team: &of.team,
        backend: of.backend.to_string(),
        name: of.name.as_deref(),
    });
    write_rows(communicators, out)?;
    *out += "],\"buffers\":[";
    let buffers = plan.buffers.iter().map(|(id, buffer)| BufferRow {
        buffer: id.0,
        tensor: text.labels.tensor_name(buffer.tensor),
        dtype: word_of_dtype(buffer.dtype),
        elements: buffer.elements,
        kind: buffer_kind(buffer.kind),
    });
    write_rows(buffers, out)?;
    *out += "],\"instructions\":[";
    let instructions = plan.iter().enumerate().map(|(number, inst)| instruction_row(text, number, &inst));
    write_rows(instructions, out)?;
    *out += "]}";
    Ok(())
}

/// Writes each row on a line of its own.
fn write_rows(rows: impl Iterator<Item = impl Serialize>, out: &mut String) -> serde_json::Result<()> {
    for (at, row) in rows.enumerate() {
        *out += if at == 0 { "\n" } else { ",\n" };
        *out += &serde_json::to_string(&row)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct CommunicatorRow<'a> {
    communicator: u32,
    team: &'a [u32],
    backend: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct BufferRow<'a> {
    buffer: u32,
    tensor: &'a str,
    dtype: &'static str,
    elements: usize,
    kind: &'static str,
}

#[derive(Serialize)]
struct ViewRow {
    buffer: u32,
    offset: usize,
    extents: Vec<usize>,
    strides: Vec<usize>,
    dtype: &'static str,
}

#[derive(Serialize)]
struct InstructionRow<'a> {
    instruction: usize,
    kind: String,
    role: &'static str,
    stream: u32,
    statement: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    iteration: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reads: Vec<ViewRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    writes: Vec<ViewRow>,
    #[serde(flatten)]
    order: OrderFields,
    /// The line of `--print-plan`.
    text: String,
}

/// The partners of a communication, and what orders it.
#[derive(Serialize)]
struct OrderFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    communicator: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited_handle: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited_event: Option<u32>,
}

fn instruction_row<'a>(text: &PlanText<'a>, number: usize, inst: &Inst) -> InstructionRow<'a> {
    let labels = text.labels;
    let line = text.instruction_text(inst);
    InstructionRow {
        instruction: number,
        kind: line.split_whitespace().next().unwrap_or_default().to_owned(),
        role: role_word(inst.kind.role()),
        stream: inst.stream.0,
        statement: labels.op_label(inst.origin.op),
        iteration: labels.iteration_text(text.plan.iteration_of(inst.origin)),
        reads: inst.kind.read_views().into_iter().map(view_row).collect(),
        writes: inst.kind.written_views().into_iter().map(view_row).collect(),
        order: order_fields(text.plan, inst),
        text: line,
    }
}

fn order_fields(plan: &Plan, inst: &Inst) -> OrderFields {
    let kind = &inst.kind;
    OrderFields {
        peer: kind.message().map(|message| message.peer),
        root: kind.collective().and_then(|collective| root_rank(plan, collective)),
        communicator: kind.communicator().map(|id| id.0),
        handle: kind.issued_work().map(|work| work.0),
        awaited_handle: kind.awaited_work().map(|work| work.0),
        event: kind.recorded_event().map(|event| event.0),
        awaited_event: kind.awaited_event().map(|event| event.0),
    }
}

/// The absolute rank of a collective's root.
fn root_rank(plan: &Plan, collective: &CollectiveInst) -> Option<u32> {
    plan.communicators[collective.comm].team.get(collective.root?).copied()
}

fn view_row(view: &BufferView) -> ViewRow {
    ViewRow {
        buffer: view.buffer.0,
        offset: view.offset,
        extents: view.shape(),
        strides: view.dims.iter().map(|dim| dim.stride).collect(),
        dtype: word_of_dtype(view.dtype),
    }
}

fn buffer_kind(kind: BufferKind) -> &'static str {
    match kind {
        BufferKind::Input(_) => "input",
        BufferKind::Allocated => "allocated",
        BufferKind::Temp => "scratch",
    }
}

fn role_word(role: InstRole) -> &'static str {
    match role {
        InstRole::Memory => "memory",
        InstRole::Compute => "compute",
        InstRole::Communication => "communication",
        InstRole::Order => "order",
    }
}
