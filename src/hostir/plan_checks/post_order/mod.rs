//! Checks the orders in which ranks post communications.
//!
//! On one communicator, collectives match by their order, whatever their statements: `same_statement` finds posts that
//! match another statement than their own. A library may also carry out one communication of a rank at a time, whatever
//! its communicator. Ranks whose orders form a cycle, through any number of communicators (`post_graph`), can then wait
//! for each other forever, although each communicator by itself is in order.

mod post_graph;
mod same_statement;

use crate::diag::message;
use crate::diag::{Diag, Message, codes};
use crate::lower::PreparedProgram;
use crate::plan::{InstId, Plan, PlanMatching};
use post_graph::{OrderCircle, PostGraph};

/// The errors for ranks that post in different orders: one for each communicator, and one for the communicators of each
/// cycle.
///
/// The orders of plans that differ by a rotation of the ranks form no cycle: all ranks reach their communications at
/// the same time.
pub(super) fn check_post_orders(prepared: &PreparedProgram, matching: &PlanMatching<'_>, rotated: bool) -> Vec<Diag> {
    let communicators = matching.communicators.iter();
    let mut errors: Vec<Diag> =
        communicators.filter_map(|of_all| same_statement::check_communicator(prepared, of_all)).collect();
    if !rotated {
        let circles = PostGraph::of_plans(&prepared.plans, matching).find_circles();
        errors.extend(circles.iter().map(|circle| describe_circle(prepared, circle)));
    }
    errors
}

const REPAIR: &str = "post communications in the same order on all ranks that share their communicators";

/// A post of a rank.
#[derive(Clone, Copy, Debug)]
struct RankPost {
    rank: u32,
    inst: InstId,
}

/// The error for two ranks that post different communications where they have to post the same.
fn describe_orders(prepared: &PreparedProgram, place: &str, one: RankPost, other: RankPost) -> Diag {
    let [(rank, text), (other_rank, other_text)] = [one, other].map(|post| post_text(prepared, post));
    let message = message!(
        "ranks {} and {} post on {} in different orders: rank {} posts {} where rank {} posts {}",
        rank,
        other_rank,
        place,
        rank,
        text,
        other_rank,
        other_text
    );
    labelled(prepared, message, &[one, other])
}

/// The error for ranks whose orders form a cycle.
fn describe_circle(prepared: &PreparedProgram, circle: &OrderCircle) -> Diag {
    let firsts: Vec<RankPost> = circle.steps.iter().map(|step| step.first).collect();
    if let [one, other] = firsts[..] {
        return describe_orders(prepared, "two communicators", one, other);
    }
    let steps = circle.steps.iter().take(MOST_STEPS).map(|step| {
        let [(rank, first), (_, second)] = [step.first, step.second].map(|post| post_text(prepared, post));
        message!("rank {} posts {} before {}", rank, first, second)
    });
    let mut steps: Vec<Message> = steps.collect();
    if circle.steps.len() > MOST_STEPS {
        steps.push(message!("and so on through {} more ranks", circle.steps.len() - MOST_STEPS));
    }
    let message = message!(
        "posts on {} communicators make a circle, in which each may wait for the next: {}",
        circle.communicators.len(),
        Message::join(&steps, ", ")
    );
    labelled(prepared, message, &firsts)
}

/// The maximum number of ranks of a cycle that a message names.
const MOST_STEPS: usize = 16;

/// The rank of a post, and its text with the iteration.
fn post_text(prepared: &PreparedProgram, post: RankPost) -> (u32, Message) {
    let plan: &Plan = &prepared.plans[post.rank as usize];
    (plan.rank, prepared.labels.origin_text(plan, plan.inst(post.inst).origin))
}

/// An error with a label on each statement of these posts.
fn labelled(prepared: &PreparedProgram, message: Message, posts: &[RankPost]) -> Diag {
    let mut spans = Vec::new();
    for post in posts {
        let plan = &prepared.plans[post.rank as usize];
        let span = prepared.labels.op_span(plan.inst(post.inst).origin.op);
        if spans.iter().all(|&(known, _)| known != span) {
            spans.push((span, format!("rank {} posts this first", plan.rank)));
        }
    }
    let mut spans = spans.into_iter();
    let Some((span, text)) = spans.next() else { return Diag::global_error(codes::POST_ORDER, message) };
    let diag = Diag::error(codes::POST_ORDER, span, message).with_primary_text(text);
    spans.fold(diag, |diag, (span, text)| diag.with_label(span, text)).with_note(REPAIR)
}
