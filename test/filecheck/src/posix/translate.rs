//! A parsed expression in the syntax of the `regex` crate, which finds where a match starts.

use super::byte_set::ByteSet;
use super::syntax::{Assertion, Node, Repetition};
use std::fmt::Write as _;

/// The expression for the `regex` crate, in its mode for bytes; back-references must have been replaced.
pub(super) fn translate_node(node: &Node) -> String {
    let mut out = String::new();
    push_node(&mut out, node);
    out
}

fn push_node(out: &mut String, node: &Node) {
    match node {
        Node::Byte(set) => push_set(out, set),
        Node::Assertion(assertion) => out.push_str(match assertion {
            Assertion::LineStart => "^",
            Assertion::LineEnd => "$",
            Assertion::WordStart => "\\b{start}",
            Assertion::WordEnd => "\\b{end}",
        }),
        Node::Group(_, body) => push_enclosed(out, std::slice::from_ref(&**body), ""),
        Node::Sequence(parts) => push_enclosed(out, parts, ""),
        Node::Alternation(parts) => push_enclosed(out, parts, "|"),
        Node::Repeat(body, times) => {
            push_enclosed(out, std::slice::from_ref(&**body), "");
            push_repetition(out, *times);
        }
        Node::BackReference(_) => {}
    }
}

fn push_enclosed(out: &mut String, parts: &[Node], separator: &str) {
    out.push_str("(?:");
    for (index, part) in parts.iter().enumerate() {
        out.push_str(if index > 0 { separator } else { "" });
        push_node(out, part);
    }
    out.push(')');
}

fn push_repetition(out: &mut String, times: Repetition) {
    match times {
        Repetition { low: 0, high: None } => out.push('*'),
        Repetition { low: 1, high: None } => out.push('+'),
        Repetition { low: 0, high: Some(1) } => out.push('?'),
        Repetition { low, high: None } => push_formatted(out, format_args!("{{{low},}}")),
        Repetition { low, high: Some(high) } => push_formatted(out, format_args!("{{{low},{high}}}")),
    }
}

fn push_set(out: &mut String, set: &ByteSet) {
    let ranges = set.ranges();
    match ranges.as_slice() {
        [(first, last)] if first == last => push_formatted(out, format_args!("\\x{first:02x}")),
        // A set without members matches nothing.
        [] => out.push_str("[^\\x00-\\xff]"),
        ranges => {
            out.push('[');
            for (first, last) in ranges {
                push_formatted(out, format_args!("\\x{first:02x}-\\x{last:02x}"));
            }
            out.push(']');
        }
    }
}

fn push_formatted(out: &mut String, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}
