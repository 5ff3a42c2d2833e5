//! Matches the communications of all ranks' plans: each send with its receive, and the sides of each collective.
//!
//! For each pair of ranks, sends and receives match in the order in which their hosts issue them: those on streams
//! in one sequence, and those of each communicator in another. Collectives match in their communicator's order.
//! Streams may reach messages in a different order; this does not change the matching.

use super::inst::{CollectiveInst, CommSlot, InstId, InstKind, MessageHeader};
use super::{Plan, PlanCommunicator, QueueAction};
use crate::ir::{Id, MessageDirection, MessageProtocol};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An instruction of a rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RankInst {
    /// The rank.
    pub rank: u32,
    /// The instruction of its plan.
    pub inst: InstId,
}

/// A send and the receive that it matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatchedMessage {
    /// The send.
    pub send: RankInst,
    /// The receive.
    pub receive: RankInst,
    /// True if the sender can initiate the transfer: both sides ask for it (`protocol=put`), or both belong to
    /// groups on a communicator. A group announces all its buffers before it moves data, so senders may push between
    /// two groups; messages on streams are outside of groups.
    pub put: bool,
}

/// A communicator as all its members see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatchedCommunicator<'p> {
    /// The team and the backend.
    pub communicator: &'p PlanCommunicator,
    /// By position in the team: the slot in the member's plan, if the plan has the communicator.
    pub slots: Vec<Option<CommSlot>>,
    /// The members' collectives, in issue order and by position in the team; `None` for a member that issues
    /// fewer than others.
    pub collectives: Vec<Vec<Option<InstId>>>,
}

/// A member's side of a matched collective.
#[derive(Clone, Debug)]
pub struct CollectiveMember<'p> {
    /// Its rank.
    pub rank: u32,
    /// Its position in the team.
    pub position: usize,
    /// Its instruction.
    pub inst: InstId,
    /// The same, as its plan has it.
    pub collective: Cow<'p, CollectiveInst>,
}

impl MatchedCommunicator<'_> {
    /// The position of a rank in the team. Teams of all ranks have each at its own number.
    pub(crate) fn position_of(&self, rank: u32) -> Option<usize> {
        let team = &self.communicator.team;
        let own = rank as usize;
        if team.get(own) == Some(&rank) { Some(own) } else { team.iter().position(|&member| member == rank) }
    }

    /// The sides of the members that issue the communicator's collective of a number, in team order.
    pub fn collective_members<'p>(&self, number: usize, plans: &'p [Plan]) -> Vec<CollectiveMember<'p>> {
        let insts = self.collectives.get(number).map_or(&[][..], Vec::as_slice);
        let team = self.communicator.team.iter().zip(insts).enumerate();
        team.filter_map(|(position, (&rank, &inst))| {
            let (inst, plan) = (inst?, plans.get(rank as usize)?);
            Some(CollectiveMember { rank, position, inst, collective: plan.collective_of(inst)? })
        })
        .collect()
    }
}

/// The matched communications of all ranks.
#[derive(Clone, Default, Debug)]
pub struct PlanMatching<'p> {
    /// In the order of team and backend.
    pub communicators: Vec<MatchedCommunicator<'p>>,
    /// Messages on streams first, then those of each communicator; within these by sender and receiver, then in order
    /// of issue.
    pub messages: Vec<MatchedMessage>,
    /// By rank, in the order of the instructions: the number of the message that it is a side of.
    sides: Vec<Vec<(InstId, u32)>>,
}

/// Messages that match in order: of the streams (without a communicator) or of a communicator, from one rank to
/// another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MessageChannel<'p> {
    communicator: Option<&'p PlanCommunicator>,
    from: u32,
    to: u32,
}

/// The end of a channel on one rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ChannelEnd {
    comm: Option<CommSlot>,
    peer: u32,
    direction: MessageDirection,
}

/// One side of a message.
#[derive(Clone, Copy)]
struct MessageSide {
    at: RankInst,
    put: bool,
}

/// A rank's position in a communicator, and the number of collectives that it has issued there.
struct MemberSlot {
    /// The communicator among the matched ones.
    place: usize,
    position: usize,
    posted: usize,
}

/// The sides of a channel's messages in issue order.
#[derive(Default)]
struct ChannelSides {
    sends: Vec<MessageSide>,
    receives: Vec<MessageSide>,
}

impl<'p> PlanMatching<'p> {
    /// Matches the communications of these plans, one for each rank.
    pub fn new(plans: &'p [Plan]) -> Self {
        let mut matching = Self { communicators: communicators(plans), ..Self::default() };
        matching.match_collectives(plans);
        matching.match_messages(plans);
        matching
    }

    /// Matches the communications of rank 0 in plans that differ only by a rotation of the ranks: rank `r`'s work with
    /// rank `p` is rank 0's with rank `p - r`. Messages in which rank 0 has no part are left out.
    pub(crate) fn of_rotated_plans(plans: &'p [Plan]) -> Self {
        let mut matching = Self { communicators: communicators(plans), ..Self::default() };
        let Some(plan) = plans.first() else { return matching };
        let ranks = plans.len() as u32;
        for of_all in &mut matching.communicators {
            let slot = of_all.slots.first().copied().flatten();
            let is_own = |kind: &InstKind| kind.collective().is_some_and(|one| Some(one.comm) == slot);
            plan.visit_stored(is_own, |id, _| of_all.collectives.push(vec![Some(id); ranks as usize]));
        }
        let mut channels: BTreeMap<MessageChannel<'p>, ChannelSides> = BTreeMap::new();
        add_message_sides(plan, &mut channels);
        let mut sides = Vec::new();
        for (channel, outgoing) in channels.iter().filter(|(channel, _)| channel.from == 0) {
            let (to, back) = (channel.to, (ranks - channel.to) % ranks);
            let Some(incoming) = channels.get(&MessageChannel { from: back, to: 0, ..*channel }) else { continue };
            for (send, receive) in outgoing.sends.iter().zip(&incoming.receives) {
                let put = send.put && receive.put;
                let as_sender = MatchedMessage { send: send.at, receive: RankInst { rank: to, ..receive.at }, put };
                let as_receiver = MatchedMessage { send: RankInst { rank: back, ..send.at }, receive: receive.at, put };
                let number = matching.messages.len() as u32;
                matching.messages.extend([as_sender, as_receiver]);
                sides.extend([(send.at.inst, number), (receive.at.inst, number + 1)]);
            }
        }
        sides.sort();
        matching.sides = vec![sides];
        matching
    }

    /// The other side of a send or receive, if there is one.
    pub fn message_partner(&self, rank: u32, inst: InstId) -> Option<RankInst> {
        let sides = self.sides.get(rank as usize)?;
        let place = sides.binary_search_by_key(&inst, |(inst, _)| *inst).ok()?;
        self.other_side(RankInst { rank, inst }, sides[place].1)
    }

    /// Like [`Self::message_partner`], for a reader that queries the instructions of a rank in order; `near` is 0 at
    /// first.
    pub(crate) fn next_partner(&self, rank: u32, inst: InstId, near: &mut usize) -> Option<RankInst> {
        let sides = self.sides.get(rank as usize)?.get(*near..)?;
        *near += sides.iter().take_while(|(side, _)| *side < inst).count();
        let &(_, number) = self.sides[rank as usize].get(*near).filter(|(side, _)| *side == inst)?;
        self.other_side(RankInst { rank, inst }, number)
    }

    /// The side of a message that is not this one.
    fn other_side(&self, own: RankInst, number: u32) -> Option<RankInst> {
        let message = self.messages.get(number as usize)?;
        Some(if message.send == own { message.receive } else { message.send })
    }

    fn match_collectives(&mut self, plans: &'p [Plan]) {
        let places: BTreeMap<&PlanCommunicator, usize> =
            self.communicators.iter().map(|of_all| of_all.communicator).zip(0..).collect();
        for plan in plans {
            let mut slots: Vec<Option<MemberSlot>> = plan
                .communicators
                .iter()
                .map(|(_, communicator)| {
                    let position = communicator.team.iter().position(|&rank| rank == plan.rank)?;
                    Some(MemberSlot { place: *places.get(communicator)?, position, posted: 0 })
                })
                .collect();
            plan.visit_stored(
                |kind| kind.collective().is_some(),
                |id, inst| {
                    let QueueAction::Collective(comm, _) = inst.queue_action() else { return };
                    let Some(slot) = &mut slots[comm.index()] else { return };
                    let of_all = &mut self.communicators[slot.place];
                    if of_all.collectives.len() <= slot.posted {
                        of_all.collectives.push(vec![None; of_all.communicator.team.len()]);
                    }
                    of_all.collectives[slot.posted][slot.position] = Some(id);
                    slot.posted += 1;
                },
            );
        }
    }

    fn match_messages(&mut self, plans: &'p [Plan]) {
        let mut channels: BTreeMap<MessageChannel<'p>, ChannelSides> = BTreeMap::new();
        for plan in plans {
            add_message_sides(plan, &mut channels);
        }
        self.sides = vec![Vec::new(); plans.len()];
        self.messages.reserve(channels.values().map(|channel| channel.sends.len().min(channel.receives.len())).sum());
        for channel in channels.into_values() {
            for (send, receive) in channel.sends.into_iter().zip(channel.receives) {
                let number = self.messages.len() as u32;
                let put = send.put && receive.put;
                self.messages.push(MatchedMessage { send: send.at, receive: receive.at, put });
                for at in [send.at, receive.at] {
                    if let Some(sides) = self.sides.get_mut(at.rank as usize) {
                        sides.push((at.inst, number));
                    }
                }
            }
        }
        // A stable sort merges the channels, each of which is in order.
        self.sides.iter_mut().for_each(|sides| sides.sort());
    }
}

/// All communicators, in the order of team and backend, with their members' slots.
fn communicators(plans: &[Plan]) -> Vec<MatchedCommunicator<'_>> {
    let mut table: BTreeMap<&PlanCommunicator, Vec<Option<CommSlot>>> = BTreeMap::new();
    for plan in plans {
        for (slot, communicator) in plan.communicators.iter() {
            let team = &communicator.team;
            let slots = table.entry(communicator).or_insert_with(|| vec![None; team.len()]);
            if let Some(position) = team.iter().position(|&rank| rank == plan.rank) {
                slots[position] = Some(slot);
            }
        }
    }
    let joined = table.into_iter();
    joined.map(|(communicator, slots)| MatchedCommunicator { communicator, slots, collectives: Vec::new() }).collect()
}

/// Adds a rank's sends and receives to their channels.
#[allow(clippy::iter_over_hash_type, reason = "the sides of each channel are sorted")]
fn add_message_sides<'p>(plan: &'p Plan, channels: &mut BTreeMap<MessageChannel<'p>, ChannelSides>) {
    let mut own: FxHashMap<ChannelEnd, Vec<MessageSide>> = FxHashMap::default();
    let mut grouped = false;
    let is_wanted = |kind: &InstKind| kind.is_group_bound() || kind.message().is_some();
    plan.visit_stored(is_wanted, |inst, stored| match stored.queue_action() {
        QueueAction::GroupBegin => grouped = true,
        QueueAction::GroupEnd(..) => grouped = false,
        QueueAction::Message(MessageHeader { direction, comm, protocol, peer, .. }) => {
            let at = RankInst { rank: plan.rank, inst };
            let put = protocol == MessageProtocol::Put || (grouped && comm.is_some());
            own.entry(ChannelEnd { comm, peer, direction }).or_default().push(MessageSide { at, put });
        }
        _ => {}
    });
    for (ChannelEnd { comm, peer, direction }, mut sides) in own {
        let communicator = comm.map(|slot| &plan.communicators[slot]);
        let (from, to) = if direction.is_send() { (plan.rank, peer) } else { (peer, plan.rank) };
        let channel = channels.entry(MessageChannel { communicator, from, to }).or_default();
        let target = if direction.is_send() { &mut channel.sends } else { &mut channel.receives };
        target.append(&mut sides);
        // Two slots may be of one communicator.
        target.sort_by_key(|side| side.at.inst);
    }
}

#[cfg(test)]
mod tests;
