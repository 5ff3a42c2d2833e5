//! Roots of communications: ranks, or positions in the team.
//!
//! nvFuser printed a root as a rank until 2025 and has printed it as a position in the team since 2026. In the IR
//! the meaning belongs to the op: a root is a rank unless [`AttrKey::RootAs`] says `position`. `resolve` derives it
//! from the spelling of the text and stores it in the ops; `print` writes `root_as=` wherever a reader would
//! otherwise derive the other meaning.

use super::names::Symbol;
use super::op::{AttrKey, AttrValue, Op};
use super::program::Program;

/// The meaning of a root number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RootAs {
    /// The number of a rank in the team.
    Rank,
    /// A position in the team, from 0.
    Position,
}

impl RootAs {
    /// The words of `root_as=`.
    pub const WORDS: &[&str] = &["rank", "position"];
    /// The word of `root_as=`.
    pub fn word(self) -> &'static str {
        match self {
            RootAs::Rank => "rank",
            RootAs::Position => "position",
        }
    }
}

impl Program {
    /// Returns the meaning of a communication's root number.
    pub fn root_as(&self, op: &Op) -> RootAs {
        match op.word_attr(AttrKey::RootAs) {
            Some(word) if self.name(word) == RootAs::Position.word() => RootAs::Position,
            _ => RootAs::Rank,
        }
    }

    /// Returns true if a root number means the same rank under both meanings.
    pub fn root_is_plain(&self, op: &Op) -> bool {
        let (Some(root), Some(team)) = (op.expr_attr(AttrKey::Root), op.ints_attr(AttrKey::Team)) else {
            return self.computed_team(op).is_none();
        };
        if is_identity(team) {
            return true;
        }
        let root = self.exprs().as_int(root);
        root.and_then(|root| Some(*team.get(usize::try_from(root).ok()?)? == root)) == Some(true)
    }
}

/// Returns true if every member of a team is at its own position. A truncated team is not, since its other members are
/// not known.
pub fn is_identity(team: &[i64]) -> bool {
    team.iter().zip(0..).all(|(&device, position)| device == position)
}

/// Marks an op's root as a position, given the interned word, or as a rank.
pub(crate) fn set_root_as(op: &mut Op, position: Option<Symbol>) {
    op.attrs.retain(|(key, _)| *key != AttrKey::RootAs);
    if let Some(word) = position {
        let after = op.attrs.iter().position(|(key, _)| *key == AttrKey::Root);
        let attr = (AttrKey::RootAs, AttrValue::Word(word));
        op.attrs.insert(after.map_or(op.attrs.len(), |at| at + 1), attr);
    }
}
