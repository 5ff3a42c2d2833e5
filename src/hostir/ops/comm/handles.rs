//! Handles: what a Wait waits for.
//!
//! A handle is the number of one communication or group, or of an array of them whose elements are named by integers.
//! The host knows all elements when it reaches a statement, so posts and Waits are matched when the plan is made.

use super::lowering::require_rank;
use crate::diag::{Diag, Message, PartKind, Quoted, codes, message};
use crate::ir::{OpId, Program, Value, bare_head, handle_element_phrase, handle_phrase, quoted_wait};
use crate::plan::{HandlePost, InstKind, PlanBuilder, WorkSlot};

/// The maximum count of pending elements that a note lists.
const MOST_ELEMENTS: usize = 8;

/// Records the work for a Wait.
pub(super) fn register_work(cx: &mut PlanBuilder<'_>, id: OpId, work: WorkSlot) -> Result<(), Diag> {
    register_post(cx, HandlePost { op: id, work: Some(work), messages: Vec::new() })
}

/// Records a communication or group for a Wait. A second one with its handle before the Wait is an error: one of the two
/// would never be waited for. A Wait for a group covers its members.
pub(super) fn register_post(cx: &mut PlanBuilder<'_>, post: HandlePost) -> Result<(), Diag> {
    let op = cx.program.op(post.op);
    let Some(number) = op.number() else { return Ok(()) };
    let element = cx.handle_element(op)?;
    let here = post.op;
    let Some(earlier) = cx.communications.register_post(number, element, post) else { return Ok(()) };
    if cx.communications.open_group().is_some() {
        return Ok(());
    }
    let Some(element) = element else { return Err(started_again(cx, number)) };
    let name = handle_element_phrase(cx.program, number, element);
    let message = message!("{} is started again before a {} for it", name, bare_head("Wait"));
    let diag = cx.error_here(codes::ELEMENT_AGAIN, message);
    let diag = match earlier.op == here {
        true => diag,
        false => diag.with_label(cx.program.op_span(earlier.op), "it is started here, too"),
    };
    Err(diag.with_note("wait for the element before that, or use another element"))
}

fn started_again(cx: &PlanBuilder<'_>, number: u32) -> Diag {
    let spoken = spoken_name(cx.program, number);
    let name = spoken.as_ref().map_or_else(|| handle_phrase(cx.program, number), |name| format!("`{name}`"));
    let wait = match &spoken {
        Some(name) => Quoted::new(PartKind::Statement, format!("`wait {name}`")),
        None => quoted_wait(cx.program, number),
    };
    let message = message!("{} is started again before a {} for it", name, bare_head("Wait"));
    let diag = cx.error_here(codes::POSTS, message).with_note(message!("add {} before the second start", wait));
    match cx.is_in_loop() {
        true => diag.with_note(array_advice(cx.program, spoken.as_deref().unwrap_or("h"))),
        false => diag,
    }
}

/// The name of a handle in a text in `hir 2`: given, or a number that some statement waits for; `None` if the statement
/// that starts it has no name, and in the printed form.
fn spoken_name(program: &Program, number: u32) -> Option<String> {
    let mut is_named = program.given_names().handles.contains_key(&number);
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        is_named |= op.kind.is_wait() && op.operands.contains(&Value::Handle(number));
    });
    program.written_handle(number).filter(|_| is_named && program.is_hir2())
}

/// The other repair where a loop starts communications that a later statement waits for.
fn array_advice(program: &Program, name: &str) -> Message {
    if !program.is_hir2() {
        return "or give each iteration an element of its own, `element=i`; a Wait without `element=` waits for all"
            .into();
    }
    Message::from(format!(
        "or make it an array with an element for each iteration, `{name}[i] = ..`; then `wait {name}` waits for all"
    ))
}

/// Makes the current stream wait for a communication, an element of an array, or all elements that are pending.
pub(super) fn lower_wait(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    require_rank(cx)?;
    let op = cx.program.op(id);
    let element = cx.handle_element(op)?;
    for operand in &op.operands {
        let Value::Handle(number) = *operand else { continue };
        let is_array = cx.communications.posts_of_handle(number).is_some_and(|posts| posts.is_array);
        if is_array && element.is_none() {
            for post in cx.communications.take_all_posts(number) {
                wait_for_post(cx, post)?;
            }
            continue;
        }
        match cx.communications.take_post(number, element) {
            Some(post) => wait_for_post(cx, post)?,
            None => return Err(not_started(cx, number, element)),
        }
    }
    Ok(())
}

fn wait_for_post(cx: &mut PlanBuilder<'_>, post: HandlePost) -> Result<(), Diag> {
    // Messages on streams end by themselves.
    for work in post.work.into_iter().chain(post.messages) {
        cx.emit_inst(InstKind::WaitWork { work })?;
    }
    Ok(())
}

fn not_started(cx: &PlanBuilder<'_>, number: u32, element: Option<i64>) -> Diag {
    let posts = cx.communications.posts_of_handle(number);
    let span = posts.and_then(|posts| posts.ops.last()).map(|&post| cx.program.op_span(post));
    let diag = match element {
        Some(element) => element_not_started(cx, number, element),
        None => {
            let name = cx.program.written_handle(number).map(|name| format!("`{name}`"));
            let name = name.unwrap_or_else(|| number.to_string());
            let message = message!("no communication {} was started since its last {}", name, bare_head("Wait"));
            cx.error_here(codes::POSTS, message)
        }
    };
    match span {
        Some(span) => diag.with_label(span, message!("the {} names this communication", bare_head("Wait"))),
        None => diag,
    }
}

fn element_not_started(cx: &PlanBuilder<'_>, number: u32, element: i64) -> Diag {
    let name = handle_element_phrase(cx.program, number, element);
    let message = message!("no communication {} was started since its last {}", name, bare_head("Wait"));
    let pending = cx.communications.pending_elements(number);
    let list: Vec<String> = pending.iter().take(MOST_ELEMENTS).map(i64::to_string).collect();
    let more = if pending.len() > MOST_ELEMENTS { ", .." } else { "" };
    let note = match list.as_slice() {
        [] => "no element of the array has been started and not waited for".to_owned(),
        [one] => format!("the only element that has been started and not waited for is {one}"),
        _ => format!("the elements that have been started and not waited for are {}{more}", list.join(", ")),
    };
    cx.error_here(codes::ELEMENT_NOT_STARTED, message).with_note(note)
}
