//! Matches runs of ops that one statement represents: loops on streams, blocks on a stream, groups, communications with
//! their waits.

use super::open_streams::OpenStreams;
use super::tables::WriteTables;
use crate::hir2::defaults::is_post;
use crate::ir::{
    AttrKey, BinaryOp, CommentPlace, ControlEffect, Expr, ExprId, IterDomain, Op, OpEffect, OpId, Program,
    StreamEffect, Value,
};

/// The form of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StatementForm {
    /// One op and the slices that it contains.
    Single,
    /// A post, and a Wait for it.
    WaitedPost,
    /// StartCoalescing to EndCoalescing, and perhaps a Wait: the place of EndCoalescing.
    Group { end: usize, waited: bool },
    /// Fork and loop: the place of the second loop.
    StreamLoop { body: usize },
    /// SetCurrentStream and back: the places of the two.
    StreamBlock { start: usize, back: usize },
}

/// Ops that one statement stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatementRun {
    /// Place of the first op, a hidden select if there is one.
    pub(super) first: usize,
    /// Place of the op that the statement writes.
    pub(super) main: usize,
    /// One past the last op.
    pub(super) end: usize,
    pub(super) form: StatementForm,
}

/// `GetCurrentStream into Stream 0`
pub(super) fn binds_stream_zero(program: &Program, op: &Op) -> bool {
    op.kind.is_stream_naming()
        && op.operands.is_empty()
        && matches!(op.results.as_slice(), [Value::Stream(stream)] if program.exprs().as_int(*stream) == Some(0))
}

/// `s % numberOfStreams` of a loop.
pub(super) fn loop_stream(program: &Program, op: &Op) -> Option<ExprId> {
    let exprs = program.exprs();
    let index = op.expr_attr(AttrKey::Index)?;
    let count = exprs.find_expr(&Expr::Name(program.names().find_symbol("numberOfStreams")?))?;
    exprs.find_expr(&Expr::Binary(BinaryOp::Mod, index, count))
}

/// The depth of nested `stream` blocks beyond which ops are written one by one.
const MOST_NESTED_STREAMS: usize = 16;

/// The stream that an op of this effect names.
fn named_stream(op: &Op, effect: StreamEffect) -> Option<ExprId> {
    match (op.operands.as_slice(), op.results.as_slice()) {
        ([Value::Stream(stream)], []) if op.kind.effect() == OpEffect::Stream(effect) => Some(*stream),
        _ => None,
    }
}

/// Finds the statements that runs of ops stand for.
#[derive(Clone, Copy)]
pub(super) struct StatementMatcher<'w> {
    tables: &'w WriteTables<'w>,
    /// The streams around the block.
    streams: &'w OpenStreams,
}

impl<'w> StatementMatcher<'w> {
    pub(super) fn new(tables: &'w WriteTables<'w>, streams: &'w OpenStreams) -> Self {
        Self { tables, streams }
    }

    /// The statement that begins at a place of a block.
    pub(super) fn next_statement(&self, ops: &[OpId], first: usize) -> StatementRun {
        let mut main = first;
        while main + 1 < ops.len() && self.tables.hidden[ops[main].0 as usize] {
            main += 1;
        }
        let run = |end, form| StatementRun { first, main, end, form };
        let op = self.tables.program.op(ops[main]);
        let streamed = match op.kind.effect() {
            OpEffect::Stream(StreamEffect::Name)
                if !self.streams.is_caller_bound && binds_stream_zero(self.tables.program, op) =>
            {
                let apart = self.are_joined(ops, main).then(|| self.match_streams(ops, main + 1));
                apart.flatten()
            }
            OpEffect::Control(ControlEffect::Loop) | OpEffect::Stream(StreamEffect::Choose)
                if self.streams.is_caller_bound =>
            {
                self.match_streams(ops, main)
            }
            _ => None,
        };
        if let Some((end, form)) = streamed {
            return run(end, form);
        }
        if op.kind.is_group_start()
            && let Some(end) = self.tables.group_end(ops, main)
        {
            let waited = self.is_waited(ops, end);
            return run(end + 1 + usize::from(waited), StatementForm::Group { end, waited });
        }
        if is_post(op) && self.is_waited(ops, main) {
            return run(main + 2, StatementForm::WaitedPost);
        }
        run(main + 1, StatementForm::Single)
    }

    /// Returns true if no comment is between an op and the next one.
    fn are_joined(&self, ops: &[OpId], at: usize) -> bool {
        let Some(&next) = ops.get(at + 1) else { return false };
        !self.tables.has_comments(CommentPlace::Trailing(ops[at]))
            && !self.tables.has_comments(CommentPlace::Above(next))
    }

    /// Returns true if the op after a communication is its only Wait.
    fn is_waited(&self, ops: &[OpId], post: usize) -> bool {
        let Some(&wait) = ops.get(post + 1) else { return false };
        let post_op = self.tables.program.op(ops[post]);
        let Some(number) = post_op.number() else { return false };
        let wait = self.tables.program.op(wait);
        let is_element = [post_op, wait].iter().any(|op| op.attr(AttrKey::Element).is_some());
        wait.kind.is_wait()
            && !is_element
            && wait.operands.as_slice() == [Value::Handle(number)]
            && self.tables.names.handle_name(number).is_none()
            && self.tables.occurring.handles.get(&number) == Some(&2)
            && self.are_joined(ops, post)
    }

    /// A loop on streams or a block on a stream that begins at a place.
    fn match_streams(&self, ops: &[OpId], at: usize) -> Option<(usize, StatementForm)> {
        let op = self.tables.program.op(*ops.get(at)?);
        match op.kind.effect() {
            OpEffect::Control(ControlEffect::Loop) => {
                self.is_stream_loop(ops, at).then_some((at + 2, StatementForm::StreamLoop { body: at + 1 }))
            }
            OpEffect::Stream(StreamEffect::Choose) => {
                let back = self.match_stream_block(ops, at)?;
                Some((back + 1, StatementForm::StreamBlock { start: at, back }))
            }
            _ => None,
        }
    }

    /// The place of the SetCurrentStream that goes back to the stream around.
    fn match_stream_block(&self, ops: &[OpId], start: usize) -> Option<usize> {
        let back = self.find_way_back(ops, start, self.stream_around()?, 0)?;
        (!self.tables.has_comments(CommentPlace::Trailing(ops[start]))).then_some(back)
    }

    /// Finds the place after `start`, which chooses a stream, that returns to the stream `around`; the ops between may
    /// contain nested blocks, down to the depth that text allows.
    ///
    /// The first return ends the block, unless the next op chooses the block's stream again: then that op is the end,
    /// and a block on the outer stream is nested inside.
    fn find_way_back(&self, ops: &[OpId], start: usize, around: ExprId, depth: usize) -> Option<usize> {
        let stream = self.chosen_stream(ops, start)?;
        if stream == around || depth > MOST_NESTED_STREAMS {
            return None;
        }
        let mut at = self.next_choice(ops, start)?;
        while self.chosen_stream(ops, at) != Some(around) {
            at = self.next_choice(ops, self.find_way_back(ops, at, stream, depth + 1)?)?;
        }
        match self.next_choice(ops, at) {
            Some(inner) if inner > at + 1 && self.is_left_again(ops, inner, [stream, around]) => Some(inner + 1),
            _ => (at > start + 1).then_some(at),
        }
    }

    /// Returns true if two consecutive ops choose these streams.
    fn is_left_again(&self, ops: &[OpId], at: usize, [first, second]: [ExprId; 2]) -> bool {
        self.chosen_stream(ops, at) == Some(first) && self.chosen_stream(ops, at + 1) == Some(second)
    }

    /// The stream that an op of a block chooses.
    fn chosen_stream(&self, ops: &[OpId], at: usize) -> Option<ExprId> {
        named_stream(self.tables.program.op(*ops.get(at)?), StreamEffect::Choose)
    }

    /// The next op after one that chooses a stream.
    fn next_choice(&self, ops: &[OpId], at: usize) -> Option<usize> {
        let mut after = ops.get(at + 1..)?.iter();
        let found = after.position(|&id| self.tables.program.op(id).kind.is_stream_choice())?;
        Some(at + 1 + found)
    }

    /// The stream that is current around a `stream` block.
    fn stream_around(&self) -> Option<ExprId> {
        self.streams.innermost_stream().or_else(|| self.tables.program.exprs().find_expr(&Expr::Int(0)))
    }

    /// Returns true if two loops are the form that the reader gives `for s in .. on streams:`.
    fn is_stream_loop(&self, ops: &[OpId], at: usize) -> bool {
        let program = self.tables.program;
        let (Some(&fork), Some(&body)) = (ops.get(at), ops.get(at + 1)) else { return false };
        if !self.are_joined(ops, at) || !self.are_loops_alike(fork, body) {
            return false;
        }
        let (Some(stream), Some(zero)) =
            (loop_stream(program, program.op(body)), program.exprs().find_expr(&Expr::Int(0)))
        else {
            return false;
        };
        let is = |id: OpId, effect, stream| {
            let bare =
                ![CommentPlace::Above(id), CommentPlace::Trailing(id)].iter().any(|at| self.tables.has_comments(*at));
            bare && named_stream(program.op(id), effect) == Some(stream)
        };
        let (Some(&forked), Some(&block)) = (program.op(fork).blocks.first(), program.op(body).blocks.first()) else {
            return false;
        };
        let (forking, working) = (&program.block(forked).ops, &program.block(block).ops);
        let [set, sync] = forking.as_slice() else { return false };
        let [first, work @ .., back, join] = working.as_slice() else { return false };
        !work.is_empty()
            && is(*set, StreamEffect::Choose, stream)
            && is(*sync, StreamEffect::Synchronize, zero)
            && !self.tables.has_comments(CommentPlace::EndOf(forked))
            && is(*first, StreamEffect::Choose, stream)
            && is(*back, StreamEffect::Choose, zero)
            && is(*join, StreamEffect::Synchronize, stream)
    }

    /// Whether two loops run over the same.
    fn are_loops_alike(&self, a: OpId, b: OpId) -> bool {
        let program = self.tables.program;
        let (first, second) = (program.op(a), program.op(b));
        let keys = [AttrKey::Index, AttrKey::Start, AttrKey::Stop, AttrKey::Step];
        if first.kind != second.kind || keys.iter().any(|key| first.attr(*key) != second.attr(*key)) {
            return false;
        }
        let [x, y] = [first, second].map(|op| {
            let domain = op.domain_attr(AttrKey::Domain)?;
            Some(IterDomain { number: None, ..*program.domain(domain) })
        });
        x == y && self.tables.occurring.loop_axes.get(&a) == self.tables.occurring.loop_axes.get(&b)
    }
}
