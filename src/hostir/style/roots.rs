//! The meaning of roots in a text without `root_as=`.

use crate::ir::{AttrKey, BlockId, OpKind, Program, RootAs};

impl Program {
    /// Returns the meaning of a root number in a text without `root_as=`. The form of waits and stream statements
    /// decides: with `Wait(..)`, the spelling of 2026, roots are positions; with `Wait ..`, the older one, they are
    /// ranks. A program without such statements has positions if it has a short ALLOCATE.
    pub fn spelled_root(&self) -> RootAs {
        let call_form = match self.spelling_op(self.body()) {
            Some(kind) if kind.is_allocation() => true,
            Some(_) => self.style().call_form,
            None => false,
        };
        if call_form { RootAs::Position } else { RootAs::Rank }
    }

    /// The op of a block that determines the spelling: the first Wait or stream op, else a short ALLOCATE.
    fn spelling_op(&self, block: BlockId) -> Option<OpKind> {
        let mut short = None;
        for &id in &self.block(block).ops {
            let op = self.op(id);
            if op.kind.is_wait() || op.kind.is_stream_op() {
                return Some(op.kind);
            }
            if op.kind.is_allocation() && op.attr(AttrKey::Buffer).is_none() {
                short = Some(op.kind);
            }
            for &inner in &op.blocks {
                match self.spelling_op(inner) {
                    Some(found) if found.is_allocation() => short = Some(found),
                    Some(found) => return Some(found),
                    None => {}
                }
            }
        }
        short
    }
}
