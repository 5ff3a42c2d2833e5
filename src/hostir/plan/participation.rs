//! The ops that a rank runs, and the teams of its communications.
//!
//! A team may be computed, from indices of loops and the rank: it is evaluated each time that the host reaches the
//! communication, so each team that occurs has a communicator of its own. A rank outside of it takes no part in the
//! communication; the handle knows that, so that a Wait for it does nothing.

use super::PlanBuilder;
use super::issued_communications::HandlePost;
use crate::diag::{Diag, codes, message};
use crate::ir::{AttrKey, NeighbourTeam, Op, OpId, RunsOn, TEAM_CUT, TensorId, Value, quoted_head, quoted_team};
use rustc_hash::FxHashSet;

impl PlanBuilder<'_> {
    /// Returns true if this rank runs an op: it is in the team of a communication, or in a mesh of one of the
    /// op's tensors, or one of them has no mesh. A Wait runs where something of its handle may have been issued.
    pub fn is_run_by_rank(&self, id: OpId) -> bool {
        let Some(rank) = self.rank else { return true };
        let op = self.program.op(id);
        match op.kind.runs_on() {
            RunsOn::Handle => op.operands.iter().all(|operand| match operand {
                Value::Handle(number) => self.may_issue(*number),
                Value::Tensor(_) | Value::Scalar(_) | Value::Stream(_) | Value::Unit(_) | Value::Op(_) => true,
            }),
            // The lowering reports a team that has no value.
            RunsOn::Team => self.team_of(op).map_or(true, |team| team.unwrap_or_default().contains(&i64::from(rank))),
            RunsOn::Mesh => {
                let mut tensors = op.input_tensors().chain(op.output_tensors()).peekable();
                tensors.peek().is_none() || tensors.any(|tensor| self.is_in_mesh(tensor))
            }
        }
    }

    /// Returns true unless this rank takes no part in any statement of a handle, wherever it stands.
    fn may_issue(&self, number: u32) -> bool {
        let Some(posts) = self.communications.posts_of_handle(number) else { return true };
        posts
            .ops
            .iter()
            .any(|&post| self.program.computed_team(self.program.op(post)).is_some() || self.is_run_by_rank(post))
    }

    /// Returns true if the rank is in the tensor's mesh.
    pub fn is_in_mesh(&self, tensor: TensorId) -> bool {
        match (self.rank, self.program.tensor_mesh(tensor)) {
            (Some(rank), Some(mesh)) => mesh.contains(rank),
            _ => true,
        }
    }

    /// The team of a communication here, of which the rank need not be a member; `None` if the text does not give it.
    fn team_of(&self, op: &Op) -> Result<Option<Vec<i64>>, Diag> {
        match self.program.computed_team(op) {
            Some(members) => members.iter().map(|&member| self.eval_int(member)).collect::<Result<_, _>>().map(Some),
            None => Ok(self.program.team_of(op, self.rank.unwrap_or(0))),
        }
    }

    /// The team of a communication here: ranks of the run, each once.
    ///
    /// # Errors
    /// If the team is not known, or has other members.
    pub(crate) fn checked_team(&self, op: &Op) -> Result<Vec<u32>, Diag> {
        let Some(ints) = self.team_of(op)? else {
            return Err(self.error_here(codes::TEAM, "the team of the communication is unknown"));
        };
        let (mut team, mut known): (Vec<u32>, FxHashSet<u32>) = Default::default();
        for &device in &ints {
            if device == TEAM_CUT && self.program.computed_team(op).is_none() {
                return Err(self
                    .error_here(codes::TEAM, "nvFuser prints only the first 100 devices of a team")
                    .with_note("write all devices of the team"));
            }
            let rank = u32::try_from(device).ok().filter(|&device| device < self.env.ranks);
            let Some(device) = rank else {
                let message = format!("device {device} of the team is not one of the {} ranks", self.env.ranks);
                return Err(self.team_error(op, &ints, message));
            };
            if !known.insert(device) {
                return Err(self.team_error(op, &ints, format!("device {device} occurs twice in the team")));
            }
            team.push(device);
        }
        Ok(team)
    }

    /// An error about a team, with its value if it is computed.
    fn team_error(&self, op: &Op, team: &[i64], message: String) -> Diag {
        let diag = self.error_here(codes::TEAM, message);
        if self.program.computed_team(op).is_none() {
            return diag;
        }
        let team = quoted_team(team);
        let neighbours = NeighbourTeam::of_op(self.program, op).filter(|team| team.divides(self.env.ranks));
        match neighbours.filter(|_| self.program.is_hir2()) {
            Some(neighbours) => diag.with_note(message!(
                "the team is {} here, and another one on each rank: all members of a team compute the same one, as in `{}`",
                team,
                neighbours.group_text()
            )),
            None => diag
                .with_note(message!("the team is {} here; leave the communication out with `{}`", team, quoted_head("IF"))),
        }
    }

    /// The element of an array of handles that a statement names; `None` if it names none.
    ///
    /// # Errors
    /// If it has no value.
    pub(crate) fn handle_element(&self, op: &Op) -> Result<Option<i64>, Diag> {
        op.expr_attr(AttrKey::Element).map(|element| self.eval_int(element)).transpose()
    }

    /// Passes over an op that this rank does not run.
    ///
    /// # Errors
    /// If a computed team or the element of a handle has no value that is possible.
    pub(crate) fn skip_op(&mut self, id: OpId) -> Result<(), Diag> {
        let op = self.program.op(id);
        let Some(number) = op.number().filter(|_| op.kind.is_post()) else { return Ok(()) };
        let is_computed = self.program.computed_team(op).is_some();
        if is_computed {
            self.checked_team(op)?;
        }
        let element = self.handle_element(op)?;
        if is_computed || element.is_some() {
            // A second one is an error of the ranks that take part in it.
            let post = HandlePost { op: id, work: None, messages: Vec::new() };
            self.communications.pass_post(number, element, post);
        }
        Ok(())
    }
}
