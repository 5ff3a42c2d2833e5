//! Candidates for ranks that do not agree: deadlocks, and communications whose sides or orders differ.

use super::group_candidates::{group_messages, start_earlier, wait_later};
use super::outline::{Outline, Place};
use super::range_candidates::equal_ranges;
use super::rank_condition::condition_of_rank_0;
use super::text_change::{Candidate, CandidateIdea, TextChange};
use super::wait_candidates::{posts_of_wait, waits_of};
use crate::hir2::defaults::is_host_select;
use crate::ir::{AttrKey, ChildPeer, ExprId, NeighbourTeam, Program, ShiftedPeer, TensorId, expr_text};

/// The arguments that the sides of a communication give alike. Those that are guesses decide what is computed.
const COMMON_ARGUMENTS: &[(&str, CandidateIdea)] = &[
    ("protocol", CandidateIdea::Plain),
    ("backend", CandidateIdea::Plain),
    ("comm", CandidateIdea::Plain),
    ("team", CandidateIdea::Guess),
    ("root", CandidateIdea::Guess),
    ("red_op", CandidateIdea::Guess),
];

/// Candidates for a diagnostic about communications of several ranks.
pub(super) fn make_agree(outline: &Outline<'_>, primary: usize, others: &[usize]) -> Vec<Candidate> {
    let mut posts: Vec<usize> = Vec::new();
    for &at in std::iter::once(&primary).chain(others) {
        let found = if outline.kind(at).is_wait() { posts_of_wait(outline, at) } else { vec![at] };
        posts.extend(found.into_iter().filter(|&post| outline.kind(post).is_communication()));
    }
    posts.dedup();
    let mut found: Vec<Candidate> = Vec::new();
    for (number, &first) in posts.iter().enumerate() {
        for &second in posts[number + 1..].iter().filter(|&&second| second != first) {
            found.extend(give_alike(outline, first, second));
            found.extend(answer_peer(outline, first, second));
            found.extend(equal_ranges(outline, first, second));
        }
    }
    found.extend(posts.iter().filter_map(|&post| group_team(outline, post)));
    for &post in &posts {
        found.extend(group_messages(outline, post));
        found.extend(start_earlier(outline, post));
        found.extend(wait_later(outline, post));
    }
    found.extend(same_path(outline, &posts, false));
    found.extend(same_path(outline, &posts, true).map(|change| change.with_idea(CandidateIdea::Guess)));
    found.extend(posts.iter().flat_map(|&post| start_on_all(outline, post)));
    found.extend(posts.iter().filter_map(|&post| start_in_all_steps(outline, post)));
    found
}

/// Candidates that give two communications of one kind the same argument.
fn give_alike(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let kinds = [first, second].map(|at| {
        let kind = outline.op(at).word_attr(AttrKey::Type).map(|word| outline.program.name(word));
        (outline.kind(at).is_message(), kind.filter(|_| !outline.kind(at).is_message()))
    });
    if kinds[0] != kinds[1] {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (word, idea) in COMMON_ARGUMENTS {
        let [one, other] = [first, second].map(|at| argument_text(outline.statement_text(at), word));
        if one == other {
            continue;
        }
        let changes = [(second, other, one), (first, one, other)];
        let changes = changes.into_iter().filter_map(|(at, old, new)| with_argument(outline, at, old, new));
        found.extend(changes.map(|change| change.with_idea(*idea)));
    }
    found
}

/// The peer of the other side of a message, in the printed form.
fn printed_answer(program: &Program, peer: ExprId) -> Option<String> {
    let shifted = ShiftedPeer::of_expr(program, peer).map(|peer| peer.answering_peer().printed_text(program));
    shifted.or_else(|| ChildPeer::of_expr(program, peer).map(|child| child.printed_parent(program)))
}

/// Candidates that let the peer of a message answer that of another one: sends to the right are received from the left,
/// sends to children from the parent.
fn answer_peer(outline: &Outline<'_>, first: usize, second: usize) -> Vec<Candidate> {
    let sides = [first, second].map(|at| outline.op(at).word_attr(AttrKey::Type));
    if sides[0] == sides[1] {
        return Vec::new();
    }
    let program = outline.program;
    let peers =
        [first, second].map(|at| outline.op(at).expr_attr(AttrKey::Peer).filter(|_| outline.kind(at).is_message()));
    let [Some(one), Some(other)] = peers else { return Vec::new() };
    let changes = [(second, other, one), (first, one, other)];
    let changes = changes.into_iter().filter_map(|(at, old, side)| {
        let (old, new) = (expr_text(program, old), printed_answer(program, side)?);
        let [old, new] = [old, new].map(|peer| format!("peer={peer}"));
        if old == new { None } else { TextChange::new(outline).with_changed(at, &old, &new)?.into_candidate() }
    });
    changes.map(|change| change.with_idea(CandidateIdea::Guess)).collect()
}

/// The candidate that gives a collective the team of the ranks that start it.
pub(super) fn team_of_members(outline: &Outline<'_>, post: usize, members: &[i64]) -> Option<Candidate> {
    let is_team = members.len() > 1 && outline.kind(post).is_communication() && !outline.kind(post).is_message();
    let old = argument_text(outline.statement_text(post), "team").filter(|_| is_team)?;
    let numbers: Vec<String> = members.iter().map(i64::to_string).collect();
    let change = TextChange::new(outline).with_changed(post, old, &format!("team=({})", numbers.join(" ")))?;
    Some(change.into_candidate()?.with_idea(CandidateIdea::Doubtful))
}

/// Candidates that start a communication in all steps of a loop, of which a branch leaves some out.
fn start_in_all_steps(outline: &Outline<'_>, post: usize) -> Option<Candidate> {
    let branch = outline.statements[post].parent.filter(|&outer| outline.kind(outer).is_branch())?;
    if has_other_path(outline, post) || condition_of_rank_0(outline.program, outline.op(branch)).is_some() {
        return None;
    }
    Some(TextChange::new(outline).with_unwrapped(branch)?.into_candidate()?.with_idea(CandidateIdea::Doubtful))
}

/// The candidate that makes teams of the neighbours of each rank groups of consecutive ranks.
fn group_team(outline: &Outline<'_>, post: usize) -> Option<Candidate> {
    let team = NeighbourTeam::of_op(outline.program, outline.op(post))?;
    let old = argument_text(outline.statement_text(post), "team")?;
    let change = TextChange::new(outline).with_changed(post, old, &team.printed_group())?;
    Some(change.into_candidate()?.with_idea(CandidateIdea::Doubtful))
}

/// A statement with another argument in the place of one that it may have.
fn with_argument(outline: &Outline<'_>, at: usize, old: Option<&str>, new: Option<&str>) -> Option<Candidate> {
    let change = TextChange::new(outline);
    let change = match (old, new) {
        (Some(old), Some(new)) => change.with_changed(at, old, new),
        (Some(old), None) => change
            .with_changed(at, &format!(", {old}"), "")
            .map(|change| change.described("delete", format!("`{old}` of `{}`", outline.op(at).kind.name()))),
        (None, Some(new)) => change.with_argument(at, new),
        (None, None) => None,
    };
    change?.into_candidate()
}

/// `root=0` of a statement, if its text has the argument.
fn argument_text<'t>(statement: &'t str, word: &str) -> Option<&'t str> {
    let head = format!("{word}=");
    let start = statement.match_indices(&head).map(|(at, _)| at);
    let start = start.filter(|&at| statement[..at].ends_with([' ', '('])).last()?;
    let mut depth = 0_u32;
    let end = statement[start..].char_indices().find(|&(_, c)| match c {
        '(' | '{' => {
            depth += 1;
            false
        }
        ')' | '}' if depth > 0 => {
            depth -= 1;
            false
        }
        ',' | ')' => depth == 0,
        _ => false,
    });
    statement.get(start..start + end?.0)
}

/// The candidates that let all ranks start the collective of a branch which only some of them take: before the branch or
/// after it, or with all that it holds.
fn start_on_all(outline: &Outline<'_>, post: usize) -> Vec<Candidate> {
    let branch = outline.statements[post].parent.filter(|&outer| outline.kind(outer).is_branch());
    let Some(branch) = branch else { return Vec::new() };
    let op = outline.op(branch);
    let is_wanted = !outline.kind(post).is_message() && !is_started_elsewhere(outline, post);
    if !is_wanted || condition_of_rank_0(outline.program, op).is_none() {
        return Vec::new();
    }
    let moved = [Place::Before(branch), Place::After(branch)].map(|place| move_out(outline, post, branch, place));
    let has_choice = has_other_path(outline, post);
    let whole = TextChange::new(outline).with_unwrapped(branch).filter(|_| !has_choice);
    moved.into_iter().flatten().chain(whole).filter_map(TextChange::into_candidate).collect()
}

/// Returns true if the branch around a statement has an `else`.
pub(super) fn has_other_path(outline: &Outline<'_>, statement: usize) -> bool {
    let branch = outline.statements[statement].parent.filter(|&outer| outline.kind(outer).is_branch());
    branch.is_some_and(|branch| {
        let mut others = outline.op(branch).blocks.iter().skip(1);
        others.any(|&block| !outline.program.block(block).ops.is_empty())
    })
}

/// Moves a collective out of a branch, with what makes its operands there and its Waits.
fn move_out<'o, 'a>(outline: &'o Outline<'a>, post: usize, branch: usize, place: Place) -> Option<TextChange<'o, 'a>> {
    let mut used: Vec<TensorId> = outline.op(post).all_tensors().collect();
    let mut moved = vec![post];
    for at in (branch + 1..post).rev() {
        if makes_only(outline, at, &used) {
            used.extend(outline.op(at).all_tensors());
            moved.insert(0, at);
        }
    }
    let number = outline.op(post).number()?;
    moved.extend(waits_of(outline, number).filter(|&wait| wait < outline.statements[branch].next));
    moved.into_iter().try_fold(TextChange::new(outline), |change, at| change.with_moved(at, place))
}

/// Returns true if a statement only makes tensors of these: slices, memory, or results that no other statement writes.
fn makes_only(outline: &Outline<'_>, statement: usize, used: &[TensorId]) -> bool {
    let made: Vec<TensorId> = outline.op(statement).output_tensors().collect();
    if !made.iter().any(|tensor| used.contains(tensor)) {
        return false;
    }
    let kind = outline.kind(statement);
    if is_host_select(kind) || kind.is_allocation() {
        return true;
    }
    let mut others = (0..outline.statements.len()).filter(|&at| at != statement && outline.does_work(at));
    outline.does_work(statement)
        && !kind.is_communication()
        && made.iter().all(|&tensor| outline.owner(tensor) == tensor)
        && others.all(|at| outline.op(at).output_tensors().all(|other| !made.contains(&other)))
}

/// Returns true if another communication has the same results: other ranks start it in another branch.
fn is_started_elsewhere(outline: &Outline<'_>, post: usize) -> bool {
    let results = |at: usize| outline.op(at).output_tensors().collect::<Vec<_>>();
    let mut others = (0..outline.statements.len()).filter(|&at| at != post && outline.kind(at).is_communication());
    others.any(|at| results(at) == results(post))
}

/// The candidate that lets all ranks take the path of rank 0 through branches that choose among collectives, or messages.
fn same_path(outline: &Outline<'_>, posts: &[usize], of_messages: bool) -> Option<Candidate> {
    let mut branches: Vec<usize> = posts.iter().flat_map(|&post| outline.ancestors(post)).collect();
    branches.retain(|&at| outline.kind(at).is_branch());
    branches.sort_unstable();
    branches.dedup();
    let mut change = TextChange::new(outline);
    let mut is_changed = false;
    for branch in branches {
        let Some(condition) = condition_of_rank_0(outline.program, outline.op(branch)) else { continue };
        let holds_collective = (branch + 1..outline.statements[branch].next).any(|at| {
            let kind = outline.kind(at);
            kind.is_communication() && kind.is_message() == of_messages && (kind.is_post() || of_messages)
        });
        if !holds_collective {
            continue;
        }
        let (old, new) = condition?;
        change = change.with_changed(branch, &old, &new)?;
        is_changed = true;
    }
    if is_changed { change.into_candidate() } else { None }
}
