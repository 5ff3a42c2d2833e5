//! Builds a rank's trace: times of commands become spans and flow events, and device times are converted to one clock.
//! This module makes no CUDA calls.

use hostir::backend::trace;
use hostir::backend::trace::{PartialTrace, SpanDependency, SpanKind, TraceSpan};
use hostir::plan::InstId;
use hostir::plan::cost::inst_flop;
use hostir::plan::{BufferView, InstKind, InstOrigin, Plan, PointwiseKernel};
use hostir_gpu::fused_inst::{FusedInst, StoredGemm};
use hostir_gpu::schedule::{RankSchedule, START, ScheduleStep, StreamCommand};
use std::collections::BTreeMap;

/// The measurement of a step: none, one event, or two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepProbe {
    /// Not at all: it only orders streams.
    None,
    /// Once: it takes no time of its own.
    Point,
    /// Before and after.
    Pair,
}

/// Chooses the measurement of each step.
pub(crate) fn step_probes(plan: &Plan, schedule: &RankSchedule) -> Vec<StepProbe> {
    // By event: the instruction that records it, and whether that is on a stream without a track.
    let mut marked = vec![None; schedule.events];
    let mut off_track = vec![false; schedule.events];
    let tracks = trace::plan_tracks(plan).len();
    let probe = |step: &ScheduleStep| {
        let Some(inst) = plan.find_inst(step.inst) else { return StepProbe::None };
        // Copies beside others of their communication have no track: the communication ends when its track's stream has
        // waited for them.
        if step.stream >= tracks {
            if let StreamCommand::Record { event } = step.call {
                off_track[event] = true;
            }
            return StepProbe::None;
        }
        let own = step.stream == inst.stream.0 as usize;
        match (&step.call, &inst.kind) {
            (StreamCommand::Record { event }, kind) => {
                marked[*event] = Some(step.inst);
                let named = own && matches!(kind, InstKind::Record { .. });
                if named { StepProbe::Point } else { StepProbe::None }
            }
            (StreamCommand::Wait { event }, InstKind::WaitWork { .. } | InstKind::WaitEvent { .. }) => {
                // The events that order the start and end of the run belong to no instruction.
                let named = own && *event != START && marked[*event] != Some(step.inst);
                if named { StepProbe::Pair } else { StepProbe::None }
            }
            (StreamCommand::Wait { event }, _) if !off_track[*event] => StepProbe::None,
            _ => StepProbe::Pair,
        }
    };
    schedule.steps.iter().map(probe).collect()
}

/// The spans of a rank, from the times of its steps in nanoseconds; `None` for steps without probe points.
pub(crate) fn trace_part(plan: &Plan, schedule: &RankSchedule, times: &[Option<(u64, u64)>]) -> PartialTrace {
    let mut builder = Builder {
        plan,
        items: schedule.items.iter().map(|item| (item.plan_position(), item)).collect(),
        part: PartialTrace { tracks: trace::plan_tracks(plan), ..PartialTrace::default() },
        last: vec![None; schedule.streams],
        free: vec![0; schedule.streams],
        sources: vec![None; schedule.events],
    };
    for (step, time) in schedule.steps.iter().zip(times) {
        builder.add_step(step, *time);
    }
    builder.part
}

struct Builder<'p> {
    plan: &'p Plan,
    items: BTreeMap<InstId, &'p FusedInst>,
    part: PartialTrace,
    /// The last span of each stream, and its instruction.
    last: Vec<Option<(usize, InstId)>>,
    /// The end of each stream's last span.
    free: Vec<u64>,
    /// For each event: the span that it ends.
    sources: Vec<Option<usize>>,
}

impl Builder<'_> {
    fn add_step(&mut self, step: &ScheduleStep, time: Option<(u64, u64)>) {
        let span = time.and_then(|(start, end)| self.add_span(step, start, end));
        match step.call {
            StreamCommand::Record { event } => self.sources[event] = span.or_else(|| self.issued_communication(step)),
            StreamCommand::Wait { event } => {
                if let (Some(from), Some(to)) = (self.sources[event], span) {
                    self.part.flow_events.push(SpanDependency { from, to });
                }
            }
            _ => {}
        }
    }

    /// The communication that ends at an event of its communicator's stream.
    fn issued_communication(&self, step: &ScheduleStep) -> Option<usize> {
        let (span, inst) = self.last[step.stream]?;
        let kind = self.part.spans[span].kind;
        (inst == step.inst && kind == SpanKind::Communication).then_some(span)
    }

    fn add_span(&mut self, step: &ScheduleStep, start: u64, end: u64) -> Option<usize> {
        let (origin, kind) = {
            let inst = self.plan.find_inst(step.inst)?;
            (inst.origin, SpanKind::from_inst(&inst.kind)?)
        };
        let first = self.last[step.stream].is_none_or(|(_, inst)| inst != step.inst);
        let SpanWork { more, bytes, flop, computes } = self.inst_work(step.inst);
        // Times of events are rounded; the work of a stream is in order all the same.
        let start = start.max(self.free[step.stream]);
        let end = end.max(start);
        self.free[step.stream] = end;
        self.part.spans.push(TraceSpan {
            rank: self.plan.rank,
            track: step.stream as u32,
            start_ns: start,
            end_ns: end,
            origin,
            more,
            kind: if computes { SpanKind::Compute } else { kind },
            // An instruction of several calls counts once.
            bytes: if first { bytes } else { 0 },
            flop: if first { flop } else { 0 },
        });
        let span = self.part.spans.len() - 1;
        self.last[step.stream] = Some((span, step.inst));
        Some(span)
    }

    /// Returns the totals over all calls of an instruction.
    fn inst_work(&self, at: InstId) -> SpanWork {
        match self.items.get(&at) {
            Some(FusedInst::Kernel { kernel, of }) => self.fused_work(kernel, &kernel.output, of, kernel.steps.len()),
            Some(FusedInst::Reduce { kernel, output, of, .. }) => {
                self.fused_work(kernel, output, of, kernel.steps.len() + 1)
            }
            Some(FusedInst::Gemm { of, .. }) => {
                let copies = of.iter().filter_map(|&at| self.plan.find_inst(at));
                SpanWork { more: copies.map(|inst| inst.origin).collect(), ..self.single_work(at) }
            }
            Some(FusedInst::StoreGemms(parts)) => self.stored_work(parts),
            Some(FusedInst::Inst(_) | FusedInst::DirectGemm { .. }) | None => self.single_work(at),
        }
    }

    fn fused_work(&self, kernel: &PointwiseKernel, output: &BufferView, of: &[InstId], steps: usize) -> SpanWork {
        let views = kernel.inputs.iter().chain([output]);
        let bytes = views.map(|view| (view.len() * view.dtype.byte_size()) as u64).sum();
        let others = of.iter().rev().skip(1).rev().filter_map(|&at| self.plan.find_inst(at));
        let more = others.map(|inst| inst.origin).collect();
        SpanWork { more, bytes, flop: steps as u64 * kernel.output.len() as u64, computes: true }
    }

    /// The totals of GEMMs that are one launch.
    fn stored_work(&self, parts: &[StoredGemm]) -> SpanWork {
        let mut work = SpanWork { computes: true, ..SpanWork::default() };
        for part in parts {
            let own = self.single_work(part.at);
            (work.bytes, work.flop) = (work.bytes + own.bytes, work.flop + own.flop);
        }
        let others = parts.iter().skip(1).filter_map(|part| self.plan.find_inst(part.at));
        SpanWork { more: others.map(|inst| inst.origin).collect(), ..work }
    }

    fn single_work(&self, at: InstId) -> SpanWork {
        let Some(inst) = self.plan.find_inst(at) else { return SpanWork::default() };
        let mut work =
            SpanWork { bytes: inst.kind.traffic_bytes(), flop: inst_flop(&inst.kind), ..SpanWork::default() };
        if let InstKind::GroupEnd { .. } = inst.kind {
            let group = self.plan.cursor_before(at).rev();
            let group = group.map(|(_, inst)| inst).take_while(|inst| !matches!(inst.kind, InstKind::GroupBegin));
            let mut more: Vec<InstOrigin> = Vec::new();
            for member in group {
                work.bytes += member.kind.traffic_bytes();
                if member.origin != inst.origin {
                    more.push(member.origin);
                }
            }
            more.reverse();
            work.more = more.into();
        }
        work
    }
}

/// The attributes of a span besides its times.
#[derive(Default)]
struct SpanWork {
    more: Box<[InstOrigin]>,
    bytes: u64,
    flop: u64,
    /// True if the span counts as compute, whatever its last instruction is.
    computes: bool,
}

/// Host times, in nanoseconds, before and after an event that is recorded on an idle device and waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockBracket {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A moment of a device on the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockAnchor {
    /// Its number among the recorded events.
    pub(crate) round: usize,
    /// The host's time of it, in nanoseconds.
    pub(crate) host: u64,
    /// The error bound of the anchor, in nanoseconds.
    pub(crate) error: u64,
}

/// The tightest bracket: the event lies in its middle, within half its length.
pub(crate) fn tightest_anchor(brackets: &[ClockBracket]) -> ClockAnchor {
    let tightest = brackets.iter().enumerate().min_by_key(|(_, bracket)| bracket_width(bracket));
    tightest.map_or(ClockAnchor { round: 0, host: 0, error: 0 }, |(round, bracket)| {
        let width = bracket_width(bracket);
        ClockAnchor { round, host: bracket.before + width / 2, error: width.div_ceil(2) }
    })
}

fn bracket_width(bracket: &ClockBracket) -> u64 {
    bracket.after.saturating_sub(bracket.before)
}

/// Converts a time to nanoseconds of the host's clock: so many milliseconds after a device's anchor.
pub(crate) fn to_host_time(anchor: ClockAnchor, milliseconds: f64) -> u64 {
    anchor.host + (milliseconds.max(0.0) * 1e6).round() as u64
}

#[cfg(test)]
mod tests;
