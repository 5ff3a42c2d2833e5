//! Plans as text (`--print-plan`): one aligned line for each instruction.

use super::launch_inst::{LaunchArgument, LaunchInst, UserKernel};
use super::{
    AccumulateInst, BufferView, DebugInfo, Inst, InstKind, Plan, RedOp, ReduceInst, RowsInst, StreamSlot, TakeInst,
    WorkSlot,
};
use crate::ir::MessageProtocol;
use std::fmt::{self, Display, Formatter, Write as _};

/// A plan with the names for printing it.
pub struct PlanText<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Names.
    pub labels: &'a DebugInfo,
}

impl Display for PlanText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plan = self.plan;
        writeln!(
            f,
            "rank {}: {} instructions, {}, {} buffers, {} bytes at most",
            plan.rank,
            plan.insts.len(),
            plan.stream_count_text(),
            plan.buffers.len(),
            plan.peak_bytes
        )?;
        for (id, communicator) in plan.communicators.iter() {
            let name = communicator.name_suffix();
            writeln!(f, "  comm {}: {:?} {}{name}", id.0, communicator.team, communicator.backend)?;
        }
        let rows: Vec<(String, String, String)> = plan
            .iter()
            .map(|inst| {
                let iteration = self.labels.iteration_text(plan.iteration_of(inst.origin));
                (self.instruction_text(&inst), self.labels.op_label(inst.origin.op).to_owned(), iteration)
            })
            .collect();
        let width = rows.iter().map(|(text, ..)| text.len()).max().unwrap_or(0).min(90);
        let marks = (0..plan.streams).map(|stream| plan.stream_tag(StreamSlot(stream)).len()).max().unwrap_or(0);
        for (index, (inst, (text, op, iteration))) in plan.iter().zip(rows).enumerate() {
            let place = if iteration.is_empty() { op } else { format!("{op} [{iteration}]") };
            let stream = plan.stream_tag(inst.stream);
            writeln!(f, "{index:>6}  {stream:<marks$} {text:<width$}  ; {place}")?;
        }
        Ok(())
    }
}

impl PlanText<'_> {
    /// `T3+40[8x4:32,1]`: tensor of the buffer, offset, extents and, unless contiguous, strides.
    fn view_text(&self, view: &BufferView) -> String {
        let tensor = self.plan.buffers[view.buffer].tensor;
        let mut text = format!("{}#{}", self.labels.tensor_name(tensor), view.buffer.0);
        if view.offset != 0 {
            let _ = write!(text, "+{}", view.offset);
        }
        let extents: Vec<String> = view.dims.iter().map(|dim| dim.extent.to_string()).collect();
        let _ = write!(text, "[{}", extents.join("x"));
        if !view.is_contiguous() {
            let strides: Vec<String> = view.dims.iter().map(|dim| dim.stride.to_string()).collect();
            let _ = write!(text, ":{}", strides.join(","));
        }
        text.push(']');
        text
    }

    fn take_text(&self, take: &TakeInst) -> String {
        let (input, index) = (self.view_text(&take.input), self.view_text(&take.index));
        format!("take    {} <- {input} at {index} along {}", self.view_text(&take.output), take.axis)
    }

    fn accumulate_text(&self, put: &AccumulateInst) -> String {
        let (base, index) = (self.view_text(&put.base), self.view_text(&put.index));
        let verb = put.combine.map_or("put", RedOp::word);
        let (output, value) = (self.view_text(&put.output), self.view_text(&put.value));
        format!("scatter {output} <- {base} {verb} {value} at {index} along {}", put.axis)
    }

    fn rows_text(&self, rows: &RowsInst) -> String {
        let inputs = self.view_list(&rows.inputs);
        let result = if rows.result == 0 { String::new() } else { format!(" result {}", rows.result) };
        let (to, name) = (self.view_text(&rows.output), rows.function.name);
        format!("rows    {to} <- {name}({inputs}){result} batch {}", rows.batch_axes)
    }

    /// The texts of views with commas between them.
    fn view_list(&self, views: &[BufferView]) -> String {
        views.iter().map(|view| self.view_text(view)).collect::<Vec<_>>().join(", ")
    }

    fn launch_text(&self, launch: &LaunchInst) -> String {
        let arguments = launch.arguments.iter().map(|argument| match argument {
            LaunchArgument::Address(view) => self.view_text(view),
            LaunchArgument::Scalar { dtype, value } => format!("{}({value})", dtype.name()),
        });
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let UserKernel { file, entry } = &launch.kernel;
        let (to, from) = (self.view_list(&launch.writes), self.view_list(&launch.reads));
        let shape = format!("grid {:?} block {:?} shared {}", launch.grid, launch.block, launch.shared);
        format!("launch  {to} <- {entry}({arguments}) of {file:?} reading {from}; {shape}")
    }

    /// `copy    T1#1[4] <- T0#0[4]`: an instruction without its stream and statement.
    pub fn instruction_text(&self, inst: &Inst) -> String {
        match &inst.kind {
            InstKind::Alloc { buffer } => {
                let entry = &self.plan.buffers[*buffer];
                let name = self.labels.tensor_name(entry.tensor);
                format!("alloc   {name}#{} {} {}", buffer.0, entry.elements, entry.dtype.name())
            }
            InstKind::Free { buffer } => {
                let name = self.labels.tensor_name(self.plan.buffers[*buffer].tensor);
                format!("free    {name}#{}", buffer.0)
            }
            InstKind::Copy { src, dst } => {
                format!("copy    {} <- {}", self.view_text(dst), self.view_text(src))
            }
            InstKind::Fill { dst, value } => format!("fill    {} <- {value}", self.view_text(dst)),
            InstKind::Gemm(gemm) => {
                let bias = gemm.bias.as_ref().map_or(String::new(), |b| format!(" + {}", self.view_text(b)));
                let (a, b) = (self.view_text(&gemm.a), self.view_text(&gemm.b));
                let scales = gemm.scale_views().iter().map(|scale| format!(" * {}", self.view_text(scale)));
                format!("gemm    {} <- {a} * {b}{}{bias}", self.view_text(&gemm.out), scales.collect::<String>())
            }
            InstKind::Kernel(kernel) => {
                let inputs: Vec<String> = kernel.inputs.iter().map(|view| self.view_text(view)).collect();
                let steps: Vec<&str> = kernel.steps.iter().map(|step| step.function.name()).collect();
                format!("kernel  {} <- {}({})", self.view_text(&kernel.output), steps.join(";"), inputs.join(", "))
            }
            InstKind::Reduce(fold) => {
                let ReduceInst { op, axes, input, output } = &**fold;
                let (to, from) = (self.view_text(output), self.view_text(input));
                let start = op.initial.map_or(String::new(), |value| format!(" from {value}"));
                let axes = axes.as_slice();
                format!("reduce  {to} <- {} {from} over {axes:?}{start}", op.op.word())
            }
            InstKind::Take(take) => self.take_text(take),
            InstKind::Accumulate(put) => self.accumulate_text(put),
            InstKind::Rows(rows) => self.rows_text(rows),
            InstKind::Attention(attention) => {
                let [query, key, value] = attention.factors().map(|view| self.view_text(view));
                let [result, logsumexp] = attention.results().map(|view| self.view_text(view));
                let mask = if attention.is_causal { ", causal" } else { "" };
                format!("attend  {result}, {logsumexp} <- {query}, {key}, {value} scaled by {}{mask}", attention.scale)
            }
            InstKind::Launch(launch) => self.launch_text(launch),
            InstKind::Collective(c) => {
                let [to, from] = [&c.output, &c.input]
                    .map(|view| view.as_ref().map_or_else(|| "-".to_owned(), |view| self.view_text(view)));
                let root = c.root.map_or(String::new(), |root| format!(" root {root}"));
                let op = if c.kind.is_reducing() { format!(" {}", c.red_op.word()) } else { String::new() };
                format!(
                    "{} {to} <- {from}{op}{root}, comm {}, {}",
                    c.kind.name().to_lowercase(),
                    c.comm.0,
                    work_text(c.work)
                )
            }
            InstKind::Message { header, view } => {
                let preposition = if header.direction.is_send() { "to" } else { "from" };
                let how = if header.protocol == MessageProtocol::Put { ", put" } else { "" };
                format!(
                    "{}    {} {preposition} {}, {}{how}, {}",
                    header.direction.word(),
                    self.view_text(view),
                    header.peer,
                    comm_text(header.comm),
                    work_text(header.work)
                )
            }
            InstKind::GroupBegin => "group   {".to_owned(),
            InstKind::GroupEnd { comm, work: w } => {
                format!("group   }} comm {}, {}", comm.0, work_text(*w))
            }
            InstKind::WaitWork { work: w } => format!("wait    {}", work_text(*w)),
            InstKind::Record { event } => format!("record  e{}", event.0),
            InstKind::WaitEvent { event } => format!("wait    e{}", event.0),
        }
    }
}

fn comm_text(comm: Option<super::CommSlot>) -> String {
    comm.map_or_else(|| "on stream".to_owned(), |comm| format!("comm {}", comm.0))
}

fn work_text(work: WorkSlot) -> String {
    format!("w{}", work.0)
}
