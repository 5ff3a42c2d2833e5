//! A matcher for expressions with back-references, which no automaton knows. It tries one way after the other, so its
//! time is limited.

use super::Groups;
use super::byte_set::ByteSet;
use super::reach::holds_at;
use super::syntax::{Assertion, Node, Repetition};
use std::ops::Range;

/// The most steps that one search takes.
const STEP_LIMIT: usize = 5_000_000;

/// The most instructions of a program.
const SIZE_LIMIT: usize = 50_000;

/// A compiled expression.
#[derive(Debug, Clone)]
pub(super) struct Program {
    steps: Vec<Step>,
    groups: usize,
    /// The number of positions that repetitions remember.
    marks: usize,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Byte(ByteSet),
    Assertion(Assertion),
    /// Continues at the first place, and if that fails at the second one.
    Split(usize, usize),
    Jump(usize),
    /// Notes the position: the start of group `n` in slot `2 n`, its end in `2 n + 1`.
    Note(usize),
    /// Notes the position in a mark.
    Mark(usize),
    /// Fails if nothing was read since the mark.
    Progress(usize),
    BackReference(usize),
    Accept,
}

impl Program {
    /// Compiles an expression with `groups` groups.
    ///
    /// # Errors
    /// An expression that is too large.
    pub(super) fn compile(root: &Node, groups: usize) -> Result<Program, String> {
        let mut program = Program { steps: Vec::new(), groups, marks: 0 };
        program.push_node(root)?;
        program.steps.push(Step::Accept);
        Ok(program)
    }

    fn push_step(&mut self, step: Step) -> Result<usize, String> {
        if self.steps.len() >= SIZE_LIMIT {
            return Err("the regular expression is too large".to_owned());
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn push_node(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Byte(set) => self.push_step(Step::Byte(*set)).map(|_| ()),
            Node::Assertion(assertion) => self.push_step(Step::Assertion(*assertion)).map(|_| ()),
            Node::BackReference(group) => self.push_step(Step::BackReference(*group)).map(|_| ()),
            Node::Group(number, body) => {
                self.push_step(Step::Note(2 * number))?;
                self.push_node(body)?;
                self.push_step(Step::Note(2 * number + 1)).map(|_| ())
            }
            Node::Sequence(parts) => parts.iter().try_for_each(|part| self.push_node(part)),
            Node::Alternation(branches) => self.push_branches(branches),
            Node::Repeat(body, times) => self.push_repeat(body, *times),
        }
    }

    fn push_branches(&mut self, branches: &[Node]) -> Result<(), String> {
        let mut jumps = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let is_last = index + 1 == branches.len();
            let split = if is_last { None } else { Some(self.push_step(Step::Jump(0))?) };
            self.push_node(branch)?;
            if let Some(split) = split {
                jumps.push(self.push_step(Step::Jump(0))?);
                self.steps[split] = Step::Split(split + 1, self.steps.len());
            }
        }
        for jump in jumps {
            self.steps[jump] = Step::Jump(self.steps.len());
        }
        Ok(())
    }

    fn push_repeat(&mut self, body: &Node, times: Repetition) -> Result<(), String> {
        for _ in 0..times.low {
            self.push_node(body)?;
        }
        let optional = times.high.map_or(1, |high| high - times.low);
        let mut splits = Vec::new();
        for _ in 0..optional {
            let split = self.push_step(Step::Jump(0))?;
            let mark = self.marks;
            self.marks += 1;
            self.push_step(Step::Mark(mark))?;
            self.push_node(body)?;
            self.push_step(Step::Progress(mark))?;
            if times.high.is_none() {
                self.push_step(Step::Jump(split))?;
            }
            splits.push(split);
        }
        for split in splits {
            self.steps[split] = Step::Split(split + 1, self.steps.len());
        }
        Ok(())
    }

    /// Matches `range` as a whole, and gives the texts of the groups.
    ///
    /// # Errors
    /// A search that takes more steps than are left.
    pub(super) fn match_range(
        &self,
        text: &[u8],
        range: Range<usize>,
        left: &mut StepsLeft,
    ) -> Result<Option<Groups>, String> {
        let slots = vec![None; 2 * (self.groups + 1)];
        let mut run = Run { program: self, text, end: range.end, slots, marks: vec![0; self.marks], undo: Vec::new() };
        if !run.run_from(range.start, left)? {
            return Ok(None);
        }
        let mut groups: Groups = run.slots.chunks(2).map(|slot| Some(slot[0]?..slot[1]?)).collect();
        groups[0] = Some(range);
        Ok(Some(groups))
    }
}

/// The steps that a search may still take.
#[derive(Debug)]
pub(super) struct StepsLeft(usize);

impl StepsLeft {
    /// Those of a new search.
    pub(super) fn new() -> Self {
        StepsLeft(STEP_LIMIT)
    }
}

struct Run<'a> {
    program: &'a Program,
    text: &'a [u8],
    end: usize,
    slots: Vec<Option<usize>>,
    marks: Vec<usize>,
    undo: Vec<Undo>,
}

/// A step to take back when a way fails, the last one first.
enum Undo {
    Continue { step: usize, at: usize },
    Slot { slot: usize, old: Option<usize> },
    Mark { mark: usize, old: usize },
}

impl Run<'_> {
    fn run_from(&mut self, start: usize, left: &mut StepsLeft) -> Result<bool, String> {
        let (mut step, mut at) = (0, start);
        loop {
            left.0 = left.0.checked_sub(1).ok_or(super::TOO_COMPLEX)?;
            match self.take_step(step, at) {
                Some((_, at)) if matches!(self.program.steps[step], Step::Accept) && at == self.end => return Ok(true),
                Some(next) => (step, at) = next,
                None => match self.other_way() {
                    Some(next) => (step, at) = next,
                    None => return Ok(false),
                },
            }
        }
    }

    /// The step and the position after the step, or none if it fails.
    fn take_step(&mut self, step: usize, at: usize) -> Option<(usize, usize)> {
        let next = step + 1;
        match self.program.steps[step] {
            Step::Byte(set) => (at < self.end && set.contains(self.text[at])).then_some((next, at + 1)),
            Step::Assertion(assertion) => holds_at(assertion, self.text, at).then_some((next, at)),
            Step::Split(first, second) => {
                self.undo.push(Undo::Continue { step: second, at });
                Some((first, at))
            }
            Step::Jump(to) => Some((to, at)),
            Step::Note(slot) => {
                let old = self.slots[slot].replace(at);
                self.undo.push(Undo::Slot { slot, old });
                Some((next, at))
            }
            Step::Mark(mark) => {
                let old = std::mem::replace(&mut self.marks[mark], at);
                self.undo.push(Undo::Mark { mark, old });
                Some((next, at))
            }
            Step::Progress(mark) => (self.marks[mark] < at).then_some((next, at)),
            Step::BackReference(group) => {
                let known = &self.text[self.slots[2 * group]?..self.slots[2 * group + 1]?];
                let end = at + known.len();
                (end <= self.end && &self.text[at..end] == known).then_some((next, end))
            }
            Step::Accept => (at == self.end).then_some((step, at)),
        }
    }

    fn other_way(&mut self) -> Option<(usize, usize)> {
        loop {
            match self.undo.pop()? {
                Undo::Continue { step, at } => return Some((step, at)),
                Undo::Slot { slot, old } => self.slots[slot] = old,
                Undo::Mark { mark, old } => self.marks[mark] = old,
            }
        }
    }
}
