//! The words for findings about memory.

use super::findings::{MemoryFinding, UnorderedPair, UnwrittenOutput};
use super::history::{PastAccess, UnwrittenElements};
use crate::diag::message;
use crate::diag::{Cause, Diag, Fix, Message, PartKind, Quoted, Race, UnwrittenPlace, codes};
use crate::ir::{OpId, quoted_synchronize};
use crate::lower::PreparedProgram;
use crate::plan::MessageHeader;
use crate::plan::{BufferId, InstId, InstKind, Plan, StreamSlot, WorkSlot};
use rustc_hash::FxHashSet;

/// The errors for these findings.
pub(in crate::plan_checks) fn report_findings(prepared: &PreparedProgram, findings: &[MemoryFinding]) -> Vec<Diag> {
    let report = FindingReport { prepared };
    let mut repairs: FxHashSet<Message> = FxHashSet::default();
    let is_new = |finding: &&MemoryFinding| match finding {
        // One statement at the end repairs all findings about its stream.
        MemoryFinding::Unjoined { rank, access, .. } => repairs.insert(report.join_repair(*rank, access)),
        _ => true,
    };
    let (outputs, others): (Vec<&MemoryFinding>, Vec<&MemoryFinding>) =
        findings.iter().filter(is_new).partition(|finding| finding.unwritten_output().is_some());
    let mut diags: Vec<Diag> = others.into_iter().map(|finding| report.describe_finding(finding)).collect();
    // One error for all ranks.
    let mut outputs: Vec<&UnwrittenOutput> = outputs.into_iter().filter_map(MemoryFinding::unwritten_output).collect();
    outputs.sort_by_key(|found| (found.output, found.rank));
    let same = outputs.chunk_by(|one, other| one.output == other.output);
    diags.extend(
        same.filter_map(|same| same.split_first()).map(|(first, others)| report.describe_outputs(first, others)),
    );
    diags
}

/// The most PostOnStream ops of a HostUnit that an error labels.
const MOST_POSTS: usize = 4;

/// Writes the errors of a program.
pub(super) struct FindingReport<'a> {
    pub(super) prepared: &'a PreparedProgram,
}

impl FindingReport<'_> {
    fn describe_finding(&self, finding: &MemoryFinding) -> Diag {
        match finding {
            MemoryFinding::Race { rank, buffer, pair } => self.describe_race(*rank, *buffer, pair),
            MemoryFinding::Overlap { rank, inst, buffer, element } => {
                self.describe_overlap(*rank, *inst, *buffer, *element)
            }
            MemoryFinding::Unjoined { rank, buffer, access } => self.describe_unjoined(*rank, *buffer, access),
            MemoryFinding::Unwritten { rank, inst, view, elements } => {
                self.describe_unwritten(*rank, *inst, view.buffer, *elements)
            }
            MemoryFinding::FreedOutput { rank, output } => self.describe_freed_output(*rank, *output),
            MemoryFinding::UnwrittenOutput(found) => self.describe_outputs(found, &[]),
        }
    }

    pub(super) fn plan_of(&self, rank: usize) -> &Plan {
        &self.prepared.plans[rank]
    }

    /// The statement of the host program for an instruction: for an op of a HostUnit its PostOnStream, if there is only
    /// one, else the op itself.
    pub(super) fn op_of(&self, rank: usize, inst: InstId) -> OpId {
        let op = self.plan_of(rank).inst(inst).origin.op;
        match self.prepared.labels.op_posts(op) {
            [post] => *post,
            _ => op,
        }
    }

    /// Labels the statements of an instruction in the host program and in its HostUnit, beside that of [`Self::op_of`].
    fn with_unit_places(&self, mut diag: Diag, rank: usize, inst: InstId) -> Diag {
        let labels = &self.prepared.labels;
        let op = self.plan_of(rank).inst(inst).origin.op;
        match labels.op_posts(op) {
            [] => diag,
            [_] => diag.with_label(labels.op_span(op), "by this op of its HostUnit"),
            posts => {
                for post in posts.iter().take(MOST_POSTS) {
                    diag = diag.with_label(labels.op_span(*post), "runs this HostUnit");
                }
                diag
            }
        }
    }

    fn describe_race(&self, rank: usize, buffer: BufferId, pair: &UnorderedPair) -> Diag {
        let labels = &self.prepared.labels;
        // The host issues one first: the other one is to wait.
        let (first, second) = match pair.earlier.inst <= pair.later.inst {
            true => (pair.earlier, pair.later),
            false => (pair.later, pair.earlier),
        };
        let name = self.buffer_name(rank, buffer);
        let (one, two) = (self.op_of(rank, first.inst), self.op_of(rank, second.inst));
        let action = if second.is_write { "write" } else { "read" };
        let other = if first.is_write { "writes" } else { "reads" };
        let is_one_run = self.plan_of(rank).inst(first.inst).origin == self.plan_of(rank).inst(second.inst).origin;
        let message = match one == two {
            true if is_one_run => {
                message!("race on {}: `{}` both reads and writes it", name, labels.quoted_statement(two))
            }
            true => message!(
                "race on {}: `{}` {}s it while the same op {} it in another iteration",
                name,
                labels.quoted_statement(two),
                action,
                other
            ),
            false => message!(
                "race on {}: `{}` may {} it while `{}` {} it",
                name,
                labels.quoted_statement(two),
                action,
                labels.quoted_statement(one),
                other
            ),
        };
        let race = Race {
            first: labels.op_span(one),
            second: labels.op_span(two),
            first_writes: first.is_write,
            second_writes: second.is_write,
            is_one_op: one == two,
        };
        let mut diag = Diag::error(codes::RACE, labels.op_span(two), message)
            .with_primary_text(self.access_text(rank, buffer, &second));
        diag = match one == two {
            true if is_one_run => diag.with_note(message!("it also {}", self.access_text(rank, buffer, &first))),
            true => diag.with_note(message!("the other iteration {}", self.access_text(rank, buffer, &first))),
            false => diag.with_label(labels.op_span(one), self.access_text(rank, buffer, &first)),
        };
        diag = self.with_unit_places(diag, rank, second.inst);
        if self.plan_of(rank).inst(first.inst).origin.op != self.plan_of(rank).inst(second.inst).origin.op {
            diag = self.with_unit_places(diag, rank, first.inst);
        }
        // An instruction that overlaps itself has no order that could be missing.
        if !is_one_run {
            diag = diag.with_cause(Cause::Race(race));
        }
        diag.with_note(message!(
            "both access {} on rank {}, and nothing orders them",
            self.element_text(rank, buffer, pair.element),
            self.plan_of(rank).rank
        ))
        .with_fix(Fix::in_words(self.repair_text(rank, first.inst, second.inst)))
    }

    fn describe_overlap(&self, rank: usize, inst: InstId, buffer: BufferId, element: usize) -> Diag {
        let (labels, plan) = (&self.prepared.labels, self.plan_of(rank));
        let op = self.op_of(rank, inst);
        let message = message!(
            "race on {}: `{}` both reads and writes it",
            self.buffer_name(rank, buffer),
            labels.quoted_statement(op)
        );
        let diag = Diag::error(codes::RACE, labels.op_span(op), message);
        self.with_unit_places(diag, rank, inst)
            .with_note(message!("on rank {}, in {}", plan.rank, labels.origin_text(plan, plan.inst(inst).origin)))
            .with_note(message!(
                "what it reads and what it writes have {} in common",
                self.element_text(rank, buffer, element)
            ))
            .with_note(
                "an op works in place only where it reads each element for the same one of its result: \
                 give the result memory of its own",
            )
    }

    fn describe_unjoined(&self, rank: usize, buffer: BufferId, access: &PastAccess) -> Diag {
        let labels = &self.prepared.labels;
        let op = self.op_of(rank, access.inst);
        let action = if access.is_write { "written" } else { "read" };
        let name = self.buffer_name(rank, buffer);
        let message = message!(
            "{} may still be {} by `{}` when the caller's stream goes on",
            name,
            action,
            labels.quoted_statement(op)
        );
        let diag = Diag::error(codes::UNJOINED, labels.op_span(op), message)
            .with_primary_text(self.access_text(rank, buffer, access));
        self.with_unit_places(diag, rank, access.inst)
            .with_note("inputs and outputs belong to the caller, who uses them after the end of the caller's stream")
            .with_fix(Fix::in_words(self.join_repair(rank, access)))
    }

    /// A hint that orders an access before the end of the caller's stream.
    fn join_repair(&self, rank: usize, access: &PastAccess) -> Message {
        match self.missing_order(rank, access.inst, None) {
            MissingOrder::Statement(text) => {
                message!("add {} on the caller's stream before the end of the program", text)
            }
            MissingOrder::Unnamed => unnamed_repair(),
        }
    }

    fn describe_unwritten(&self, rank: usize, inst: InstId, buffer: BufferId, elements: UnwrittenElements) -> Diag {
        let labels = &self.prepared.labels;
        let op = self.op_of(rank, inst);
        let message = message!(
            "`{}` reads {} elements of {} that nothing has written",
            labels.quoted_statement(op),
            elements.count,
            self.buffer_name(rank, buffer)
        );
        let origin = self.plan_of(rank).inst(inst).origin;
        let first = self.element_text(rank, buffer, elements.first);
        let tensor = labels.tensor_name(self.plan_of(rank).buffers[buffer].tensor).to_owned();
        let place = UnwrittenPlace { tensor, rank: self.plan_of(rank).rank, first: first.clone() };
        self.with_unit_places(Diag::error(codes::UNINITIALISED, labels.op_span(op), message), rank, inst)
            .with_cause(Cause::Unwritten(place))
            .with_note(message!("the first is {}", first))
            .with_note(message!(
                "on rank {}, in {}",
                self.plan_of(rank).rank,
                labels.origin_text(self.plan_of(rank), origin)
            ))
    }

    /// `writes T2 on Stream 1 at i=3`.
    fn access_text(&self, rank: usize, buffer: BufferId, access: &PastAccess) -> Message {
        let plan = self.plan_of(rank);
        let inst = plan.inst(access.inst);
        let action = if access.is_write { "writes" } else { "reads" };
        let iteration = self.prepared.labels.iteration_text(plan.iteration_of(inst.origin));
        let at = if iteration.is_empty() { String::new() } else { format!(" at {iteration}") };
        let place = match &inst.kind {
            kind if kind.is_communication() && kind.communicator().is_some() => {
                message!(
                    "in its communicator's queue, posted on {}",
                    self.prepared.labels.quoted_stream(plan, inst.stream)
                )
            }
            _ => message!("on {}", self.prepared.labels.quoted_stream(plan, inst.stream)),
        };
        message!("{} {} {}{}", action, self.buffer_name(rank, buffer), place, at)
    }

    fn missing_synchronize(&self, plan: &Plan, stream: StreamSlot) -> MissingOrder {
        match self.prepared.labels.stream_operand(plan, stream) {
            Some(operand) => MissingOrder::Statement(quoted_synchronize(&operand).in_backquotes()),
            None => MissingOrder::Unnamed,
        }
    }

    /// The name of the tensor for which a buffer was created.
    fn buffer_name(&self, rank: usize, buffer: BufferId) -> Quoted {
        self.prepared.labels.quoted_tensor(self.plan_of(rank).buffers[buffer].tensor)
    }

    /// `T2[1, 0, 3]`, in the whole tensor.
    pub(super) fn element_text(&self, rank: usize, buffer: BufferId, element: usize) -> String {
        self.prepared.element_text(self.plan_of(rank), buffer, element)
    }

    /// A hint that orders an instruction before another.
    fn repair_text(&self, rank: usize, first: InstId, second: InstId) -> Message {
        let op = self.prepared.labels.quoted_statement(self.op_of(rank, second));
        let plan = self.plan_of(rank);
        let group = group_of(plan, first);
        if group.is_some() && group == group_of(plan, second) {
            return TOGETHER.into();
        }
        // A group contains only its sends and receives.
        let place = match enclosing_group(plan, second) {
            Some(_) => message!("before the group of `{}`", op),
            None => message!("before `{}`", op),
        };
        match self.missing_order(rank, first, Some(second)) {
            MissingOrder::Statement(text) => message!("add {} {}", text, place),
            MissingOrder::Unnamed => message!("{}, {}", unnamed_repair(), place),
        }
    }

    /// The missing order after an instruction, before another one or the end of the program.
    fn missing_order(&self, rank: usize, first: InstId, second: Option<InstId>) -> MissingOrder {
        let plan = self.plan_of(rank);
        let inst = plan.inst(first);
        let Some(work) = work_of(plan, first) else {
            return self.missing_synchronize(plan, inst.stream);
        };
        let rest = plan.cursor_after(first).take_while(|(id, _)| second.is_none_or(|second| *id < second));
        let mut waits = rest.filter(|(_, inst)| inst.kind.awaited_work().is_some_and(|other| work.ends_with(other)));
        match waits.next() {
            Some((_, wait)) => self.missing_synchronize(plan, wait.stream),
            None => {
                let wait = self.prepared.labels.quoted_wait(plan.inst(work.named).origin.op);
                wait.map_or(MissingOrder::Unnamed, |wait| MissingOrder::Statement(wait.clone()))
            }
        }
    }
}

/// The repair if the stream to wait for has no name.
fn unnamed_repair() -> Message {
    message!(
        "bind the caller's stream by `{}` at the start, and add `{}`",
        Quoted::spelled(PartKind::Statement, "GetCurrentStream into Stream N", "stream N = current"),
        quoted_synchronize("N")
    )
}

/// The repair if both accesses start together.
const TOGETHER: &str =
    "sends and receives of a group start together: receive into other memory, and copy it from there after the group";

/// The statement that is missing.
enum MissingOrder {
    /// A Wait or a Synchronize, in backquotes.
    Statement(Quoted),
    /// A Synchronize with a stream for which the program has no name.
    Unnamed,
}

/// The completion handles that end with a communication.
struct EndingWorks {
    own: WorkSlot,
    group: Option<WorkSlot>,
    /// The instruction that a Wait names.
    named: InstId,
}

impl EndingWorks {
    fn ends_with(&self, work: WorkSlot) -> bool {
        work == self.group.unwrap_or(self.own)
    }
}

/// The completion handles of a communication; `None` for other instructions.
fn work_of(plan: &Plan, id: InstId) -> Option<EndingWorks> {
    match &plan.inst(id).kind {
        InstKind::Collective(collective) => Some(EndingWorks { own: collective.work, group: None, named: id }),
        InstKind::Message { header: MessageHeader { comm, work, .. }, .. } => {
            let group = comm.and_then(|_| enclosing_group(plan, id));
            Some(EndingWorks {
                own: *work,
                group: group.map(|(_, work)| work),
                named: group.map_or(id, |(end, _)| end),
            })
        }
        _ => None,
    }
}

/// The end of the group of a message on a communicator; `None` for other instructions and outside of groups.
fn group_of(plan: &Plan, id: InstId) -> Option<InstId> {
    plan.inst(id).kind.message()?.comm?;
    enclosing_group(plan, id).map(|(end, _)| end)
}

/// The end of the group that contains an instruction.
fn enclosing_group(plan: &Plan, id: InstId) -> Option<(InstId, WorkSlot)> {
    plan.cursor_after(id).find_map(|(end, inst)| match &inst.kind {
        InstKind::GroupBegin => Some(None),
        InstKind::GroupEnd { work, .. } => Some(Some((end, *work))),
        _ => None,
    })?
}
