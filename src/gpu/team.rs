//! The communicators of a program: the ranks of each, and their roles in each collective.

use hostir::ir::CommBackend;
use hostir::lower::PreparedProgram;
use hostir::plan::{CommSlot, MatchedCommunicator, MemberRole, Plan, PlanCommunicator, PlanMatching};

/// A team, its backend, and the roles of its members in each collective, in the order of the communicator.
#[derive(Clone, Debug)]
pub struct CommTeam {
    /// The library or mechanism that carries the team's communications.
    pub backend: CommBackend,
    /// Absolute ranks in order.
    pub ranks: Vec<u32>,
    /// The name that tells it from others of these ranks.
    pub name: Option<Box<str>>,
    /// By collective and position in the team.
    pub roles: Vec<Vec<MemberRole>>,
}

/// All teams of a program, in a fixed order.
pub fn collect_teams(prepared: &PreparedProgram) -> Vec<CommTeam> {
    let matching = PlanMatching::new(&prepared.plans);
    let communicators = matching.communicators.iter();
    communicators
        .map(|of_all| {
            let ranks = of_all.communicator.team.clone();
            let numbers = 0..of_all.collectives.len();
            let roles = numbers.map(|number| team_roles(of_all, number, &prepared.plans)).collect();
            let PlanCommunicator { backend, name, .. } = of_all.communicator;
            CommTeam { backend: *backend, ranks, name: name.clone(), roles }
        })
        .collect()
}

/// The roles of all members of a team in the collective of a number.
fn team_roles(of_all: &MatchedCommunicator<'_>, number: usize, plans: &[Plan]) -> Vec<MemberRole> {
    let mut roles = vec![MemberRole::default(); of_all.communicator.team.len()];
    for member in of_all.collective_members(number, plans) {
        roles[member.position] = MemberRole::of_side(&member.collective);
    }
    roles
}

/// Returns the position of a plan's communicator in the table of [`collect_teams`].
pub fn entry(teams: &[CommTeam], plan: &Plan, slot: CommSlot) -> Option<usize> {
    let communicator = &plan.communicators[slot];
    teams.iter().position(|team| {
        team.backend == communicator.backend && team.ranks == communicator.team && team.name == communicator.name
    })
}
