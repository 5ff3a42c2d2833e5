//! The communicators of a program: the ranks of each, and which of them send and receive in each collective.

use hostir::plan::{CommSlot, InstKind, Plan, Prepared};
use std::collections::BTreeMap;

/// A team and who of it sends and receives in each collective, in the order of the communicator.
#[derive(Clone, Default, Debug)]
pub struct Team {
    /// Absolute ranks in order.
    pub ranks: Vec<u32>,
    /// By collective and position in the team: whether it sends, whether it receives.
    pub sides: Vec<Vec<(bool, bool)>>,
}

/// All teams of a program with their backends, in a fixed order.
pub fn teams(prepared: &Prepared) -> Vec<(String, Team)> {
    let mut table: BTreeMap<(&[u32], &str), Team> = BTreeMap::new();
    for plan in &prepared.plans {
        for (slot, communicator) in plan.communicators.iter() {
            let key = (communicator.team.as_slice(), communicator.backend.as_str());
            let team = table.entry(key).or_default();
            team.ranks.clone_from(&communicator.team);
            let Some(place) = team.ranks.iter().position(|&rank| rank == plan.rank) else {
                continue;
            };
            let own = plan.iter().filter_map(|inst| match &inst.kind {
                InstKind::Collective(collective) if collective.comm == slot => Some(collective),
                _ => None,
            });
            for (number, collective) in own.enumerate() {
                if team.sides.len() <= number {
                    team.sides.push(vec![(false, false); team.ranks.len()]);
                }
                team.sides[number][place] =
                    (collective.input.is_some(), collective.output.is_some());
            }
        }
    }
    table.into_iter().map(|((_, backend), team)| (backend.to_owned(), team)).collect()
}

/// Where a plan's communicator stands in the table of [`teams`].
pub fn entry(teams: &[(String, Team)], plan: &Plan, slot: CommSlot) -> Option<usize> {
    let communicator = &plan.communicators[slot];
    teams.iter().position(|(backend, team)| {
        *backend == communicator.backend && team.ranks == communicator.team
    })
}
