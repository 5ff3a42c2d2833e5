//! Finds posts of one communicator that match another statement than their own.
//!
//! The members' posts match by their number. If two members post a statement with the same root and size, it has to be
//! the same collective each time; otherwise the pairs are not the intended ones. Posts with different roots or sizes
//! are different, so the root of each round may have a statement of its own.

use super::{RankPost, describe_orders};
use crate::diag::Diag;
use crate::ir::OpId;
use crate::lower::PreparedProgram;
use crate::plan::{InstId, MatchedCommunicator};
use rustc_hash::{FxHashMap, FxHashSet};

/// The collectives of a statement that can be one: those of one root and size.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct StatementKey {
    op: OpId,
    root: Option<usize>,
    /// Elements of the member's result, or of its operand if it has no result; 0 if there is a root, whose sizes differ
    /// from those of the others.
    elements: usize,
}

/// The error for the first post that matches another statement although both ranks post its own.
pub(super) fn check_communicator(prepared: &PreparedProgram, of_all: &MatchedCommunicator<'_>) -> Option<Diag> {
    let team = &of_all.communicator.team;
    let numbers = 0..of_all.collectives.len();
    let mixed: Vec<usize> = numbers.filter(|&at| is_mixed(prepared, team, &of_all.collectives[at])).collect();
    if mixed.is_empty() {
        return None;
    }
    let mut posters: FxHashMap<StatementKey, FxHashSet<usize>> = FxHashMap::default();
    for members in &of_all.collectives {
        for (position, key) in statement_keys(prepared, team, members) {
            posters.entry(key).or_default().insert(position);
        }
    }
    mixed.into_iter().find_map(|number| find_conflict(prepared, of_all, number, &posters))
}

/// Returns true if the members post a collective by different statements.
fn is_mixed(prepared: &PreparedProgram, team: &[u32], members: &[Option<InstId>]) -> bool {
    let mut ops = members.iter().zip(team).map(|(inst, &rank)| Some(posted_op(prepared, rank, (*inst)?)));
    let first = ops.next();
    ops.any(|op| Some(op) != first)
}

fn posted_op(prepared: &PreparedProgram, rank: u32, inst: InstId) -> OpId {
    prepared.plans[rank as usize].stored_inst(inst).template().origin.op
}

/// The keys of a collective's members, by their positions in the team.
fn statement_keys(prepared: &PreparedProgram, team: &[u32], members: &[Option<InstId>]) -> Vec<(usize, StatementKey)> {
    let posts = members.iter().zip(team).enumerate();
    let keys = posts.filter_map(|(position, (inst, &rank))| {
        let (inst, plan) = ((*inst)?, prepared.plans.get(rank as usize)?);
        let collective = plan.collective_of(inst)?;
        let view = collective.output.as_ref().or(collective.input.as_ref());
        let elements = if collective.root.is_some() { 0 } else { view.map_or(0, |view| view.len()) };
        Some((position, StatementKey { op: posted_op(prepared, rank, inst), root: collective.root, elements }))
    });
    keys.collect()
}

/// The error for a collective that is one statement on a member and another on a second member, which posts the first
/// statement elsewhere.
fn find_conflict(
    prepared: &PreparedProgram,
    of_all: &MatchedCommunicator<'_>,
    number: usize,
    posters: &FxHashMap<StatementKey, FxHashSet<usize>>,
) -> Option<Diag> {
    let team = &of_all.communicator.team;
    let keys = statement_keys(prepared, team, &of_all.collectives[number]);
    let mut posted: FxHashMap<StatementKey, usize> = FxHashMap::default();
    keys.iter().for_each(|(_, key)| *posted.entry(*key).or_default() += 1);
    let (position, key) = keys.iter().find(|(_, key)| posters[key].len() > posted[key])?;
    let (other, _) = keys.iter().find(|(place, other)| other != key && posters[key].contains(place))?;
    let sides = [*position.min(other), *position.max(other)].map(|position| {
        let inst = of_all.collectives[number][position]?;
        Some(RankPost { rank: team[position], inst })
    });
    let [Some(one), Some(two)] = sides else { return None };
    Some(describe_orders(prepared, "one communicator", one, two))
}
