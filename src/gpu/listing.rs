//! The calls of all ranks as text, made without a device: the command list, the buffers' offsets, the messages
//! and the source of every kernel.
//!
//! The text is for developers: two versions of the backend issue the same calls if their listings are equal
//! (`tools/same-output` compares them). It therefore has its own words for everything and does not use `Debug`, so
//! renaming a type or field does not change it.

mod operand_text;

use crate::gemm_lowering::fp8::Fp8Support;
use crate::gemm_shape::GemmNumerics;
use crate::listing::operand_text::{copy_order_name, gemm_shape, nccl_call_text, range_text, view_text};
use crate::operand::SymbolicAddress;
use crate::p2p;
use crate::p2p::{MessagePlan, MessageTarget, P2pMessage};
use crate::rank_memory;
use crate::schedule::user_launches::UserLaunch;
use crate::schedule::{
    P2pBatch, P2pCopy, RankSchedule, ScheduleSettings, ScheduleStep, SemaphoreOp, StoreGemms, StreamCommand,
    most_waiting_blocks,
};
use crate::team;
use crate::transport::BackendTransports;
use crate::{issue_order, schedule};
use hostir::diag::Diag;
use hostir::lower::PreparedProgram;
use hostir::plan::{LaunchArgument, Plan, StreamSlot, UserKernel};
use hostir::plan_checks::check_plans;
use std::fmt::Write as _;

/// The SMs of the device that calls are listed for.
const LISTED_SMS: u32 = 132;

/// Options of a listing.
#[derive(Clone, Copy, Default, Debug)]
pub struct ListingOptions {
    /// The losses of precision that GEMMs are permitted.
    pub numerics: GemmNumerics,
    /// The transport of each communication backend.
    pub routes: BackendTransports,
    /// True if the commands are captured as a CUDA graph.
    pub graph: bool,
    /// True if kernels of ours are tried for GEMMs.
    pub gemm_kernels: bool,
    /// True if several ranks share a device, so that their calls have one issue order.
    pub shared: bool,
}

/// Lists the calls that the backend would make for a program, on devices with 132 SMs and 8-bit GEMMs.
///
/// # Errors
/// Fails with the diagnostics of the program's deadlock, if it has one.
pub fn list_calls(prepared: &PreparedProgram, options: ListingOptions) -> Result<String, Vec<Diag>> {
    let shared = options.shared;
    check_plans(prepared)?;
    let teams = team::collect_teams(prepared);
    let messages = p2p::plan_messages(prepared, options.routes, options.gemm_kernels);
    let settings = ScheduleSettings {
        numerics: options.numerics,
        fp8: Fp8Support::Vectors,
        sms: LISTED_SMS,
        room: most_waiting_blocks(LISTED_SMS),
        routes: options.routes,
        one_rank_per_device: !shared,
        push: options.graph,
        joins_stores: options.gemm_kernels,
        notes: false,
    };
    let mut text = String::new();
    for (number, team) in teams.iter().enumerate() {
        let name = team.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
        let _ = writeln!(text, "communicator {number}{name}: {} ranks {:?}", team.backend, team.ranks);
    }
    for (number, message) in messages.list.iter().enumerate() {
        let _ = writeln!(text, "message {number}: {}", message_line(message));
    }
    let mut schedules = Vec::new();
    for plan in &prepared.plans {
        match schedule::build_schedule(plan, &teams, &messages, settings) {
            Ok(mut schedule) => {
                let shared = schedule::wait_events::SHARED;
                schedule.add_wait_events(if options.graph { 1 } else { shared });
                schedules.push(schedule);
            }
            Err(refusal) => {
                let (rank, inst, what) = (plan.rank, refusal.inst, refusal.what);
                let _ = writeln!(text, "rank {rank}: instruction {} is refused: cannot run {what}", inst.0);
                return Ok(text);
            }
        }
    }
    if shared && !messages.list.is_empty() {
        let _ = match issue_order::impose_global_order(&mut schedules) {
            Some(order) => writeln!(text, "order of issue, by rank: {order:?}"),
            None => writeln!(text, "order of issue: none"),
        };
    }
    for (plan, schedule) in prepared.plans.iter().zip(&mut schedules) {
        rank_lines(&mut text, plan, schedule, &messages);
    }
    Ok(text)
}

fn rank_lines(text: &mut String, plan: &Plan, schedule: &mut RankSchedule, messages: &MessagePlan) {
    let flags = messages.flag_bytes(plan.rank);
    let external = crate::external_buffers::externally_bound(plan, messages);
    let bound = rank_memory::layout_memory(plan, &mut schedule.clone(), flags, &external);
    let layout = rank_memory::layout_memory(plan, schedule, flags, &[]);
    let _ = writeln!(
        text,
        "rank {}: {}, {} events, {flags} bytes of flags, {} bytes of memory, {} with bound tensors",
        plan.rank,
        stream_counts(plan, schedule),
        schedule.events,
        layout.bytes,
        bound.bytes
    );
    let _ = writeln!(text, "  member of: {:?}", schedule.members);
    for (buffer, offsets) in layout.offsets.iter().zip(&bound.offsets).enumerate() {
        let [own, bound] = [offsets.0, offsets.1].map(|offset| offset.map_or("-".to_owned(), |at| at.to_string()));
        let _ = writeln!(text, "  buffer {buffer}: offset {own}, with bound tensors {bound}");
    }
    for (stream, bytes) in schedule.scratch.iter().enumerate() {
        let (own, bound) = (layout.scratch[stream], bound.scratch[stream]);
        let stream = stream_tag(plan, schedule, stream);
        let _ = writeln!(text, "  scratch of {stream}: {bytes} bytes, offset {own}, with bound tensors {bound}");
    }
    for (number, shape) in schedule.shapes.iter().enumerate() {
        let _ = writeln!(text, "  gemm {number}: {}", gemm_shape(shape));
    }
    for (number, step) in schedule.steps.iter().enumerate() {
        let ScheduleStep { call, stream, inst } = step;
        let stream = stream_tag(plan, schedule, *stream);
        let _ = writeln!(text, "{number:>6}  {stream} i{} {}", inst.0, call_line(call));
    }
    for (number, one) in schedule.user_kernels.iter().enumerate() {
        let UserKernel { file, entry } = &one.kernel;
        let _ = writeln!(text, "  user kernel {number}: {entry} of {file}, parameters of {:?} bytes", one.parameters);
    }
    for (number, source) in schedule.texts.iter().enumerate() {
        let _ = writeln!(text, "  kernel {number}:\n{source}");
    }
}

/// `4 streams and the caller's, 1 of communicators and 1 for copies`.
fn stream_counts(plan: &Plan, schedule: &RankSchedule) -> String {
    let communicators = schedule.members.len();
    let copies = schedule.streams - plan.streams as usize - communicators;
    let mut text = plan.stream_count_text();
    for (count, of) in [(communicators, "of communicators"), (copies, "for copies")] {
        if count > 0 {
            let _ = write!(text, ", {count} {of}");
        }
    }
    text
}

/// A stream of the schedule: `caller`, `s2` by its name in the program, `c0` of a communicator, `x0` for copies.
fn stream_tag(plan: &Plan, schedule: &RankSchedule, stream: usize) -> String {
    let (own, communicators) = (plan.streams as usize, schedule.members.len());
    match stream {
        _ if stream < own => plan.stream_tag(StreamSlot(stream as u32)),
        _ if stream < own + communicators => format!("c{}", stream - own),
        _ => format!("x{}", stream - own - communicators),
    }
}

fn call_line(call: &StreamCommand) -> String {
    match call {
        StreamCommand::Launch { text, grid, block, places } => {
            let operands: Vec<String> = places.iter().map(operand_text).collect();
            format!("launch kernel {text} grid {grid:?} block {block:?} ({})", operands.join(", "))
        }
        StreamCommand::Copy { views, bytes } => {
            format!("copy {bytes} bytes {} <- {}", view_text(&views[1]), view_text(&views[0]))
        }
        StreamCommand::Gemm { shape, operands } => {
            let (matrices, scales) = operands.split_at(4);
            let matrices = matrices.iter().map(|place| match place {
                Some(place) => operand_text(place),
                None => "-".to_owned(),
            });
            let scales = scales.iter().flatten().map(|place| format!("scale {}", operand_text(place)));
            let operands: Vec<String> = matrices.chain(scales).collect();
            format!("gemm {shape} ({})", operands.join(", "))
        }
        StreamCommand::StoreGemms(gemms) => {
            let StoreGemms { shape, right, parts } = &**gemms;
            let parts: Vec<String> = parts
                .iter()
                .map(|[left, result]| format!("{} to {}", operand_text(left), operand_text(result)))
                .collect();
            format!("gemms {shape} of {}, in one launch: {}", operand_text(right), parts.join("; "))
        }
        StreamCommand::Record { event } => format!("record event {event}"),
        StreamCommand::Wait { event } => format!("wait for event {event}"),
        StreamCommand::Communicate { entry, calls } => {
            let calls: Vec<String> = calls.iter().map(nccl_call_text).collect();
            format!("nccl on communicator {entry}: {}", calls.join("; "))
        }
        StreamCommand::Signal { signals } => {
            let signals: Vec<String> = signals.iter().map(semaphore_op_text).collect();
            format!("stream memory operations: {}", signals.join("; "))
        }
        StreamCommand::Transfer { message } => format!("transfer message {message}"),
        StreamCommand::P2pBatch(batch) => batch_line(batch),
        StreamCommand::UserLaunch(launch) => {
            let UserLaunch { kernel, grid, block, shared, arguments } = &**launch;
            let arguments: Vec<String> = arguments.iter().map(argument_text).collect();
            let arguments = arguments.join(", ");
            format!("launch user kernel {kernel} grid {grid:?} block {block:?} shared {shared} ({arguments})")
        }
    }
}

fn argument_text(argument: &LaunchArgument) -> String {
    match argument {
        LaunchArgument::Address(view) => view_text(view),
        LaunchArgument::Scalar { .. } => {
            let bytes = argument.scalar_bytes().unwrap_or_default();
            let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
            format!("0x{digits}")
        }
    }
}

fn operand_text(place: &SymbolicAddress) -> String {
    match place {
        SymbolicAddress::View(operand) => view_text(operand),
        SymbolicAddress::Scratch(offset) => format!("scratch+{offset}"),
        SymbolicAddress::Peer { rank, view } => format!("rank {rank} {}", view_text(view)),
    }
}

fn semaphore_op_text(signal: &SemaphoreOp) -> String {
    match signal {
        SemaphoreOp::Signal { rank, flag } => format!("signal flag {flag} of rank {rank}"),
        SemaphoreOp::Wait { flag } => format!("wait for flag {flag}"),
        SemaphoreOp::Reset { flag } => format!("reset flag {flag}"),
    }
}

fn batch_line(batch: &P2pBatch) -> String {
    let copies = batch.copies.iter().map(|one| match one {
        P2pCopy::Message(number) => format!("message {number}"),
        P2pCopy::Local(parts) => format!("{} <- {}", range_text(&parts[1]), range_text(&parts[0])),
    });
    let copies: Vec<String> = copies.collect();
    format!(
        "exchange kernel {} of {} blocks, {}: signals {:?}, copies [{}], waits {:?}",
        batch.text,
        batch.blocks,
        copy_order_name(batch.pace),
        batch.signals,
        copies.join("; "),
        batch.waits
    )
}

fn message_line(message: &P2pMessage) -> String {
    let target = match &message.target {
        MessageTarget::Part(target) => range_text(target),
        MessageTarget::Staging(offset) => format!("staging+{offset}"),
    };
    let P2pMessage { from, to, put, ready, done, counter, .. } = message;
    let by = if *put { "put" } else { "get" };
    format!("rank {from} to {to} by {by}, {target} <- {}, flags {ready} {done} {counter}", range_text(&message.source))
}
