//! Short names of statements, for messages, plans and timelines.

use super::expr::BinaryOp;
use super::hir2_words::{collective_word, statement_word};
use super::ids::OpId;
use super::op::{AttrKey, Op, Value};
use super::program::Program;
use super::short_expr::short_expr_text;

/// The name of a statement in the form of its text: `T6 = matmul` and `P2PCommunication 20`, or `C[at] = matmul` and
/// `recv(G[at])`.
pub fn statement_label(program: &Program, id: OpId) -> String {
    let op = program.op(id);
    let results: Vec<String> = op.output_tensors().map(|tensor| program.tensor_name(tensor)).collect();
    if program.is_hir2() {
        return short_label(program, id, op, &results);
    }
    let name = op.kind.name();
    match (op.number(), results.is_empty()) {
        (Some(number), _) => format!("{name} {}", program.handle_name(number)),
        (None, true) => name.to_owned(),
        (None, false) => format!("{} = {name}", results.join(", ")),
    }
}

fn short_label(program: &Program, id: OpId, op: &Op, results: &[String]) -> String {
    if let Some(number) = op.number() {
        return post_label(program, op, number, results);
    }
    if op.attr(AttrKey::Kernel).is_some() {
        return format!("launch -> {}", results.join(", "));
    }
    let unit = program.posted_unit(op).and_then(|unit| program.units()[unit].name);
    let head = op_display_name(program, id);
    let word = match unit {
        Some(name) => program.name(name),
        None => statement_word(head).unwrap_or(head),
    };
    match (results, BinaryOp::parse(word), op.operands.as_slice()) {
        ([], ..) => word.to_owned(),
        (_, Some(sign), [a, b]) => {
            let (a, b) = (operand_label(program, a), operand_label(program, b));
            format!("{} = {a} {} {b}", results.join(", "), sign.symbol())
        }
        _ => format!("{} = {word}", results.join(", ")),
    }
}

/// An operand of an infix operator.
fn operand_label(program: &Program, operand: &Value) -> String {
    match operand {
        Value::Tensor(tensor) => program.tensor_name(*tensor),
        Value::Scalar(expr) => short_expr_text(program, *expr),
        Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => "..".to_owned(),
    }
}

/// `send(A)`, `allgather(A -> B)`, `h`.
fn post_label(program: &Program, op: &Op, number: u32, results: &[String]) -> String {
    let kind = op.word_attr(AttrKey::Type).map_or("", |word| program.name(word));
    let operands: Vec<String> = op.input_tensors().map(|tensor| program.tensor_name(tensor)).collect();
    let word = collective_word(kind);
    match (kind, word) {
        ("send" | "recv", _) => {
            format!("{kind}({})", operands.iter().chain(results).cloned().collect::<Vec<_>>().join(", "))
        }
        (_, Some(word)) => format!("{word}({} -> {})", operands.join(", "), results.join(", ")),
        _ if operands.is_empty() && results.is_empty() => handle_label(program, number),
        _ => format!("{}({} -> {})", op.kind.name(), operands.join(", "), results.join(", ")),
    }
}

/// A communication or group in a sentence: ``communication 7``, or its name in backquotes.
pub fn handle_phrase(program: &Program, number: u32) -> String {
    match program.given_names().handles.get(&number) {
        Some(name) => format!("`{}`", program.name(*name)),
        None => format!("communication {number}"),
    }
}

/// An element of an array of handles in a sentence: `h[2]` in backquotes, or `element 2 of communication 7`.
pub fn handle_element_phrase(program: &Program, number: u32, element: i64) -> String {
    match program.given_names().handles.get(&number) {
        Some(name) if program.is_hir2() => format!("`{}[{element}]`", program.name(*name)),
        _ => format!("element {element} of {}", handle_phrase(program, number)),
    }
}

/// The name of a communication or group: its own, or `h7`.
pub fn handle_label(program: &Program, number: u32) -> String {
    match program.given_names().handles.get(&number) {
        Some(name) => program.name(*name).to_owned(),
        None if program.is_hir2() => "the group".to_owned(),
        None => format!("Communication {number}"),
    }
}

/// The name of an op in messages: of a pointwise one the function that it computes.
pub fn op_display_name(program: &Program, op: OpId) -> &str {
    let op = program.op(op);
    op.word_attr(AttrKey::Function).map_or(op.kind.name(), |word| program.name(word))
}
