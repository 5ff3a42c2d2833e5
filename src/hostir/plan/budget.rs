//! Limits on plans: memory, which is estimated from loop bounds before it is used, and time.

use super::{LoopIteration, PlanBuffer, PlanBuilder};
use crate::diag::message;
use crate::diag::{Diag, Message, Quoted, RunOption, codes};
use std::time::{Duration, Instant};

/// The resource limits for planning a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanLimits {
    /// Bytes of the plans of all ranks together.
    pub bytes: u64,
    /// Time for planning, and for each run on the CPU.
    pub time: Option<Duration>,
}

impl PlanLimits {
    /// The default limit on the bytes of plans: 4 GiB.
    pub const BYTES: u64 = 4 << 30;
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { bytes: Self::BYTES, time: None }
    }
}

/// The time at which planning or a run must end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Option<Instant>,
    allowed: Duration,
}

impl Deadline {
    /// A deadline from now on; `None` without `allowed`, and never reached if `allowed` exceeds the range of clocks.
    pub(crate) fn after(allowed: Option<Duration>) -> Option<Self> {
        let allowed = allowed?;
        Some(Self { end: Instant::now().checked_add(allowed), allowed })
    }
    /// The note of an error, if the deadline has passed.
    pub(crate) fn expiry_note(&self) -> Option<String> {
        let over = self.end.is_some_and(|end| Instant::now() >= end);
        over.then(|| format!("the limit is {} ms", self.allowed.as_millis()))
    }
}

/// The resource limits of one rank's plan, and its use so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanBudget {
    /// Bytes for all ranks.
    all: u64,
    /// Bytes for this rank.
    most: u64,
    used: u64,
    deadline: Option<Deadline>,
    /// The limit on the bytes of this rank's buffers at one time.
    pub(super) memory: u64,
    /// The bytes of its buffers now.
    live_memory: u64,
}

impl PlanBudget {
    /// The share of one of `ranks`, which are planned in parallel; its buffers take at most `memory` bytes at one time.
    pub(crate) fn rank_share(limits: &PlanLimits, ranks: u32, memory: u64, deadline: Option<Deadline>) -> Self {
        let most = limits.bytes / u64::from(ranks.max(1));
        Self { all: limits.bytes, most, used: 0, deadline, memory, live_memory: 0 }
    }
    /// A buffer has memory from here on. Returns the bytes of all buffers that have.
    pub(super) fn hold_memory(&mut self, bytes: u64) -> u64 {
        self.live_memory = self.live_memory.saturating_add(bytes);
        self.live_memory
    }
    /// The memory of a buffer is free.
    pub(super) fn release_memory(&mut self, bytes: u64) {
        self.live_memory = self.live_memory.saturating_sub(bytes);
    }
    /// Returns the bytes of instructions that are part of a loop that is stored once.
    pub(super) fn refund_bytes(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes as u64);
    }
}

/// Numbers of iterations and buffers of a plan.
pub(crate) type PlanLengths = [usize; 2];

impl PlanBuilder<'_> {
    /// Counts the bytes of the next element of the plan.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), Diag> {
        self.budget.used += bytes as u64;
        if self.budget.used > self.budget.most {
            return Err(self.plan_too_large("more than", self.budget.most.into()));
        }
        self.check_time()
    }

    /// The lengths of the plan's lists.
    pub(crate) fn plan_lengths(&self) -> PlanLengths {
        let plan = &self.plan;
        [plan.iterations.len(), plan.buffers.len()]
    }

    /// Reserves room in the plan's lists for the remaining iterations of an outermost loop, each assumed as long as
    /// the first: a list that grows step by step is in memory twice. Nothing beyond the plan's limit is reserved, and
    /// a failed reservation is ignored.
    pub(crate) fn reserve_iterations(&mut self, before: &PlanLengths, left: u64) {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let [iterations, buffers] = self.plan_lengths();
        let free = usize::try_from(self.budget.most.saturating_sub(self.budget.used));
        let free = free.unwrap_or(usize::MAX);
        let room =
            |now: usize, before: usize, size: usize| now.saturating_sub(before).saturating_mul(left).min(free / size);
        let rounds = room(iterations, before[0], size_of::<LoopIteration>());
        let _ = self.plan.iterations.try_reserve_exact(rounds);
        let made = room(buffers, before[1], size_of::<PlanBuffer>());
        self.plan.buffers.try_reserve_exact(made);
        self.tensors.reserve_buffers(made);
    }

    /// Fails if the time limit has passed.
    pub(crate) fn check_time(&self) -> Result<(), Diag> {
        let Some(note) = self.budget.deadline.and_then(|deadline| deadline.expiry_note()) else {
            return Ok(());
        };
        let message = "planning the program exceeded the time limit";
        Err(self.error_here(codes::TIMEOUT, message).with_note(note).with_note(time_limit_advice()))
    }

    /// Refuses a loop whose plan certainly takes `least` bytes.
    ///
    /// # Errors
    /// If that is more than the plan may take.
    pub(crate) fn check_least(&self, least: u128) -> Result<(), Diag> {
        let bytes = least.saturating_add(self.budget.used.into());
        if bytes <= self.budget.most.into() {
            return Ok(());
        }
        Err(self.plan_too_large("at least", bytes))
    }

    fn plan_too_large(&self, than: &str, bytes: u128) -> Diag {
        let ranks = self.env.ranks;
        let rank = if ranks > 1 { "the plan of one rank" } else { "the plan" };
        let share = match ranks {
            0 | 1 => size_text(self.budget.all.into()),
            _ => format!(
                "{}, {} for all {ranks} ranks",
                size_text(self.budget.most.into()),
                size_text(self.budget.all.into())
            ),
        };
        let message = message!("{} takes {} {}: each iteration of a loop adds to it", rank, than, size_text(bytes));
        self.error_here(codes::TOO_LARGE, message).with_note(message!(
            "the limit is {}; {}",
            share,
            Quoted::run_option(RunOption::PlanMemory, "raise it with `--plan-memory=SIZE`")
        ))
    }
}

/// The repair where a time limit has passed.
pub(crate) fn time_limit_advice() -> Message {
    message!("raise the limit with `{}`", Quoted::run_option(RunOption::TimeLimit, "--timeout-ms=N"))
}

/// `3.2 GiB`
pub(crate) fn size_text(bytes: u128) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut size = bytes as f64;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || size >= 1000.0 || size.fract() == 0.0 { 0 } else { 1 };
    format!("{size:.digits$} {}", UNITS[unit])
}
