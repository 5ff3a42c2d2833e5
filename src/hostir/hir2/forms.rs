//! The form in which `hir 2` writes each op, from the op table, for lists and pages.

use super::defaults::{is_positional, keyword, written_arguments};
use crate::ir::{OpKind, OpLayout, OwnForm, WordLink};
use crate::ops::{ArgKind, ArgPresence, ArgSpec, Infer};

/// The forms of a statement in `hir 2`, one a line: `A`, `B`, .. stand for operands, `T` for the result, `[..]` for parts
/// that may be left out. A result whose type the op does not determine has one. Empty for ops that only the printed form
/// writes.
pub fn statement_forms(kind: OpKind) -> String {
    match kind.layout() {
        OpLayout::Own(form) => own_form(form).to_owned(),
        OpLayout::Pointwise => "T = f(A, B)\nT = A + B\nT = -A".to_owned(),
        OpLayout::Define => "name = expression".to_owned(),
        OpLayout::Words(link) => words_form(kind, link).to_owned(),
        OpLayout::Keyed => keyed_form(kind).to_owned(),
        OpLayout::Statement => statement_form(kind).to_owned(),
        _ if kind.name() == "HirAliasSelect" => "A[i], A[:, i], A[own]".to_owned(),
        _ => call_form(kind),
    }
}

fn own_form(form: OwnForm) -> &'static str {
    match form {
        OwnForm::Allocate => "T: type = alloc[(zero, fresh, keep, share=A, mem=word, size=n)]",
        OwnForm::Deallocate => "free A, B",
        OwnForm::LoopOverDomain => "for i in n [on streams]:\nfor i in A.0 [on streams]:",
        OwnForm::LoopOverRange => "for i in start..stop [step n] [on streams]:",
        OwnForm::Branch => "if condition:\nelse:",
        OwnForm::GetCurrentStream => "stream name = current",
        OwnForm::PostOnStream => "T = kernel(A, B)",
        OwnForm::ShareMemHandles => "share { send(A, to=p); recv(T, from=q) }",
        OwnForm::Scatter => "T = torchScatter(A, dim=n, B, C[, accumulate=word])",
        OwnForm::GroupedReduction => {
            "T: type, U: type = GroupedReductionOp(A, B, .., op=[word, ..], init=[e, ..], allreduce=false)"
        }
        OwnForm::Welford => {
            "T: type, U: type, V: type = Welford(A[, var=B, count=C][, init_avg=D, init_var=E, init_count=F], allreduce=false)"
        }
        OwnForm::GroupedWelford => {
            "T: type, U: type, V: type, .. = GroupedWelford(A, B, C, D, E, F, .., allreduce=false)"
        }
        OwnForm::LaunchKernel => "",
    }
}

fn words_form(kind: OpKind, link: WordLink) -> &'static str {
    match (kind.name(), link) {
        ("SetCurrentStream", _) => "stream s\nstream s:",
        ("Synchronize", _) => "sync s",
        ("StartCoalescing" | "EndCoalescing", _) => "h = { send(A, to=p); recv(T, from=q) }",
        _ if kind.is_wait() => "wait h\nwait h[i]\nwait allgather(A -> T)",
        _ => "",
    }
}

fn statement_form(kind: OpKind) -> &'static str {
    match kind.name() {
        "Assert" => "assert condition[, \"text\"]",
        "Print" => "print A, ..",
        _ => "",
    }
}

fn keyed_form(kind: OpKind) -> &'static str {
    match kind.name() {
        "Communication" => {
            "h = allgather(A -> T[, team=[0, 1], over=d.x, via=word, comm=name])\n\
             allreduce, reduce_scatter: also op=word\n\
             broadcast, gather, scatter, send_recv: also root=r\n\
             reduce: root=r, op=word; all_to_all: as allgather"
        }
        "P2PCommunication" => {
            "h = send(A, to=rank[, via=word, protocol=word, comm=name])\n\
             h = recv(T, from=rank[, via=word, protocol=word, comm=name])"
        }
        "Dispatch" => {
            "Dispatch(num_experts=n, in=A, topk_idx=B, topk_weights=C, out=T[, out_topk_idx=T][, out_topk_weights=T]\
             [, out_src_idx=T][, out_n_tokens_to_rank=T][, out_n_tokens_from_rank=T][, backend=word])"
        }
        "Combine" => "Combine(in=A, topk_weights=B, src_idx=C, out=T[, backend=word])",
        "CollectivePermute" => {
            "h = permute(A -> T, to=position, from=position[, team=[0, 1], over=d.x, via=word, comm=name])"
        }
        _ => "",
    }
}

/// `T: type = slice(A, ranges=[[start, stop, step], ..])`
fn call_form(kind: OpKind) -> String {
    let spec = kind.spec();
    let ty = if matches!(spec.infer, Infer::Written) { ": type" } else { "" };
    let results: Vec<String> =
        ["T", "U", "V", "W"].iter().take(kind.result_count()).map(|letter| format!("{letter}{ty}")).collect();
    let mut letters = ["A", "B", "C", "D", "E", "F", "G", "H"].into_iter();
    let mut text = format!("{} = {}(", results.join(", "), spec.identity.name);
    let arguments = written_arguments(kind).map(|(_, declared)| declared).filter(|declared| !declared.result);
    for (at, declared) in arguments.enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let letter = if declared.key.is_none() { letters.next().unwrap_or("..") } else { "" };
        let argument = argument_form(kind, declared, letter);
        let more = if declared.repeated { ", .." } else { "" };
        let optional = declared.presence == ArgPresence::Optional || declared.usual.is_some();
        text += &if optional { format!("[{comma}{argument}{more}]") } else { format!("{comma}{argument}{more}") };
    }
    text + ")"
}

/// An operand's letter, the value of a positional argument, or `key=value`.
fn argument_form(kind: OpKind, declared: &ArgSpec, letter: &str) -> String {
    let is_bare = is_positional(kind, declared);
    match declared.key {
        None if is_bare => letter.to_owned(),
        None => format!("{}={letter}", keyword(declared)),
        Some(key) if is_bare => list_form(declared.kind).unwrap_or(key.word()).to_owned(),
        Some(_) => format!("{}={}", keyword(declared), list_form(declared.kind).unwrap_or(value_form(declared.kind))),
    }
}

fn list_form(kind: ArgKind) -> Option<&'static str> {
    match kind {
        ArgKind::Bools => Some("[true, ..]"),
        ArgKind::Words(_) => Some("[word, ..]"),
        ArgKind::Exprs | ArgKind::Ints | ArgKind::Team => Some("[n, ..]"),
        ArgKind::Ranges => Some("[[start, stop, step], ..]"),
        _ => None,
    }
}

fn value_form(kind: ArgKind) -> &'static str {
    match kind {
        ArgKind::Word(_) => "word",
        ArgKind::Name => "name",
        ArgKind::Text => "\"text\"",
        ArgKind::DType => "f32",
        ArgKind::Bool | ArgKind::CapitalBool => "false",
        _ => "n",
    }
}
