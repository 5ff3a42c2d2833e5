//! Handles: what a Wait waits for.
//!
//! A handle is the number of one communication or group, or of an array of them whose elements are named by integers.
//! The host knows all elements when it reaches a statement, so posts and Waits are matched when the plan is made.

use super::lowering::require_rank;
use crate::diag::{Diag, Fix, Message, PartKind, Quoted, codes, message};
use crate::ir::{
    AttrKey, OffsetExpr, OpId, Program, RankScalars, Value, bare_head, branch_condition, depends_on_scalar,
    enclosing_ops, handle_element_phrase, handle_phrase, quoted_wait, short_expr_text, upper_bound,
};
use crate::plan::{HandlePost, HandleStart, InstKind, PlanBuilder, WorkSlot};

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
    let indices = cx.loop_indices().iter().copied().collect();
    cx.communications.note_start(number, element, HandleStart { op: here, indices });
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
    let note = same_element_advice(cx, here, number, earlier.op == here);
    Err(diag.with_note(note.unwrap_or_else(|| "wait for the element before that, or use another element".into())))
}

/// The repair of a loop whose iterations all start one element of an array.
fn same_element_advice(cx: &PlanBuilder<'_>, post: OpId, number: u32, is_one_statement: bool) -> Option<Message> {
    let element = cx.program.op(post).expr_attr(AttrKey::Element)?;
    let &(index, _) = cx.loop_indices().last()?;
    let is_fixed = is_one_statement && !depends_on_scalar(cx.program, element, index) && cx.program.is_hir2();
    let name = cx.program.written_handle(number).filter(|_| is_fixed)?;
    let (text, index) = (short_expr_text(cx.program, element), cx.program.name(index));
    Some(format!("all iterations start `{name}[{text}]`: write `{name}[{index}]`, an element for each").into())
}

fn started_again(cx: &PlanBuilder<'_>, number: u32) -> Diag {
    let spoken = spoken_name(cx.program, number);
    let name = spoken.as_ref().map_or_else(|| handle_phrase(cx.program, number), |name| format!("`{name}`"));
    let wait = match &spoken {
        Some(name) => Quoted::new(PartKind::Statement, format!("`wait {name}`")),
        None => quoted_wait(cx.program, number),
    };
    let message = message!("{} is started again before a {} for it", name, bare_head("Wait"));
    let advice = match (&spoken, second_start_condition(cx, number)) {
        (Some(name), Some(condition)) => {
            Message::from(format!("add `if {condition}: wait {name}` before the start: the first iteration has none"))
        }
        _ => message!("add {} before the second start", wait),
    };
    let diag = cx.error_here(codes::POSTS, message).with_fix(Fix::in_words(advice));
    match cx.is_in_loop() {
        true => diag.with_fix(Fix::in_words(array_advice(cx.program, spoken.as_deref().unwrap_or("h")))),
        false => diag,
    }
}

/// The condition that all iterations but the first one which starts a communication have: `s > 0`.
fn second_start_condition(cx: &PlanBuilder<'_>, number: u32) -> Option<String> {
    let [first, _] = cx.communications.posts_of_handle(number)?.starts.as_ref()?;
    let (&(index, _), &(same, value)) = (cx.loop_indices().last()?, first.indices.last()?);
    let outer = first.indices.len() - 1;
    let is_one_loop = index == same && cx.loop_indices().get(..outer)? == &first.indices[..outer];
    is_one_loop.then(|| format!("{} > {value}", cx.program.name(index)))
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
    let diag = match span {
        Some(span) => diag.with_label(span, message!("the {} names this communication", bare_head("Wait"))),
        None => diag,
    };
    match element.map_or_else(|| missing_start(cx, number), |_| None) {
        Some(missing) => diag.with_note(missing.reason).with_fix(Fix::in_words(missing.repair)),
        None => diag,
    }
}

/// The reason why nothing was started: the steps of the loop that do, or the condition that does not hold on this rank.
fn missing_start(cx: &PlanBuilder<'_>, number: u32) -> Option<MissingStart> {
    let program = cx.program;
    let name = program.written_handle(number).filter(|_| program.is_hir2())?;
    let posts = cx.communications.posts_of_handle(number)?;
    let Some([_, last]) = &posts.starts else {
        let scalars = RankScalars::new(program);
        let around = enclosing_ops(program, *posts.ops.first()?);
        let mut conditions = around.into_iter().filter_map(|around| branch_condition(program, around));
        let condition = conditions.find(|condition| scalars.is_dependent(program, *condition))?;
        let condition = short_expr_text(program, condition);
        return Some(MissingStart {
            reason: format!("`{name}` is started only where `{condition}`"),
            repair: format!("write `if {condition}: wait {name}`"),
        });
    };
    let (&(index, here), &(same, started)) = (cx.loop_indices().last()?, last.indices.last()?);
    let around = enclosing_ops(program, last.op);
    let mut conditions = around.iter().filter_map(|around| branch_condition(program, *around));
    let condition = conditions.find(|condition| upper_bound(program, *condition, index).is_some())?;
    let bound = upper_bound(program, condition, index)?;
    let last_wait = here.checked_sub(1)?;
    let lag = last_wait.checked_sub(started)?;
    if index != same || lag < 0 {
        return None;
    }
    let index_text = program.name(index);
    let end = OffsetExpr { offset: bound.offset.checked_add(lag)?, ..bound }.short_text(program);
    let condition = short_expr_text(program, condition);
    Some(MissingStart {
        reason: format!(
            "`{name}` was last started at {index_text}={started}, where `{condition}` held last, and waited for at \
             {index_text}={last_wait}"
        ),
        repair: format!("let the loop end there, `for {index_text} in {end}:`, or wait in `if {index_text} < {end}:`"),
    })
}

/// Why nothing was started, and what may be written.
struct MissingStart {
    reason: String,
    repair: String,
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
    let diag = cx.error_here(codes::ELEMENT_NOT_STARTED, message);
    match started_elements_note(cx, number) {
        Some(started) => diag.with_note(started),
        None => diag.with_note(note),
    }
}

/// The elements that were started, for a Wait in a loop that counts them with a number more or less.
fn started_elements_note(cx: &PlanBuilder<'_>, number: u32) -> Option<Message> {
    let program = cx.program;
    let [least, most] = cx.communications.posts_of_handle(number)?.elements?;
    let written = OffsetExpr::of_sum(program, program.op(cx.current_op()).expr_attr(AttrKey::Element)?, 0);
    let index = short_expr_text(program, written.base.filter(|_| written.offset != 0)?);
    let is_index = cx.loop_indices().iter().any(|(name, _)| program.name(*name) == index);
    let name = program.written_handle(number).filter(|_| is_index && program.is_hir2())?;
    Some(format!("`{name}[{least}]` to `{name}[{most}]` were started: write `wait {name}[{index}]`").into())
}
