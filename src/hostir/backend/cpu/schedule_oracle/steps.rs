//! Steps: the work of all ranks' queues, divided where another queue's work may come between.
//!
//! An instruction that accesses memory is a step that reads and a step that writes. A step is ready once all steps that
//! it waits for are taken; nothing else orders steps.

use crate::plan::InstId;

/// A step of a run, by its number in the order of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct StepId(pub(super) u32);

/// The part of an instruction that a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StepRole {
    /// The start of a queue's work: of a run, or of a communication.
    Start,
    /// The sources are read.
    Read,
    /// The target is written.
    Write,
    /// A communication is done, or a wait is over.
    Done,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueStep {
    /// The rank whose instruction it is of.
    pub(super) rank: u32,
    /// The run, from 0.
    pub(super) run: u32,
    /// The instruction; `None` for the caller's accesses before and after a run.
    pub(super) inst: Option<InstId>,
    /// The part of it.
    pub(super) role: StepRole,
}

/// The assumptions of a schedule about communications. A later one keeps the orders of all earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TransferModel {
    /// A communication may access a side's memory from the side's start to its end.
    Windows,
    /// Data is written after it has been read.
    Causal,
    /// Communications of a communicator move data once all their sides have started.
    Rendezvous,
}

/// A wait of a step for another one, in schedules of this model and of later ones.
#[derive(Clone, Copy, Debug)]
struct StepEdge {
    before: StepId,
    after: StepId,
    model: TransferModel,
}

/// All steps, and what each waits for.
#[derive(Clone, Default, Debug)]
pub(super) struct StepGraph {
    /// By id.
    pub(super) steps: Vec<QueueStep>,
    edges: Vec<StepEdge>,
    /// Steps that wait for what never comes.
    endless: Vec<StepId>,
}

impl StepGraph {
    /// Adds a step after others.
    pub(super) fn add_step(&mut self, step: QueueStep, after: &[StepId]) -> StepId {
        let id = StepId(self.steps.len() as u32);
        self.steps.push(step);
        after.iter().for_each(|&before| self.add_wait(before, id, TransferModel::Windows));
        id
    }

    /// A step waits for another one.
    pub(super) fn add_wait(&mut self, before: StepId, after: StepId, model: TransferModel) {
        self.edges.push(StepEdge { before, after, model });
    }

    /// A step waits for what never comes.
    pub(super) fn block_step(&mut self, step: StepId) {
        self.endless.push(step);
    }

    /// Number of waits.
    pub(super) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The waits of all steps under a model, in a form that schedules use.
    pub(super) fn waits_of(&self, model: TransferModel) -> StepWaits {
        let count = self.steps.len();
        let mut waits = StepWaits { starts: vec![0; count + 1], followers: Vec::new(), missing: vec![0; count] };
        let edges = || self.edges.iter().filter(|edge| edge.model <= model);
        for edge in edges() {
            waits.starts[edge.before.0 as usize + 1] += 1;
            waits.missing[edge.after.0 as usize] += 1;
        }
        for at in 0..count {
            waits.starts[at + 1] += waits.starts[at];
        }
        let mut next = waits.starts.clone();
        waits.followers = vec![StepId(0); waits.starts[count] as usize];
        for edge in edges() {
            let place = &mut next[edge.before.0 as usize];
            waits.followers[*place as usize] = edge.after;
            *place += 1;
        }
        for step in &self.endless {
            waits.missing[step.0 as usize] += 1;
        }
        waits
    }
}

/// By step: the number of steps that it waits for, and the steps that wait for it.
#[derive(Clone, Debug)]
pub(super) struct StepWaits {
    starts: Vec<u32>,
    followers: Vec<StepId>,
    /// The number of steps that each waits for.
    pub(super) missing: Vec<u32>,
}

impl StepWaits {
    /// The steps that wait for this one.
    pub(super) fn followers_of(&self, step: StepId) -> &[StepId] {
        let at = step.0 as usize;
        &self.followers[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}
