//! Errors about the operands, arguments, results and types of calls. Each ends in the text to write.

use super::foreign::foreign_post_key;
use super::report::{list_words, push, report_argument_word};
use crate::diag::{Applicability, Diag, Diags, Fix, Message, Notation, PartKind, codes, count_text, message};
use crate::hir2::defaults::{describe_kind, is_host_select, is_positional, keyword};
use crate::hir2::forms::statement_forms;
use crate::ir::{OpKind, OpLayout, OwnForm};
use crate::ops::result_types::ProposedType;
use crate::ops::{ArgSpec, Infer, OpRegistry};
use hostir_grammar::Span;
use hostir_grammar::hir2::ast::{ArgNode, ExprNode, FileSyntax};

/// The form of an op, as a note.
fn form_note(kind: OpKind) -> Message {
    let forms = statement_forms(kind);
    forms.lines().next().map_or_else(Message::default, |form| message!("its form is `{}`", form))
}

/// The statement that makes a result.
pub(super) enum ResultSource {
    /// `alloc`.
    Memory,
    /// A slice with a name, or a launch.
    Other,
    /// An op, with the reason why its arguments give no type, if it infers types.
    Op(OpKind, Option<Message>),
}

/// Reports a result without a type.
pub(super) fn report_no_type(ops: OpRegistry, source: ResultSource, text: &str, span: Span, diags: &mut Diags) {
    let note = match source {
        ResultSource::Op(kind, Some(fault)) => {
            return diags.push(Diag::error(codes::NO_TYPE, span, fault).with_note(form_note(kind)));
        }
        ResultSource::Op(kind, None) if !matches!(kind.spec().infer, Infer::Written) => {
            let name = kind.name();
            message!(
                "these arguments of `{}` give none: write `{}: f32[m, n] = {}(..)`",
                PartKind::Op.quote(name),
                PartKind::Tensor.quote(text),
                PartKind::Op.quote(name)
            )
        }
        ResultSource::Memory => {
            message!("memory has the type that is written: `{}: f32[m, n] = alloc`", PartKind::Tensor.quote(text))
        }
        ResultSource::Op(kind, None) => {
            message!(
                "its arguments do not tell it: write `{}: f32[m, n] = {}(..)`",
                PartKind::Tensor.quote(text),
                PartKind::Op.quote(kind.name())
            )
        }
        ResultSource::Other => {
            message!(
                "write `{}: f32[m, n] = ..`; types are inferred for {}",
                PartKind::Tensor.quote(text),
                list_inferring_ops(ops)
            )
        }
    };
    push(diags, codes::NO_TYPE, span, message!("`{}` needs a type", PartKind::Tensor.quote(text)), note);
}

/// The statements whose results need no type, as a sentence lists them.
fn list_inferring_ops(ops: OpRegistry) -> Message {
    let mut names: Vec<Message> = ops.inferring_ops().map(inferring_statement).collect();
    let last = names.pop().unwrap_or_default();
    message!("{} and {}", Message::join(&names, ", "), last)
}

fn inferring_statement(kind: OpKind) -> Message {
    match kind.layout() {
        OpLayout::Pointwise => "pointwise functions".into(),
        OpLayout::Own(OwnForm::PostOnStream) => "kernels".into(),
        _ if is_host_select(kind) => "slices".into(),
        _ => message!("`{}`", PartKind::Op.quote(kind.name())),
    }
}

pub(super) fn report_result_count(kind: OpKind, needed: &str, found: usize, span: Span, diags: &mut Diags) {
    let message = message!("`{}` has {}, not {}", PartKind::Op.quote(kind.name()), needed, found);
    push(diags, codes::WRONG_RESULTS, span, message, form_note(kind));
}

pub(super) fn report_missing(kind: OpKind, spec: &ArgSpec, span: Span, diags: &mut Diags) {
    let what = match (spec.word, spec.key) {
        (Some(_), _) => message!("`{}=`", PartKind::Word.quote(keyword(spec))),
        (None, Some(key)) => message!("`{}`, {}", PartKind::Word.quote(key.word()), spec.kind.describe()),
        (None, None) => spec.kind.describe().into(),
    };
    push(
        diags,
        codes::MISSING_ARGUMENT,
        span,
        message!("`{}` needs {}", PartKind::Op.quote(kind.name()), what),
        form_note(kind),
    );
}

/// The form here for an argument that reductions have in other languages.
fn foreign_argument_note(kind: OpKind, found: &str) -> Option<&'static str> {
    let is_reduction = kind.name() == "reduction";
    Some(match found {
        "axis" | "axes" | "dim" | "dims" if is_reduction => {
            "the axes that are reduced are marked in the type of the result: `S: f32[m, r.n]` sums along `n`"
        }
        "keepdim" | "keepdims" if is_reduction => {
            "a reduced axis is left out: an axis of one element is put back by `broadcast(S, flags=[false, true])`"
        }
        _ => return None,
    })
}

pub(super) fn report_extra_argument(file: &FileSyntax, kind: OpKind, arg: &ArgNode, diags: &mut Diags) {
    match arg.key {
        Some(key) => {
            let words: Vec<&str> =
                kind.spec().args.iter().filter(|spec| spec.word.is_some() || spec.key.is_some()).map(keyword).collect();
            let found = file.symbol_text(key.name);
            if let Some(note) = foreign_argument_note(kind, found) {
                let [name, word] = [PartKind::Op.quote(kind.name()), PartKind::Word.quote(found)];
                return push(
                    diags,
                    codes::UNKNOWN_WORD,
                    key.span,
                    message!("`{}` has no argument `{}`", name, word),
                    note,
                );
            }
            report_argument_word(kind.name(), found, &words, key.span, diags);
        }
        None => {
            let most = kind.spec().args.iter().filter(|spec| is_positional(kind, spec)).count();
            let message = message!(
                "`{}` takes {}, this is one more",
                PartKind::Op.quote(kind.name()),
                count_text(most, "operand")
            );
            let keyed = kind.spec().args.iter().filter(|spec| spec.key.is_some() && !is_positional(kind, spec));
            let words: Vec<&str> = keyed.map(keyword).collect();
            let is_list = matches!(file.expr(arg.value), ExprNode::List(_));
            let note = match (words.as_slice(), is_list) {
                ([], true) => "a shape stands in the type of the result, as in `Y: f32[m, n] = view(X)`".into(),
                ([], false) => form_note(kind),
                (words, _) => message!("others have names, as `{}=`: {}", words.join("=`, `"), form_note(kind)),
            };
            push(diags, codes::EXTRA_OPERAND, arg.span, message, note);
        }
    }
}

pub(super) fn report_twice_given(kind: OpKind, spec: &ArgSpec, span: Span, diags: &mut Diags) {
    let message =
        message!("`{}` is given twice to `{}`", PartKind::Word.quote(keyword(spec)), PartKind::Op.quote(kind.name()));
    push(diags, codes::DUPLICATE_ARGUMENT, span, message, "");
}

/// Reports a value that is none of an argument's words, such as `ReduceOp.SUM`, of which the last part may be one.
pub(super) fn report_needs_word(written: &str, words: &[&str], found: &str, span: Span, diags: &mut Diags) {
    let message = message!("`{}=` takes a word, not `{}`", PartKind::Word.quote(written), found);
    let last = found.rsplit('.').next().unwrap_or_default();
    let diag = Diag::error(codes::WRONG_KIND, span, message);
    diags.push(match words.iter().find(|word| word.eq_ignore_ascii_case(last)) {
        Some(word) => diag.with_meant_word(span, word),
        None => diag.with_note(format!("the known ones are `{}`", words.join("`, `"))),
    });
}

pub(super) fn report_argument(kind: Option<OpKind>, written: &str, spec: &ArgSpec, span: Span, diags: &mut Diags) {
    let needed = describe_kind(spec.kind);
    let note = kind.map_or_else(Message::default, form_note);
    push(diags, codes::WRONG_KIND, span, message!("`{}` needs {}", PartKind::Word.quote(written), needed), note);
}

pub(super) fn report_kernel_counts(
    text: &str,
    [needed, found]: [[usize; 2]; 2],
    head: &str,
    span: Span,
    diags: &mut Diags,
) {
    let message = message!(
        "kernel `{}` has {} and {}, but this call gives {} and takes {}",
        PartKind::Op.quote(text),
        count_text(needed[0], "input"),
        count_text(needed[1], "output"),
        found[0],
        found[1]
    );
    push(diags, codes::WRONG_RESULTS, span, message, message!("the kernel is `{}`", head));
}

/// The word of a communication.
pub(super) struct PostName<'t> {
    pub(super) word: &'t str,
    pub(super) place: Option<Span>,
}

/// Reports an unknown argument of a communication.
pub(super) fn report_post_key(post: &PostName<'_>, found: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let PostName { word, place } = *post;
    if found.is_empty() {
        let message = message!("`{}` takes no further operand", PartKind::Op.quote(word));
        let note = match word {
            "send" => "the rank that receives is given by name: `send(A, to=p)`".into(),
            "recv" => "the rank that sends is given by name: `recv(A, from=p)`".into(),
            _ => message!("its arguments are {}", list_words(known)),
        };
        push(diags, codes::EXTRA_OPERAND, span, message, note);
        return;
    }
    let hint = match found {
        "src" | "dst" | "source" | "dest" if known.contains(&"root") => Some("root"),
        "peer" | "dst" | "dest" => Some("to"),
        "src" | "source" => Some("from"),
        "backend" => Some("via"),
        "red_op" | "reduce" => Some("op"),
        _ => None,
    };
    if let Some((other, own)) = other_message(word, found) {
        let changes = [Some((span, own)), place.map(|place| (place, other))];
        let message = message!("`{}` has no argument `{}`", PartKind::Op.quote(word), PartKind::Word.quote(found));
        let note = message!(
            "`{}` has `{}`, the rank that receives, and `{}` has `{}`, the rank that sends",
            PartKind::Op.quote("send"),
            PartKind::Word.quote("to"),
            PartKind::Op.quote("recv"),
            PartKind::Word.quote("from")
        );
        let diag = Diag::error(codes::UNKNOWN_WORD, span, message).with_note(note);
        let fixes = changes.into_iter().flatten().map(|(span, meant)| word_guess(span, meant));
        return diags.push(fixes.fold(diag, Diag::with_fix));
    }
    let root = matches!(found, "peer" | "dst" | "dest" | "src" | "source").then_some("root");
    let message = message!("`{}` has no argument `{}`", PartKind::Op.quote(word), PartKind::Word.quote(found));
    let diag = Diag::error(codes::UNKNOWN_WORD, span, message);
    let note = foreign_post_key(word, found);
    match (hint.into_iter().chain(root).find(|hint| known.contains(hint)), note) {
        (Some(hint), _) => diags.push(diag.with_meant_word(span, hint)),
        (None, Some(note)) => diags.push(diag.with_note(note)),
        (None, None) => report_argument_word(word, found, known, span, diags),
    }
}

/// The message that has the peer which another one is given, and the peer of that one.
fn other_message(word: &str, found: &str) -> Option<(&'static str, &'static str)> {
    match (word, found) {
        ("send", "from") => Some(("recv", "to")),
        ("recv", "to") => Some(("send", "from")),
        _ => None,
    }
}

/// A word that may be meant in the place of another one.
fn word_guess(span: Span, meant: &str) -> Fix {
    let fix = Fix::replacement(message!("write `{}`", PartKind::Word.quote(meant)), span, meant);
    Fix { applicability: Applicability::MaybeIncorrect, ..fix }
}

/// The edit that gives a result a type.
pub(super) fn type_fix(name: &str, span: Span, proposed: &ProposedType) -> Fix {
    let text = message!("{}: {}", PartKind::Tensor.quote(name), proposed.text.clone());
    let written = text.in_notation(Notation::Hir2).as_str().to_owned();
    let fix = Fix::replacement(message!("write `{}`", text), span, written);
    let applicability = if proposed.is_only { Applicability::Untried } else { Applicability::MaybeIncorrect };
    Fix { applicability, ..fix }
}
