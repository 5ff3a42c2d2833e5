//! Candidates for a Wait without a start: it comes in the iterations, and on the ranks, that have one.

use super::outline::{Outline, Place};
use super::range_candidates::with_end_text;
use super::statement_text::NewStatement;
use super::text_change::{Candidate, CandidateIdea, TextChange};
use crate::ir::{ExprId, OffsetExpr, Symbol, Value, branch_condition, enclosing_ops, expr_text, upper_bound};

/// The steps from a start to its Wait that are tried, the likeliest first.
const LAGS: &[i64] = &[1, 0, 2];

/// The last steps, from 0, that have nothing to wait for.
const FIRST_STEPS: [i64; 2] = [0, 1];

/// Candidates for a Wait that comes too often: its loop ends earlier, it has a condition, or there is one start more.
pub(super) fn bound_waits(outline: &Outline<'_>, wait: usize, posts: &[usize]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for &post in posts {
        let Some(&around) = outline.common_loops(post, wait).first() else { continue };
        let index = outline.loop_index(around).and_then(|index| outline.program.names().find_symbol(&index));
        let Some(bounded) = index.and_then(|index| BoundedPost::of_post(outline, post, index)) else { continue };
        for &lag in LAGS {
            let end = bounded.bound_text(outline, lag);
            found.extend(with_end_text(outline, around, &end));
            found.extend(bounded.guard_wait(outline, wait, &end));
        }
        found.extend(bounded.start_longer(outline));
    }
    found.into_iter().map(|candidate| candidate.with_idea(CandidateIdea::Guess)).collect()
}

/// A start in a branch whose condition bounds the index of the loop.
struct BoundedPost {
    index: Symbol,
    branch: usize,
    condition: ExprId,
    bound: OffsetExpr,
}

impl BoundedPost {
    fn of_post(outline: &Outline<'_>, post: usize, index: Symbol) -> Option<Self> {
        let program = outline.program;
        let around = enclosing_ops(program, outline.statements[post].op);
        around.into_iter().find_map(|around| {
            let condition = branch_condition(program, around)?;
            let bound = upper_bound(program, condition, index)?;
            let branch = outline.ancestors(post).find(|&outer| outline.statements[outer].op == around.op)?;
            Some(Self { index, branch, condition, bound })
        })
    }

    /// The bound and a number more, in the printed form.
    fn bound_text(&self, outline: &Outline<'_>, more: i64) -> String {
        let sum = OffsetExpr { offset: self.bound.offset.saturating_add(more), ..self.bound };
        let text = sum.text_with(&|base| expr_text(outline.program, base));
        if sum.base.is_some() && sum.offset != 0 { format!("( {text} )") } else { text }
    }

    /// The Wait only where the index is below an end.
    fn guard_wait(&self, outline: &Outline<'_>, wait: usize, end: &str) -> Option<Candidate> {
        guarded_wait(outline, wait, &format!("( {} < {end} )", outline.program.name(self.index)))
    }

    /// One start more, if nothing else is in the condition.
    fn start_longer(&self, outline: &Outline<'_>) -> Option<Candidate> {
        let old = expr_text(outline.program, self.condition);
        let index = outline.program.name(self.index);
        let [own, new] = [0, 1].map(|more| format!("( {index} < {} )", self.bound_text(outline, more)));
        if old != own {
            return None;
        }
        TextChange::new(outline).with_changed(self.branch, &old, &new)?.into_candidate()
    }
}

/// Candidates for a Wait that stands in a loop before the start of its communication: there is nothing to wait for in the
/// first steps.
pub(super) fn wait_in_later_steps(outline: &Outline<'_>, wait: usize, posts: &[usize]) -> Vec<Candidate> {
    let later = posts.iter().filter(|&&post| post > wait);
    let indices = later.filter_map(|&post| outline.loop_index(*outline.common_loops(post, wait).first()?));
    let conditions = indices.flat_map(|index| FIRST_STEPS.map(|last| format!("( {index} > {last} )")));
    let found = conditions.filter_map(|condition| guarded_wait(outline, wait, &condition));
    found.map(|candidate| candidate.with_idea(CandidateIdea::Guess)).collect()
}

/// The Wait under a condition, which is added to the one that it has.
fn guarded_wait(outline: &Outline<'_>, wait: usize, condition: &str) -> Option<Candidate> {
    let guard = outline.guarded(wait);
    let around = enclosing_ops(outline.program, outline.statements[wait].op);
    let own = around.first().filter(|around| outline.statements[guard].op == around.op && guard != wait);
    if let Some(old) = own.and_then(|around| branch_condition(outline.program, *around)) {
        let old = expr_text(outline.program, old);
        let new = format!("( {old} && {condition} )");
        if old.contains(condition) {
            return None;
        }
        return TextChange::new(outline).with_changed(guard, &old, &new)?.into_candidate();
    }
    let indentation = outline.place_indentation(Place::Before(wait))?;
    let text = outline.statement_text(wait).trim_end();
    let lines = format!("{indentation}IF Manual {condition}:\n{indentation}  {text}\n");
    let change = TextChange::new(outline).with_replaced(wait, lines, Place::After(wait))?;
    change.described("write", format!("`IF Manual {condition}` around `{text}`")).into_candidate()
}

/// The Wait in a branch like the one in which the communication is started: some ranks start none.
pub(super) fn wait_on_starting_ranks(outline: &Outline<'_>, wait: usize, post: usize) -> Option<Candidate> {
    let program = outline.program;
    let indices: Vec<String> = outline.ancestors(post).filter_map(|outer| outline.loop_index(outer)).collect();
    let mut branches = enclosing_ops(program, outline.statements[post].op).into_iter().filter_map(|around| {
        let condition = expr_text(program, branch_condition(program, around)?);
        let names_index = condition.split_whitespace().any(|word| indices.iter().any(|index| index == word));
        let branch = outline.ancestors(post).find(|&outer| outline.statements[outer].op == around.op)?;
        (!names_index).then_some(branch)
    });
    let branch = branches.next()?;
    if outline.ancestors(wait).any(|outer| outer == branch) {
        return None;
    }
    let number = outline.op(wait).operands.iter().find_map(|operand| match operand {
        Value::Handle(number) => Some(*number),
        _ => None,
    })?;
    let guarded = NewStatement::wait(outline, number).inside(branch);
    let lines = guarded.lines_at(outline, Place::After(wait))?;
    TextChange::new(outline).with_replaced(wait, lines, Place::After(wait))?.into_candidate()
}
