//! The work of streams: which statements each runs, and what a `sync` waits for, in the order of the text.
//!
//! Branches and loops count as they are written: this says what a reader of the text sees, the proof says what holds.

use hostir::ir::{BlockId, Expr, ExprId, OpEffect, OpId, Program, StreamEffect, Value};
use std::collections::HashMap;

/// A stream as a program names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NamedStream {
    /// The stream that the caller has chosen.
    Caller,
    /// The stream of a scalar.
    Numbered(ExprId),
}

/// The statements of each stream of a program.
#[derive(Clone, Debug)]
pub struct StreamWork {
    /// The names that `stream main = current` and blocks on streams give.
    names: HashMap<ExprId, NamedStream>,
    current: NamedStream,
    /// In the order of the text.
    statements: HashMap<NamedStream, Vec<OpId>>,
    /// Each wait for a stream, with the stream and the last statement on it.
    pub syncs: Vec<StreamSync>,
}

/// A wait for a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamSync {
    /// The op that waits.
    pub op: OpId,
    /// The stream that it waits for.
    pub stream: NamedStream,
    /// The last statement on that stream in front of it.
    pub last: Option<OpId>,
}

impl StreamWork {
    /// The work of a program's body.
    pub fn from_program(program: &Program) -> Self {
        let mut work =
            Self { names: HashMap::new(), current: NamedStream::Caller, statements: HashMap::new(), syncs: Vec::new() };
        work.add_block(program, program.body());
        work
    }

    /// The statements on a stream.
    pub fn statements_on(&self, stream: NamedStream) -> &[OpId] {
        self.statements.get(&stream).map_or(&[], Vec::as_slice)
    }

    /// The stream that a name of the text means at the end of the program.
    pub fn find_stream(&self, program: &Program, name: &str) -> Option<NamedStream> {
        let streams = &program.given_names().streams;
        let (address, _) = streams.iter().find(|(_, symbol)| program.name(**symbol) == name)?;
        let expr = program.exprs().find_expr(&Expr::Hex(*address))?;
        Some(self.stream_of(expr))
    }

    fn stream_of(&self, expr: ExprId) -> NamedStream {
        self.names.get(&expr).copied().unwrap_or(NamedStream::Numbered(expr))
    }

    fn add_block(&mut self, program: &Program, block: BlockId) {
        for &id in &program.block(block).ops {
            self.add_op(program, id);
            for &inner in &program.op(id).blocks {
                self.add_block(program, inner);
            }
        }
    }

    fn add_op(&mut self, program: &Program, id: OpId) {
        let op = program.op(id);
        match op.kind.effect() {
            OpEffect::Stream(effect) => {
                let stream = op.operands.iter().chain(&op.results).find_map(|value| match value {
                    Value::Stream(stream) => Some(*stream),
                    _ => None,
                });
                let Some(stream) = stream else { return };
                match effect {
                    StreamEffect::Name => self.names.extend([(stream, self.current)]),
                    StreamEffect::Choose => self.current = self.stream_of(stream),
                    StreamEffect::Synchronize => {
                        let stream = self.stream_of(stream);
                        let last = self.statements_on(stream).last().copied();
                        self.syncs.push(StreamSync { op: id, stream, last });
                    }
                }
            }
            OpEffect::Pure | OpEffect::Opaque => self.statements.entry(self.current).or_default().push(id),
            OpEffect::Alias
            | OpEffect::Allocate
            | OpEffect::Free
            | OpEffect::Communicate(_)
            | OpEffect::Control(_)
            | OpEffect::Observe => {}
        }
    }
}
