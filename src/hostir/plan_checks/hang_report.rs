//! The report of a run that does not end: the position of each rank, and the rank that the others wait for.
//!
//! All backends report the position of each rank as far as they know it; ranks at the same op in the same iteration are
//! one note. A rank waits for the ranks that have not reached the other side of its communication. The culprit is the
//! rank that others wait for and that waits for none.

use super::rank_text::{RankGroups, rank_ranges};
use crate::diag::message;
use crate::diag::{Diag, Message};
use crate::lower::PreparedProgram;
use crate::plan::{InstId, InstKind, InstOrigin, Plan, PlanMatching, RankInst};
use std::collections::BTreeSet;

/// The most notes about positions.
const MOST_NOTES: usize = 12;

/// The most ops with a label.
const MOST_LABELS: usize = 4;

/// The progress of a rank in a run that does not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RankProgress {
    /// The first instruction that is not done.
    At(InstId),
    /// One of the instructions between these two, which share an event.
    Among(InstId, InstId),
    /// All its communications are done, but not all of its own work.
    OwnWork,
    /// It has not started: it waits until all ranks are there.
    NotStarted,
    /// It has ended.
    Ended,
    /// Nothing is known.
    Unknown,
}

/// The position of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankPosition {
    /// The rank.
    pub rank: u32,
    /// Its progress.
    pub progress: RankProgress,
}

/// Adds the positions of the ranks to an error about a run that did not end, and names the rank that the others wait
/// for. Ranks without a position are reported as such. The error's own notes come last.
pub fn report_hang(prepared: &PreparedProgram, error: Diag, positions: &[RankPosition]) -> Diag {
    let report = HangReport::new(prepared, positions);
    let culprits = report.culprits();
    let mut diag = error;
    diag.primary = None;
    diag.labels.clear();
    if let Some(text) = report.culprit_text(&culprits) {
        diag.message = message!("{}: {}", diag.message, text);
    }
    let rest = std::mem::take(&mut diag.notes);
    let diag = report.with_labels(diag, &culprits);
    let mut diag = report.with_notes(diag, &culprits);
    diag.notes.extend(rest);
    diag
}

/// A rank with its position.
struct StandingRank<'p> {
    plan: &'p Plan,
    progress: RankProgress,
    /// The other ranks that it waits for.
    awaited: BTreeSet<u32>,
}

/// The ranks of a run that does not end.
struct HangReport<'p> {
    prepared: &'p PreparedProgram,
    ranks: Vec<StandingRank<'p>>,
}

impl<'p> HangReport<'p> {
    fn new(prepared: &'p PreparedProgram, positions: &[RankPosition]) -> Self {
        let ranks = prepared.plans.iter().map(|plan| {
            let known = positions.iter().find(|position| position.rank == plan.rank);
            let progress = known.map_or(RankProgress::Unknown, |position| position.progress);
            StandingRank { plan, progress, awaited: BTreeSet::new() }
        });
        let ranks: Vec<StandingRank<'p>> = ranks.collect();
        let matching = PlanMatching::new(&prepared.plans);
        let mut report = Self { prepared, ranks };
        let awaited: Vec<BTreeSet<u32>> =
            report.ranks.iter().map(|rank| report.awaited_ranks(rank, &matching)).collect();
        for (rank, awaited) in report.ranks.iter_mut().zip(awaited) {
            rank.awaited = awaited;
        }
        report
    }

    /// The ranks without which a rank cannot continue.
    fn awaited_ranks(&self, rank: &StandingRank<'_>, matching: &PlanMatching<'_>) -> BTreeSet<u32> {
        if rank.progress == RankProgress::NotStarted {
            let late = self.ranks.iter().filter(|other| other.progress != RankProgress::NotStarted);
            return late.map(|other| other.plan.rank).collect();
        }
        let Some(pending) = rank.pending_inst() else { return BTreeSet::new() };
        let sides = communications_of(rank.plan, pending);
        let partners = sides.into_iter().flat_map(|inst| partners_of(matching, rank.plan, inst));
        partners.filter(|partner| !self.has_passed(*partner)).map(|partner| partner.rank).collect()
    }

    /// Returns true if a rank is known to have passed an instruction.
    fn has_passed(&self, partner: RankInst) -> bool {
        match self.ranks.get(partner.rank as usize).map(|rank| rank.progress) {
            Some(RankProgress::At(pending) | RankProgress::Among(pending, _)) => pending > partner.inst,
            Some(RankProgress::OwnWork | RankProgress::Ended) => true,
            Some(RankProgress::NotStarted | RankProgress::Unknown) | None => false,
        }
    }

    /// The ranks that others wait for and that wait for no other.
    fn culprits(&self) -> Vec<u32> {
        let wanted: BTreeSet<u32> = self.ranks.iter().flat_map(|rank| rank.awaited.iter().copied()).collect();
        let wanted = wanted.into_iter();
        wanted.filter(|rank| self.ranks.get(*rank as usize).is_some_and(|rank| rank.awaited.is_empty())).collect()
    }

    fn culprit_text(&self, culprits: &[u32]) -> Option<Message> {
        let first = self.ranks.get(*culprits.first()? as usize)?;
        let all_alike = culprits.iter().all(|&rank| {
            let other = self.ranks.get(rank as usize);
            other.is_some_and(|other| self.place_text(other) == self.place_text(first))
        });
        let verb = if culprits.len() == 1 { "holds" } else { "hold" };
        let stand = if culprits.len() == 1 { "it is" } else { "they are" };
        let place = match all_alike {
            true => message!(": {} {}", stand, self.place_text(first)),
            false => Message::default(),
        };
        Some(message!("{} {} up the others{}", rank_ranges(culprits), verb, place))
    }

    /// `in `Communication 2` at i=3`.
    fn place_text(&self, rank: &StandingRank<'_>) -> Message {
        match rank.progress {
            RankProgress::At(inst) => message!("in {}", self.origin_text(rank.plan, inst)),
            RankProgress::Among(first, last) => {
                message!("between {} and {}", self.origin_text(rank.plan, first), self.origin_text(rank.plan, last))
            }
            RankProgress::OwnWork => "in work of its own, after all its communications".into(),
            RankProgress::NotStarted => "at the start of the run, which waits for all ranks".into(),
            RankProgress::Ended => "at the end of the program".into(),
            RankProgress::Unknown => "at an unknown op".into(),
        }
    }

    fn origin_text(&self, plan: &Plan, inst: InstId) -> Message {
        let origin = plan.find_inst(inst).map(|inst| inst.origin);
        origin.map_or_else(|| "an unknown op".into(), |origin| self.prepared.labels.origin_text(plan, origin))
    }

    /// Labels of the culprits' ops first, then of those of the other ranks.
    fn with_labels(&self, diag: Diag, culprits: &[u32]) -> Diag {
        let mut groups: RankGroups<InstOrigin, bool> = RankGroups::default();
        let ordered = self.ranks.iter().filter(|rank| culprits.contains(&rank.plan.rank));
        let others = self.ranks.iter().filter(|rank| !culprits.contains(&rank.plan.rank));
        for rank in ordered.chain(others) {
            if let Some(inst) = rank.pending_inst().and_then(|inst| rank.plan.find_inst(inst)) {
                let is_waiting = !rank.awaited.is_empty();
                groups.add_rank(rank.plan.rank, is_waiting, inst.origin, |one, other| one.op == other.op);
            }
        }
        groups.groups.iter().take(MOST_LABELS).fold(diag, |mut diag, group| {
            let span = self.prepared.labels.op_span(group.place.op);
            let verb = match (group.detail, group.ranks.len()) {
                (true, 1) => "waits here",
                (true, _) => "wait here",
                (false, 1) => "is here",
                (false, _) => "are here",
            };
            let mut ranks = group.ranks.clone();
            ranks.sort_unstable();
            let text = message!("{} {}", rank_ranges(&ranks), verb);
            if diag.primary.is_none() {
                diag.primary = Some(crate::diag::DiagLabel { span, text });
                return diag;
            }
            diag.with_label(span, text)
        })
    }

    fn with_notes(&self, mut diag: Diag, culprits: &[u32]) -> Diag {
        let mut groups: RankGroups<RankPlace, BTreeSet<u32>> = RankGroups::default();
        for rank in &self.ranks {
            let finished = self.finished_text(rank).map(|finished| message!("; last done: {}", finished));
            let place = RankPlace { at: self.place_text(rank), finished: finished.unwrap_or_default() };
            let awaited = rank.awaited.clone();
            let group = groups.add_rank(rank.plan.rank, awaited.clone(), place, |one, other| one == other);
            group.detail.extend(awaited);
        }
        let count = groups.groups.len();
        for group in groups.groups.iter().take(MOST_NOTES) {
            let awaited: Vec<u32> = group.detail.iter().copied().collect();
            let (who, verb) = (rank_ranges(&group.ranks), if group.ranks.len() == 1 { "is" } else { "are" });
            let RankPlace { at, finished } = &group.place;
            diag = diag.with_note(match awaited.is_empty() {
                true => message!("{} {} {}{}", who, verb, at, finished),
                false => {
                    let verb = if group.ranks.len() == 1 { "waits" } else { "wait" };
                    message!("{} {} {} for {}{}", who, verb, at, rank_ranges(&awaited), finished)
                }
            });
        }
        if count > MOST_NOTES {
            diag = diag.with_note(message!("and {} more groups of ranks", count - MOST_NOTES));
        }
        match self.general_note(culprits) {
            Some(note) => diag.with_note(note),
            None => diag,
        }
    }

    /// The explanation if no rank delays the others.
    fn general_note(&self, culprits: &[u32]) -> Option<&'static str> {
        match self.ranks.iter().any(|rank| !rank.awaited.is_empty()) {
            true if culprits.is_empty() => Some("each rank that is waited for waits itself: the ranks wait in a cycle"),
            false if self.ranks.iter().any(StandingRank::communicates) => {
                Some("all sides of these communications have been issued: the transfers themselves do not end")
            }
            _ => None,
        }
    }

    /// The last work or wait before the first instruction that is not done.
    fn finished_text(&self, rank: &StandingRank<'_>) -> Option<Message> {
        let pending = rank.pending_inst()?;
        let op = rank.plan.find_inst(pending)?.origin;
        let mut before = rank.plan.cursor_before(pending).rev();
        let (inst, _) = before.find(|(_, inst)| {
            let is_step = inst.kind.is_work() || inst.kind.awaited_work().is_some();
            is_step && inst.origin != op
        })?;
        Some(self.origin_text(rank.plan, inst))
    }
}

/// The place of some ranks in words.
#[derive(PartialEq, Debug)]
struct RankPlace {
    /// The statement they are at.
    at: Message,
    /// Their last action, as the end of a sentence; may be empty.
    finished: Message,
}

impl StandingRank<'_> {
    fn pending_inst(&self) -> Option<InstId> {
        match self.progress {
            RankProgress::At(inst) | RankProgress::Among(inst, _) => Some(inst),
            RankProgress::OwnWork | RankProgress::NotStarted | RankProgress::Ended | RankProgress::Unknown => None,
        }
    }

    /// True if its first instruction that is not done is a communication, or waits for one.
    fn communicates(&self) -> bool {
        self.pending_inst().is_some_and(|inst| !communications_of(self.plan, inst).is_empty())
    }
}

/// The communications that an instruction is, or waits for: all those of a group.
fn communications_of(plan: &Plan, inst: InstId) -> Vec<InstId> {
    match plan.find_inst(inst).as_deref().map(|inst| &inst.kind) {
        Some(InstKind::WaitWork { work }) => {
            let mut before = plan.cursor_before(inst).rev();
            let post = before.find(|(_, inst)| inst.kind.issued_work() == Some(*work)).map(|(id, _)| id);
            post.map_or_else(Vec::new, |post| communications_of(plan, post))
        }
        Some(InstKind::GroupEnd { .. }) => {
            let before = plan.cursor_before(inst).rev();
            let group = before.take_while(|(_, inst)| !matches!(inst.kind, InstKind::GroupBegin));
            let mut insts: Vec<InstId> =
                group.filter(|(_, inst)| inst.kind.message().is_some()).map(|(id, _)| id).collect();
            insts.reverse();
            insts
        }
        Some(kind) if kind.is_communication() => vec![inst],
        _ => Vec::new(),
    }
}

/// The other sides of a communication.
fn partners_of(matching: &PlanMatching<'_>, plan: &Plan, inst: InstId) -> Vec<RankInst> {
    if plan.inst(inst).kind.collective().is_none() {
        return matching.message_partner(plan.rank, inst).into_iter().collect();
    }
    let all = matching.communicators.iter().flat_map(|of_all| {
        of_all.collectives.iter().map(move |members| of_all.communicator.team.iter().copied().zip(members))
    });
    let mut own =
        all.filter(|members| members.clone().any(|(rank, member)| rank == plan.rank && *member == Some(inst)));
    let others = own.next().into_iter().flatten().filter(|(rank, _)| *rank != plan.rank);
    others.filter_map(|(rank, member)| Some(RankInst { rank, inst: (*member)? })).collect()
}
