//! Finds posts of one communicator that match another communication than their own.
//!
//! The members' posts match by their number. If two members post a statement with the same root and size, it has to be
//! the same collective each time; otherwise the pairs are not the intended ones. Posts with different roots or sizes
//! are different, so the root of each round may have a statement of its own.
//!
//! Branches may have a statement each for one communication. Two members that both post the collectives of two pairs of
//! tensors, and match the first pair of one with the second pair of the other, combine different tensors.

use super::{RankPost, describe_orders};
use crate::diag::Diag;
use crate::ir::{OpId, TensorId};
use crate::lower::PreparedProgram;
use crate::plan::{BufferView, CollectiveKind, InstId, MatchedCommunicator, Plan};
use rustc_hash::{FxHashMap, FxHashSet};

/// Decides which posts are the same communication.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// Posts of one statement.
    Statement,
    /// Posts of one kind for the same tensors, by whatever statements.
    Tensors,
}

/// The identity of a post.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum PostIdentity {
    Statement(OpId),
    Tensors { kind: CollectiveKind, input: Option<TensorId>, output: Option<TensorId> },
}

/// The posts that can be one collective: those of one identity, root and size.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PostKey {
    identity: PostIdentity,
    root: Option<usize>,
    /// Elements of the member's result, or of its operand if it has no result; 0 if there is a root, whose sizes differ
    /// from those of the others.
    elements: usize,
}

/// The error for the first post that matches another communication although both ranks post its own.
pub(super) fn check_communicator(prepared: &PreparedProgram, of_all: &MatchedCommunicator<'_>) -> Option<Diag> {
    let team = &of_all.communicator.team;
    let numbers = 0..of_all.collectives.len();
    let mixed: Vec<usize> = numbers.filter(|&at| is_mixed(prepared, team, &of_all.collectives[at])).collect();
    if mixed.is_empty() {
        return None;
    }
    [Identity::Statement, Identity::Tensors].into_iter().find_map(|identity| {
        let search = ConflictSearch::new(prepared, of_all, identity);
        mixed.iter().find_map(|&number| search.find_conflict(number))
    })
}

/// Returns true if the members post a collective by different statements.
fn is_mixed(prepared: &PreparedProgram, team: &[u32], members: &[Option<InstId>]) -> bool {
    let mut ops = members.iter().zip(team).map(|(inst, &rank)| Some(posted_op(prepared, rank, (*inst)?)));
    let first = ops.next();
    ops.any(|op| Some(op) != first)
}

fn posted_op(prepared: &PreparedProgram, rank: u32, inst: InstId) -> OpId {
    prepared.plans[rank as usize].stored_inst(inst).template_inst().origin.op
}

/// The search for a collective that is one communication on a member and another one on a second member.
struct ConflictSearch<'a> {
    prepared: &'a PreparedProgram,
    of_all: &'a MatchedCommunicator<'a>,
    identity: Identity,
    /// By key: the positions of the members that post it.
    posters: FxHashMap<PostKey, FxHashSet<usize>>,
}

impl<'a> ConflictSearch<'a> {
    fn new(prepared: &'a PreparedProgram, of_all: &'a MatchedCommunicator<'a>, identity: Identity) -> Self {
        let mut search = Self { prepared, of_all, identity, posters: FxHashMap::default() };
        for members in &of_all.collectives {
            for (position, key) in search.post_keys(members) {
                search.posters.entry(key).or_default().insert(position);
            }
        }
        search
    }

    /// The keys of a collective's members, by their positions in the team.
    fn post_keys(&self, members: &[Option<InstId>]) -> Vec<(usize, PostKey)> {
        let posts = members.iter().zip(&self.of_all.communicator.team).enumerate();
        posts.filter_map(|(position, (inst, &rank))| Some((position, self.post_key(rank, (*inst)?)?))).collect()
    }

    fn post_key(&self, rank: u32, inst: InstId) -> Option<PostKey> {
        let plan = self.prepared.plans.get(rank as usize)?;
        let collective = plan.collective_of(inst)?;
        let [input, output] = [&collective.input, &collective.output].map(|view| tensor_of(plan, view.as_ref()));
        let identity = match self.identity {
            Identity::Statement => PostIdentity::Statement(posted_op(self.prepared, rank, inst)),
            Identity::Tensors => PostIdentity::Tensors { kind: collective.kind, input, output },
        };
        let view = collective.output.as_ref().or(collective.input.as_ref());
        let elements = if collective.root.is_some() { 0 } else { view.map_or(0, |view| view.len()) };
        Some(PostKey { identity, root: collective.root, elements })
    }

    /// The error for a collective that a member posts as one communication and a second member as another one, although
    /// the second member posts the first communication elsewhere; by tensors, the first member the second one as well.
    fn find_conflict(&self, number: usize) -> Option<Diag> {
        let members = &self.of_all.collectives[number];
        let keys = self.post_keys(members);
        let mut posted: FxHashMap<PostKey, usize> = FxHashMap::default();
        keys.iter().for_each(|(_, key)| *posted.entry(*key).or_default() += 1);
        let mut pairs =
            keys.iter().filter(|(_, key)| self.posters[key].len() > posted[key]).filter_map(|(position, key)| {
                let (other, _) = keys.iter().find(|(place, other)| {
                    let crossed = self.identity == Identity::Statement || self.posters[other].contains(position);
                    other != key && self.posters[key].contains(place) && crossed
                })?;
                Some([*position.min(other), *position.max(other)])
            });
        let [Some(one), Some(two)] = pairs
            .next()?
            .map(|position| Some(RankPost { rank: self.of_all.communicator.team[position], inst: members[position]? }))
        else {
            return None;
        };
        Some(describe_orders(self.prepared, "one communicator", one, two))
    }
}

/// The tensor for which the memory of a view was made.
fn tensor_of(plan: &Plan, view: Option<&BufferView>) -> Option<TensorId> {
    view.map(|view| plan.buffers[view.buffer].tensor)
}
