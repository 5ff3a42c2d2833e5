//! The order in which two ranks post messages to each other and communications on another communicator that they share.
//!
//! As with collectives (`post_order`), a library may carry out one communication of a rank at a time: a rank whose send
//! comes first then waits for a receive that the peer posts behind a communication which waits for the first rank.

use super::post_order::describe_orders;
use crate::diag::Diag;
use crate::lower::PreparedProgram;
use crate::plan::{CommSlot, InstId, InstKind, MatchedMessage, Plan, PlanMatching, RankInst};
use rustc_hash::{FxHashMap, FxHashSet};

/// The errors of messages that two ranks post in different orders beside communications on other communicators; one for
/// each pair of communicators.
pub(super) fn check_message_orders(prepared: &PreparedProgram, matching: &PlanMatching<'_>) -> Vec<Diag> {
    let used = matching.communicators.len() > 1;
    let posts = if used { PostTable::new(&prepared.plans, matching) } else { PostTable::default() };
    let mut channels: Vec<(&PairChannel, &Vec<[InstId; 2]>)> = posts.messages.iter().collect();
    channels.sort_unstable();
    let mut reported: FxHashSet<[usize; 2]> = FxHashSet::default();
    let mut errors = Vec::new();
    for (channel, messages) in channels {
        for place in posts.shared_places(channel) {
            let pair = [place.min(channel.place), place.max(channel.place)];
            if reported.contains(&pair) {
                continue;
            }
            if let Some(sides) = posts.find_conflict(channel, messages, place) {
                reported.insert(pair);
                let [one, other] = [0, 1].map(|side| (channel.ranks[side] as usize, sides[side]));
                errors.push(describe_orders(prepared, "two communicators", one, other));
            }
        }
    }
    errors
}

/// Two ranks, in order, that send each other messages on a communicator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PairChannel {
    /// The communicator's place in the matching.
    place: usize,
    ranks: [u32; 2],
}

/// A rank as a member of a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Membership {
    place: usize,
    rank: u32,
}

/// The communications of all ranks, by communicator.
#[derive(Default)]
struct PostTable {
    /// The posts of each message on the two ranks, in the order of their channels.
    messages: FxHashMap<PairChannel, Vec<[InstId; 2]>>,
    /// The posts of the members' collectives, in order.
    collectives: FxHashMap<Membership, Vec<InstId>>,
    /// By rank: the communicators that it is a member of.
    places: Vec<Vec<usize>>,
}

impl PostTable {
    fn new(plans: &[Plan], matching: &PlanMatching<'_>) -> Self {
        let mut table = Self { places: vec![Vec::new(); plans.len()], ..Self::default() };
        let mut slots: FxHashMap<(u32, CommSlot), usize> = FxHashMap::default();
        for (place, of_all) in matching.communicators.iter().enumerate() {
            for (position, &rank) in of_all.communicator.team.iter().enumerate() {
                let posts = of_all.collectives.iter().map_while(|members| members[position]).collect();
                table.collectives.insert(Membership { place, rank }, posts);
                if let Some(places) = table.places.get_mut(rank as usize) {
                    places.push(place);
                }
                if let Some(slot) = of_all.slots[position] {
                    slots.insert((rank, slot), place);
                }
            }
        }
        for message in &matching.messages {
            let MatchedMessage { send, receive, .. } = *message;
            let Some(slot) = message_slot(plans, send) else { continue };
            let Some(&place) = slots.get(&(send.rank, slot)) else { continue };
            let (one, other) = if send.rank <= receive.rank { (send, receive) } else { (receive, send) };
            let channel = PairChannel { place, ranks: [one.rank, other.rank] };
            table.messages.entry(channel).or_default().push([one.inst, other.inst]);
        }
        table
    }

    /// The other communicators that have both ranks of a channel as members.
    fn shared_places(&self, channel: &PairChannel) -> impl Iterator<Item = usize> {
        let places = self.places.get(channel.ranks[0] as usize).into_iter().flatten().copied();
        let (own, other) = (channel.place, channel.ranks[1]);
        places.filter(move |&place| place != own && self.collectives.contains_key(&Membership { place, rank: other }))
    }

    /// The posts of the two ranks of the first message with which they differ in how many communications of the other
    /// communicator come before it.
    fn find_conflict(&self, channel: &PairChannel, messages: &[[InstId; 2]], place: usize) -> Option<[InstId; 2]> {
        let others = [0, 1].map(|side| self.pair_posts(PairChannel { place, ..*channel }, side));
        messages.iter().find_map(|message| {
            let before = [0, 1].map(|side| others[side].partition_point(|&post| post < message[side]));
            match before {
                [one, other] if one < other => Some([message[0], *others[1].get(one)?]),
                [one, other] if one > other => Some([*others[0].get(other)?, message[1]]),
                _ => None,
            }
        })
    }

    /// One rank's collectives on a communicator, and its messages there to the other rank, in order.
    fn pair_posts(&self, channel: PairChannel, side: usize) -> Vec<InstId> {
        let member = Membership { place: channel.place, rank: channel.ranks[side] };
        let mut posts = self.collectives.get(&member).cloned().unwrap_or_default();
        posts.extend(self.messages.get(&channel).into_iter().flatten().map(|message| message[side]));
        posts.sort_unstable();
        posts
    }
}

/// The communicator of a send; `None` for a message on streams.
fn message_slot(plans: &[Plan], send: RankInst) -> Option<CommSlot> {
    match plans.get(send.rank as usize)?.stored_inst(send.inst).first_round().kind {
        InstKind::Send { comm, .. } => comm,
        _ => None,
    }
}
