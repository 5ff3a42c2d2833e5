//! From times of calls to slices and arrows, and from times of devices to one clock. No call of CUDA is
//! made here.

use hostir::backend::trace;
use hostir::backend::trace::{Arrow, Part, Slice, SliceKind};
use hostir::plan::InstId;
use hostir::plan::cost::inst_flop;
use hostir::plan::{InstKind, Kernel, Origin, Plan, View};
use hostir_gpu::fuse::Fused;
use hostir_gpu::memory_layout;
use hostir_gpu::schedule::{Call, START, Schedule, Step};
use std::collections::BTreeMap;

/// How often a step is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// Not at all: it only orders streams.
    None,
    /// Once: it takes no time of its own.
    Point,
    /// Before and after.
    Pair,
}

/// How each step is looked at.
pub(crate) fn probes(plan: &Plan, schedule: &Schedule) -> Vec<Probe> {
    // By event: the instruction of its mark, and whether that is on a stream without a track.
    let mut marked = vec![None; schedule.events];
    let mut aside = vec![false; schedule.events];
    let tracks = trace::tracks(plan).len();
    let probe = |step: &Step| {
        let Some(inst) = plan.find_inst(step.inst) else { return Probe::None };
        // Copies beside others of their communication have no track: it ends when its track's stream has waited
        // for them.
        if step.stream >= tracks {
            if let Call::Record { event } = step.call {
                aside[event] = true;
            }
            return Probe::None;
        }
        let own = step.stream == inst.stream.0 as usize;
        match (&step.call, &inst.kind) {
            (Call::Record { event }, kind) => {
                marked[*event] = Some(step.inst);
                let named = own && matches!(kind, InstKind::Record { .. });
                if named { Probe::Point } else { Probe::None }
            }
            (Call::Wait { event }, InstKind::WaitWork { .. } | InstKind::WaitEvent { .. }) => {
                // What the run's start and end order is no instruction's.
                let named = own && *event != START && marked[*event] != Some(step.inst);
                if named { Probe::Pair } else { Probe::None }
            }
            (Call::Wait { event }, _) if !aside[*event] => Probe::None,
            _ => Probe::Pair,
        }
    };
    schedule.steps.iter().map(probe).collect()
}

/// The slices of a rank, from the times of its steps in nanoseconds; `None` where [`probes`] says so.
pub(crate) fn part(plan: &Plan, schedule: &Schedule, times: &[Option<(u64, u64)>]) -> Part {
    let mut builder = Builder {
        plan,
        items: schedule.items.iter().map(|item| (memory_layout::place(item), item)).collect(),
        part: Part { tracks: trace::tracks(plan), ..Part::default() },
        last: vec![None; schedule.streams],
        free: vec![0; schedule.streams],
        sources: vec![None; schedule.events],
    };
    for (step, time) in schedule.steps.iter().zip(times) {
        builder.step(step, *time);
    }
    builder.part
}

struct Builder<'p> {
    plan: &'p Plan,
    items: BTreeMap<InstId, &'p Fused>,
    part: Part,
    /// The last slice of each stream, and its instruction.
    last: Vec<Option<(usize, InstId)>>,
    /// When each stream's last slice ends.
    free: Vec<u64>,
    /// What each event marks.
    sources: Vec<Option<usize>>,
}

impl Builder<'_> {
    fn step(&mut self, step: &Step, time: Option<(u64, u64)>) {
        let slice = time.and_then(|time| self.add(step, time));
        match step.call {
            Call::Record { event } => self.sources[event] = slice.or_else(|| self.posted(step)),
            Call::Wait { event } => {
                if let (Some(from), Some(to)) = (self.sources[event], slice) {
                    self.part.arrows.push(Arrow { from, to });
                }
            }
            _ => {}
        }
    }

    /// The communication that ends at a mark of its communicator's stream.
    fn posted(&self, step: &Step) -> Option<usize> {
        let (slice, inst) = self.last[step.stream]?;
        let kind = self.part.slices[slice].kind;
        (inst == step.inst && kind == SliceKind::Communication).then_some(slice)
    }

    fn add(&mut self, step: &Step, (start, end): (u64, u64)) -> Option<usize> {
        let (origin, kind) = {
            let inst = self.plan.find_inst(step.inst)?;
            (inst.origin, SliceKind::of(&inst.kind)?)
        };
        let first = self.last[step.stream].is_none_or(|(_, inst)| inst != step.inst);
        let Work { more, bytes, flop, computes } = self.work(step.inst);
        // Times of events are rounded: what a stream does is in order all the same.
        let start = start.max(self.free[step.stream]);
        let end = end.max(start);
        self.free[step.stream] = end;
        self.part.slices.push(Slice {
            rank: self.plan.rank,
            track: step.stream as u32,
            start_ns: start,
            end_ns: end,
            origin,
            more,
            kind: if computes { SliceKind::Compute } else { kind },
            // An instruction of several calls counts once.
            bytes: if first { bytes } else { 0 },
            flop: if first { flop } else { 0 },
        });
        let slice = self.part.slices.len() - 1;
        self.last[step.stream] = Some((slice, step.inst));
        Some(slice)
    }

    /// What the calls of an instruction do together.
    fn work(&self, at: InstId) -> Work {
        match self.items.get(&at) {
            Some(Fused::Kernel { kernel, of }) => {
                self.fused(kernel, &kernel.output, of, kernel.steps.len())
            }
            Some(Fused::Reduce { kernel, output, of, .. }) => {
                self.fused(kernel, output, of, kernel.steps.len() + 1)
            }
            Some(Fused::Gemm { of, .. }) => {
                let copies = of.iter().filter_map(|&at| self.plan.find_inst(at));
                Work { more: copies.map(|inst| inst.origin).collect(), ..self.single(at) }
            }
            Some(Fused::Inst(_)) | None => self.single(at),
        }
    }

    fn fused(&self, kernel: &Kernel, output: &View, of: &[InstId], steps: usize) -> Work {
        let views = kernel.inputs.iter().chain([output]);
        let bytes = views.map(|view| (view.len() * view.dtype.size()) as u64).sum();
        let others = of.iter().rev().skip(1).rev().filter_map(|&at| self.plan.find_inst(at));
        let more = others.map(|inst| inst.origin).collect();
        Work { more, bytes, flop: steps as u64 * kernel.output.len() as u64, computes: true }
    }

    fn single(&self, at: InstId) -> Work {
        let Some(inst) = self.plan.find_inst(at) else { return Work::default() };
        let mut work =
            Work { bytes: inst.kind.bytes(), flop: inst_flop(&inst.kind), ..Work::default() };
        if let InstKind::GroupEnd { .. } = inst.kind {
            let group = self.plan.cursor_before(at).rev();
            let group = group
                .map(|(_, inst)| inst)
                .take_while(|inst| !matches!(inst.kind, InstKind::GroupBegin));
            let mut more: Vec<Origin> = Vec::new();
            for member in group {
                work.bytes += member.kind.bytes();
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

/// What goes into a slice besides its times.
#[derive(Default)]
struct Work {
    more: Box<[Origin]>,
    bytes: u64,
    flop: u64,
    /// Whether it computes whatever its last instruction is.
    computes: bool,
}

/// Host times, in nanoseconds, before and after an event was recorded on an idle device and waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bracket {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// A moment of a device on the host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Anchor {
    /// Which of the recorded events.
    pub(crate) round: usize,
    /// The host's time of it, in nanoseconds.
    pub(crate) host: u64,
    /// How far off that may be, in nanoseconds.
    pub(crate) error: u64,
}

/// The tightest bracket: the event lies in its middle, give or take a half.
pub(crate) fn anchor(brackets: &[Bracket]) -> Anchor {
    let width = |bracket: &Bracket| bracket.after.saturating_sub(bracket.before);
    let tightest = brackets.iter().enumerate().min_by_key(|(_, bracket)| width(bracket));
    tightest.map_or(Anchor { round: 0, host: 0, error: 0 }, |(round, bracket)| {
        let error = width(bracket).div_ceil(2);
        Anchor { round, host: bracket.before + width(bracket) / 2, error }
    })
}

/// Nanoseconds of the host's clock, of a moment so many milliseconds after a device's anchor.
pub(crate) fn on_host(anchor: Anchor, milliseconds: f64) -> u64 {
    anchor.host + (milliseconds.max(0.0) * 1e6).round() as u64
}

#[cfg(test)]
mod tests;
