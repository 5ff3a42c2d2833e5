//! Roots of communications: ranks, or positions in the team.
//!
//! nvFuser printed a root as a rank until 2025 and prints it as a position in the team since 2026. Here the
//! meaning belongs to the op: a root is a rank unless [`AttrKey::RootAs`] says `position`. What a text says by
//! its spelling, `resolve` writes into the ops; `print` writes `root_as=` where the text would be read as the
//! other one.

use super::names::Symbol;
use super::op::{AttrKey, AttrValue, Op};
use super::program::Program;

/// How a root is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RootAs {
    /// It is the number of a rank in the team.
    Rank,
    /// It is a position in the team, counted from 0.
    Position,
}

impl RootAs {
    /// Its words.
    pub const WORDS: &[&str] = &["rank", "position"];
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            RootAs::Rank => "rank",
            RootAs::Position => "position",
        }
    }
}

impl Program {
    /// How the root of a communication is counted.
    pub fn root_as(&self, op: &Op) -> RootAs {
        match op.word_attr(AttrKey::RootAs) {
            Some(word) if self.name(word) == RootAs::Position.word() => RootAs::Position,
            _ => RootAs::Rank,
        }
    }

    /// Whether a root means the same however it is counted.
    pub fn root_is_plain(&self, op: &Op) -> bool {
        let (Some(root), Some(team)) = (op.expr_attr(AttrKey::Root), op.ints_attr(AttrKey::Team)) else {
            return true;
        };
        if is_identity(team) {
            return true;
        }
        let root = self.exprs().as_int(root);
        root.and_then(|root| Some(*team.get(usize::try_from(root).ok()?)? == root)) == Some(true)
    }
}

/// Whether every member of a team is at its own position. A team that nvFuser cut off is none, for nobody knows
/// its other members.
pub fn is_identity(team: &[i64]) -> bool {
    team.iter().zip(0..).all(|(&device, position)| device == position)
}

/// Says that an op's root is a position, given the word for it, or a rank.
pub(crate) fn set_root_as(op: &mut Op, position: Option<Symbol>) {
    op.attrs.retain(|(key, _)| *key != AttrKey::RootAs);
    if let Some(word) = position {
        let behind = op.attrs.iter().position(|(key, _)| *key == AttrKey::Root);
        let attr = (AttrKey::RootAs, AttrValue::Word(word));
        op.attrs.insert(behind.map_or(op.attrs.len(), |at| at + 1), attr);
    }
}
