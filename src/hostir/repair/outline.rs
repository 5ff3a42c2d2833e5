//! The statements of a program in its text: places, blocks, and the streams that may be current there.

use crate::diag::{Span, TextEdit};
use crate::ir::{
    AttrKey, BlockId, Op, OpEffect, OpId, OpKind, Program, StreamEffect, TensorId, Value, depends_on_scalar, expr_text,
};
use rustc_hash::FxHashMap;
use std::ops::{Range, RangeInclusive};

/// A stream that a statement runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StreamName {
    /// The stream that the caller has given.
    Caller,
    /// `Stream ( i % 2 )`.
    Text(String),
}

/// A statement of the program.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) op: OpId,
    /// Its bytes; for a loop or a branch those of its first line.
    pub(super) span: Range<usize>,
    /// The block that it stands in.
    pub(super) block: BlockId,
    /// The statement whose block that is.
    pub(super) parent: Option<usize>,
    /// The number of the first statement after it and its contents.
    pub(super) next: usize,
    /// The streams that may be current before it.
    pub(super) streams: Vec<StreamName>,
}

/// The place of an inserted statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In front of a statement.
    Before(usize),
    /// After a statement, and what it holds.
    After(usize),
}

/// The statements of a program, in the order of its text.
pub(super) struct Outline<'a> {
    pub(super) text: &'a str,
    pub(super) program: &'a Program,
    pub(super) statements: Vec<Statement>,
    /// The streams that may be current at the end.
    pub(super) last_streams: Vec<StreamName>,
    /// The program's name for the caller's stream, and its place.
    pub(super) caller: Option<CallerName>,
    /// The owners of the memory of tensors that are parts of others, or share their memory.
    owners: FxHashMap<TensorId, TensorId>,
}

/// The name of the caller's stream.
#[derive(Clone, Debug)]
pub(super) struct CallerName {
    /// `Stream 0`.
    pub(super) stream: String,
    /// The GetCurrentStream.
    pub(super) statement: usize,
}

impl<'a> Outline<'a> {
    /// The outline of a program; `None` if it is empty.
    pub(super) fn new(text: &'a str, program: &'a Program) -> Option<Self> {
        let mut outline = Self {
            text,
            program,
            statements: Vec::new(),
            last_streams: Vec::new(),
            caller: None,
            owners: FxHashMap::default(),
        };
        outline.add_block(program.body(), None);
        outline.find_owners();
        if outline.statements.is_empty() {
            return None;
        }
        outline.last_streams = outline.follow_block(0, outline.statements.len(), vec![StreamName::Caller]);
        Some(outline)
    }

    fn add_block(&mut self, block: BlockId, parent: Option<usize>) {
        let program = self.program;
        for &id in &program.block(block).ops {
            let op = program.op(id);
            let whole = program.op_span(id).as_usize_range();
            let line = self.text.get(whole.start..self.line_end(whole.start)).unwrap_or_default();
            let head = line.split("//").next().unwrap_or_default().trim_end().len();
            let span = if op.blocks.is_empty() { whole } else { whole.start..whole.start + head };
            let number = self.statements.len();
            self.statements.push(Statement { op: id, span, block, parent, next: number + 1, streams: Vec::new() });
            for &inner in &op.blocks {
                self.add_block(inner, Some(number));
            }
            self.statements[number].next = self.statements.len();
        }
    }

    fn find_owners(&mut self) {
        for at in 0..self.statements.len() {
            let op = self.op(at);
            let shared = match op.kind.effect() {
                OpEffect::Alias => op.input_tensors().next(),
                _ => op.shared_memory(),
            };
            let Some(owner) = shared.map(|original| self.owner(original)) else { continue };
            self.owners.extend(op.output_tensors().map(|part| (part, owner)));
        }
    }

    /// The tensor that owns the memory of a tensor.
    pub(super) fn owner(&self, tensor: TensorId) -> TensorId {
        let tensor = self.program.memory_tensor(tensor);
        self.owners.get(&tensor).copied().unwrap_or(tensor)
    }

    /// Returns true if the index of a part depends on that of a loop.
    pub(super) fn depends_on_step(&self, select: usize, step: &str) -> bool {
        let step = self.program.names().find_symbol(step);
        let index = self.op(select).expr_attr(AttrKey::Index);
        index.zip(step).is_some_and(|(index, step)| depends_on_scalar(self.program, index, step))
    }

    /// Returns true if two statements take parts of one memory.
    pub(super) fn is_same_memory(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|at| self.op(at).input_tensors().next().map(|whole| self.owner(whole)));
        one.is_some() && one == other
    }

    /// The owners of the memory that two statements access.
    pub(super) fn accessed_owners(&self, first: usize, second: usize) -> Vec<TensorId> {
        let accessed = [first, second].into_iter().flat_map(|at| self.op(at).all_tensors());
        accessed.map(|tensor| self.owner(tensor)).collect()
    }

    /// Follows the current stream through the statements from one up to another, and returns those at their end.
    fn follow_block(&mut self, first: usize, end: usize, mut streams: Vec<StreamName>) -> Vec<StreamName> {
        let mut at = first;
        while at < end {
            let next = self.statements[at].next;
            merge_streams(&mut self.statements[at].streams, &streams);
            let op = self.op(at);
            match op.kind.effect() {
                OpEffect::Stream(StreamEffect::Choose) => streams = vec![self.named_stream(op)],
                OpEffect::Stream(StreamEffect::Name) if streams == [StreamName::Caller] && self.caller.is_none() => {
                    let stream = stream_text(self.program, op);
                    self.caller = stream.map(|stream| CallerName { stream, statement: at });
                }
                _ if next > at + 1 => {
                    let ended = self.follow_block(at + 1, next, streams.clone());
                    let before = std::mem::take(&mut streams);
                    // A loop mostly runs, and leaves its own stream.
                    merge_streams(&mut streams, &ended);
                    merge_streams(&mut streams, &before);
                    if streams != before && self.is_loop(at) {
                        self.follow_block(at + 1, next, streams.clone());
                    }
                }
                _ => {}
            }
            at = next;
        }
        streams
    }

    /// The stream that a statement names.
    pub(super) fn named_stream(&self, op: &Op) -> StreamName {
        let text = stream_text(self.program, op).unwrap_or_default();
        match &self.caller {
            Some(caller) if caller.stream == text => StreamName::Caller,
            _ => StreamName::Text(text),
        }
    }

    pub(super) fn op(&self, statement: usize) -> &'a Op {
        self.program.op(self.statements[statement].op)
    }

    pub(super) fn kind(&self, statement: usize) -> OpKind {
        self.op(statement).kind
    }

    pub(super) fn is_loop(&self, statement: usize) -> bool {
        self.kind(statement).is_loop()
    }

    /// The name of a loop's index.
    pub(super) fn loop_index(&self, statement: usize) -> Option<String> {
        let index = self.op(statement).expr_attr(AttrKey::Index)?;
        Some(expr_text(self.program, index))
    }

    /// The statements at a diagnostic's place: the one there, or those that post the unit that contains it.
    pub(super) fn statements_at(&self, span: Span) -> Vec<usize> {
        let start = span.start as usize;
        let own = self.statements.iter().position(|statement| statement.span.start == start);
        own.map_or_else(|| self.posts_at(span), |statement| vec![statement])
    }

    fn posts_at(&self, span: Span) -> Vec<usize> {
        let mut unit = None;
        for (id, candidate) in self.program.units().iter() {
            self.program.walk(candidate.body, &mut |op| {
                if self.program.op_span(op).start == span.start {
                    unit = Some(id);
                }
            });
        }
        let Some(unit) = unit else { return Vec::new() };
        let numbers = 0..self.statements.len();
        numbers.filter(|&statement| self.program.posted_unit(self.op(statement)) == Some(unit)).collect()
    }

    /// The statement, or the branch that contains nothing else.
    pub(super) fn guarded(&self, statement: usize) -> usize {
        match self.statements[statement].parent {
            Some(outer) if self.kind(outer).is_branch() && self.statements[outer].next == outer + 2 => outer,
            _ => statement,
        }
    }

    /// Returns true if a statement does more than order others, or manage memory for them.
    pub(super) fn does_work(&self, statement: usize) -> bool {
        let kind = self.kind(statement);
        let holds = kind.is_allocation() || kind.is_deallocation();
        !(holds || kind.is_wait() || kind.is_stream_op() || kind.is_control())
    }

    /// The branches and loops around a statement that contain nothing else: the outermost of them, or the statement.
    pub(super) fn sole_holder(&self, statement: usize) -> usize {
        let mut holder = statement;
        while let Some(outer) = self.statements[holder].parent {
            if outer + 1 != holder || self.statements[outer].next != self.statements[holder].next {
                break;
            }
            holder = outer;
        }
        holder
    }

    /// The branches around a statement that contain only waits: the outermost of them, or the statement.
    pub(super) fn waiting_branch(&self, statement: usize) -> usize {
        self.ancestors(statement).take_while(|&outer| self.only_waits(outer)).last().unwrap_or(statement)
    }

    fn only_waits(&self, outer: usize) -> bool {
        let mut all = (outer..self.statements[outer].next).map(|at| self.kind(at));
        all.all(|kind| kind.is_branch() || kind.is_wait() || kind.is_synchronization())
    }

    /// The place itself, or the one before or after its group of messages: a group contains nothing else.
    pub(super) fn outside_groups(&self, place: Place) -> Place {
        let (Place::Before(statement) | Place::After(statement)) = place;
        let mut around = std::iter::once(statement).chain(self.ancestors(statement));
        let group = around.find_map(|at| {
            self.group_of(at).filter(|group| match place {
                Place::Before(_) => *group.start() < at,
                Place::After(_) => at < *group.end(),
            })
        });
        match (group, place) {
            (None, _) => place,
            (Some(group), Place::Before(_)) => Place::Before(*group.start()),
            (Some(group), Place::After(_)) => Place::After(*group.end()),
        }
    }

    /// The StartCoalescing and the EndCoalescing around a statement, which may be one of them.
    pub(super) fn group_of(&self, statement: usize) -> Option<RangeInclusive<usize>> {
        let before = self.statements_beside(statement).filter(|&at| at <= statement);
        let start = before.filter(|&at| self.kind(at).is_group_start()).last()?;
        let mut after = self.statements_beside(statement).filter(|&at| at > start);
        let end = after.find(|&at| self.kind(at).is_group_end())?;
        (statement <= end).then_some(start..=end)
    }

    /// The statements that contain this one, the innermost first.
    pub(super) fn ancestors(&self, statement: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.statements[statement].parent, |&outer| self.statements[outer].parent)
    }

    /// This statement and those that contain it, up to the one in a block that also contains `other`.
    pub(super) fn up_to_common(&self, statement: usize, other: usize) -> Vec<usize> {
        let around = self.ancestors(statement).take_while(|&outer| !self.holds_statement(outer, other));
        std::iter::once(statement).chain(around).collect()
    }

    /// Returns true if a statement is the other one, or contains it.
    fn holds_statement(&self, outer: usize, statement: usize) -> bool {
        outer <= statement && statement < self.statements[outer].next
    }

    /// The loops that contain both statements, the innermost first.
    pub(super) fn common_loops(&self, first: usize, second: usize) -> Vec<usize> {
        let loops = self.ancestors(second).filter(|&outer| self.is_loop(outer));
        loops.filter(|&outer| self.holds_statement(outer, first)).collect()
    }

    /// The statements of the block of one, itself among them.
    pub(super) fn statements_beside(&self, statement: usize) -> impl Iterator<Item = usize> + '_ {
        let block = self.statements[statement].block;
        (0..self.statements.len()).filter(move |&other| self.statements[other].block == block)
    }

    /// The last statement of a block.
    pub(super) fn last_in_block(&self, block: BlockId) -> Option<usize> {
        self.statements.iter().rposition(|statement| statement.block == block)
    }

    /// Returns true if a statement that the host may issue between two others reads the result of the first.
    pub(super) fn is_read_between(&self, first: usize, second: usize) -> bool {
        let between = match self.common_loops(first, second).last() {
            Some(&outer) if first >= second => outer + 1..self.statements[outer].next,
            _ => first + 1..second,
        };
        let written: Vec<TensorId> = self.op(first).output_tensors().collect();
        let mut read = between.flat_map(|statement| self.op(statement).input_tensors());
        read.any(|tensor| written.contains(&tensor))
    }

    /// The bytes of a statement.
    pub(super) fn statement_text(&self, statement: usize) -> &'a str {
        self.text.get(self.statements[statement].span.clone()).unwrap_or_default()
    }

    /// Its text on one line, without a semicolon.
    pub(super) fn short_text(&self, statement: usize) -> String {
        let words: Vec<&str> = self.statement_text(statement).split_whitespace().collect();
        words.join(" ").trim_end_matches(';').trim_end().to_owned()
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.text.get(at..).and_then(|rest| rest.find('\n')).map_or(self.text.len(), |end| at + end + 1)
    }

    /// The text before a statement on its line; `None` if that is not blank.
    pub(super) fn indentation(&self, statement: usize) -> Option<&'a str> {
        let start = self.statements[statement].span.start;
        let before = self.text.get(self.line_start(start)..start)?;
        before.trim().is_empty().then_some(before)
    }

    /// The lines of a statement, if no other statement shares them; comments may.
    fn own_lines(&self, statement: usize) -> Option<Range<usize>> {
        self.indentation(statement)?;
        let span = &self.statements[statement].span;
        let end = self.line_end(span.end);
        let rest = self.text.get(span.end..end)?.trim_start().trim_start_matches(';').trim_start();
        let is_alone = rest.is_empty() || rest.starts_with("//");
        is_alone.then(|| self.line_start(span.start)..end)
    }

    /// The byte at which lines are inserted.
    fn place_offset(&self, place: Place) -> Option<usize> {
        match place {
            Place::Before(statement) => {
                let mut start = self.own_lines(statement)?.start;
                // Comments belong to the statement below them.
                while let Some(above) = start.checked_sub(1).map(|end| self.line_start(end)) {
                    if !self.text[above..start].trim_start().starts_with("//") {
                        break;
                    }
                    start = above;
                }
                Some(start)
            }
            Place::After(statement) => {
                let last = self.statements[statement].next - 1;
                Some(self.own_lines(last)?.end)
            }
        }
    }

    /// The indentation of a place.
    pub(super) fn place_indentation(&self, place: Place) -> Option<&'a str> {
        let (Place::Before(statement) | Place::After(statement)) = place;
        self.indentation(statement)
    }

    /// The statements that hold a place.
    pub(super) fn place_ancestors(&self, place: Place) -> impl Iterator<Item = usize> + '_ {
        let (Place::Before(statement) | Place::After(statement)) = place;
        self.ancestors(statement)
    }

    /// Inserts whole lines, with the text's own line ends.
    pub(super) fn insertion(&self, place: Place, lines: String) -> Option<TextEdit> {
        let at = self.place_offset(place)?;
        // A text may end without a line break.
        let is_open = at == self.text.len() && !self.text.ends_with('\n');
        let lines = match self.text.contains("\r\n") {
            true => lines.replace("\r\n", "\n").replace('\n', "\r\n"),
            false => lines,
        };
        (!is_open).then(|| TextEdit { span: Span::new(at, at), text: lines })
    }

    /// Deletes a statement with its contents; a comment after one without contents stays.
    pub(super) fn deletion(&self, statement: usize) -> Option<TextEdit> {
        let lines = self.own_lines(statement)?;
        if self.statements[statement].next > statement + 1 {
            let span = Span::new(lines.start, self.place_offset(Place::After(statement))?);
            return Some(TextEdit { span, text: String::new() });
        }
        let span = &self.statements[statement].span;
        let rest = self.text.get(span.end..lines.end)?;
        let whole = if rest.contains("//") { span.start..span.end } else { lines };
        Some(TextEdit { span: Span::new(whole.start, whole.end), text: String::new() })
    }

    /// The lines of a statement and its contents, with the comments above it and after it.
    pub(super) fn whole_lines(&self, statement: usize) -> Option<Span> {
        let start = self.place_offset(Place::Before(statement))?;
        Some(Span::new(start, self.place_offset(Place::After(statement))?))
    }

    /// These lines for a place with another indentation.
    pub(super) fn moved_lines(&self, statement: usize, indentation: &str) -> Option<String> {
        let old = self.indentation(statement)?;
        let lines = self.text.get(self.whole_lines(statement)?.as_usize_range())?;
        let moved = lines.split_inclusive('\n').map(|line| match line.strip_prefix(old) {
            Some(rest) => format!("{indentation}{rest}"),
            None => line.to_owned(),
        });
        Some(moved.collect())
    }
}

fn merge_streams(into: &mut Vec<StreamName>, more: &[StreamName]) {
    for stream in more {
        if !into.contains(stream) {
            into.push(stream.clone());
        }
    }
}

/// `Stream 0` of a statement about a stream.
pub(super) fn stream_text(program: &Program, op: &Op) -> Option<String> {
    op.operands.iter().chain(&op.results).find_map(|value| match value {
        Value::Stream(expr) => Some(format!("Stream {}", expr_text(program, *expr))),
        _ => None,
    })
}
