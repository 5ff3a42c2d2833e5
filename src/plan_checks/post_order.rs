//! The order in which ranks post collectives on two communicators that share them.
//!
//! A library may carry out one communication of a rank at a time, whatever its communicator. Two ranks that post on two
//! common communicators in different orders can then wait for each other for ever, although each communicator by itself
//! is in order.

use crate::diag::{Diag, codes};
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use crate::plan::{CommSlot, InstId, InstKind, MatchedCommunicator, Plan, PlanMatching};
use rustc_hash::FxHashMap;

/// A collective of one of two communicators, as one rank posts it.
#[derive(Clone, Copy)]
struct PostedCollective {
    inst: InstId,
    /// True for the second communicator.
    is_second: bool,
}

/// The posts of one rank on two communicators.
struct RankPosts {
    rank: usize,
    posts: Vec<PostedCollective>,
}

/// The errors of ranks that post in different orders, on one communicator or on two; one for each of them and each pair.
pub(super) fn check_post_orders(prepared: &PreparedProgram, matching: &PlanMatching<'_>) -> Vec<Diag> {
    let communicators = &matching.communicators;
    let mut errors = Vec::new();
    errors.extend(communicators.iter().filter_map(|of_all| check_communicator(prepared, of_all)));
    for (place, first) in communicators.iter().enumerate() {
        for second in &communicators[place + 1..] {
            errors.extend(compare_pair(prepared, first, second));
        }
    }
    errors
}

/// Compares the posts of all members of one communicator: an op that two of them post equally often has to meet itself.
fn check_communicator(prepared: &PreparedProgram, of_all: &MatchedCommunicator<'_>) -> Option<Diag> {
    let members = of_all.communicator.team.len();
    (1..members).find_map(|other| {
        let sequences = [0, other].map(|position| op_sequence(prepared, of_all, position));
        compare_sequences(prepared, &sequences)
    })
}

/// The collectives of a member, by op and number.
struct OpSequence {
    rank: usize,
    posts: Vec<InstId>,
    /// By op: the places of its posts.
    places: FxHashMap<OpId, Vec<usize>>,
}

fn op_sequence(prepared: &PreparedProgram, of_all: &MatchedCommunicator<'_>, position: usize) -> OpSequence {
    let rank = of_all.communicator.team[position] as usize;
    let posts: Vec<InstId> = of_all.collectives.iter().map_while(|members| members[position]).collect();
    let mut places: FxHashMap<OpId, Vec<usize>> = FxHashMap::default();
    for (place, &inst) in posts.iter().enumerate() {
        places.entry(prepared.plans[rank].inst(inst).origin.op).or_default().push(place);
    }
    OpSequence { rank, posts, places }
}

/// The error of the first post that meets another op although both ranks post its own equally often.
fn compare_sequences(prepared: &PreparedProgram, [one, other]: &[OpSequence; 2]) -> Option<Diag> {
    let (place, &inst) = one.posts.iter().enumerate().find(|(place, inst)| {
        let op = prepared.plans[one.rank].inst(**inst).origin.op;
        let (here, there) = (one.places.get(&op), other.places.get(&op));
        match (here, there) {
            (Some(here), Some(there)) => {
                here.len() == there.len() && here.binary_search(place) != there.binary_search(place)
            }
            _ => false,
        }
    })?;
    let there = *other.posts.get(place)?;
    Some(describe_orders(prepared, "one communicator", (one.rank, inst), (other.rank, there)))
}

/// Compares the posts of all ranks that are members of both communicators.
fn compare_pair(
    prepared: &PreparedProgram,
    first: &MatchedCommunicator<'_>,
    second: &MatchedCommunicator<'_>,
) -> Option<Diag> {
    if first.collectives.is_empty() || second.collectives.is_empty() {
        return None;
    }
    let shared = first.communicator.team.iter().filter(|rank| second.communicator.team.contains(rank));
    let mut all = shared.map(|&rank| rank_posts(prepared, rank as usize, [first, second]));
    let model = all.next()?;
    all.find_map(|posts| compare_ranks(prepared, &model, &posts))
}

fn rank_posts(prepared: &PreparedProgram, rank: usize, pair: [&MatchedCommunicator<'_>; 2]) -> RankPosts {
    let slot_of = |of_all: &MatchedCommunicator<'_>| -> Option<CommSlot> {
        let position = of_all.communicator.team.iter().position(|&member| member as usize == rank)?;
        *of_all.slots.get(position)?
    };
    let slots = pair.map(slot_of);
    let plan = &prepared.plans[rank];
    let posts = plan.cursor().filter_map(|(inst, element)| {
        let InstKind::Collective(collective) = &element.kind else { return None };
        let place = slots.iter().position(|&slot| slot == Some(collective.comm))?;
        Some(PostedCollective { inst, is_second: place == 1 })
    });
    RankPosts { rank, posts: posts.collect() }
}

/// The error of two ranks whose orders differ.
fn compare_ranks(prepared: &PreparedProgram, one: &RankPosts, other: &RankPosts) -> Option<Diag> {
    let mut both = one.posts.iter().zip(&other.posts);
    let (here, there) = both.find(|(here, there)| here.is_second != there.is_second)?;
    Some(describe_orders(prepared, "two communicators", (one.rank, here.inst), (other.rank, there.inst)))
}

/// The error of two ranks that post different communications where they have to post the same.
pub(super) fn describe_orders(
    prepared: &PreparedProgram,
    place: &str,
    one: (usize, InstId),
    other: (usize, InstId),
) -> Diag {
    let labels = &prepared.labels;
    let sides = [one, other].map(|(rank, inst)| {
        let plan: &Plan = &prepared.plans[rank];
        let origin = plan.inst(inst).origin;
        (plan.rank, labels.op_span(origin.op), labels.origin_text(plan, origin))
    });
    let [(rank, span, text), (other_rank, other_span, other_text)] = sides;
    let message = format!(
        "ranks {rank} and {other_rank} post on {place} in different orders: rank {rank} posts {text} where rank {other_rank} posts {other_text}"
    );
    let diag = Diag::error(codes::POST_ORDER, span, message).with_primary_text(format!("rank {rank} posts this first"));
    let diag = match span == other_span {
        true => diag,
        false => diag.with_label(other_span, format!("rank {other_rank} posts this first")),
    };
    diag.with_note("post communications in the same order on all ranks that share their communicators")
}
