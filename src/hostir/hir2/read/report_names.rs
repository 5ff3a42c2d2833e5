//! Errors about names: declared twice, reserved, not declared, or of another kind than a place needs.

use super::foreign::{allocation_of, constant_of};
use super::report::{nearest_name, push};
use super::scalar_blocks::EarlierDefinition;
use super::scope::Meaning;
use crate::diag::{Applicability, Diag, DiagLabel, Diags, Fix, Message, PartKind, codes, message, syntax_error};
use crate::hir2::defaults::{COMMUNICATION_WORDS, DTYPE_WORDS};
use crate::ir::functions::function_names;
use crate::ir::{is_numbered_name, is_reserved_word};
use crate::ops::OpRegistry;
use hostir_grammar::Span;
use hostir_grammar::ast::Symbol;
use hostir_grammar::hir2::ast::{FileSyntax, NameSyntax};
use rustc_hash::FxHashMap;

/// Reports a name that is declared again; `meaning` is its kind.
pub(super) fn report_taken(file: &FileSyntax, name: NameSyntax, meaning: Meaning, first: Span, diags: &mut Diags) {
    report_twice(file, name, first, diags);
    if let Some(diag) = diags.items.last_mut() {
        diag.message = message!(
            "`{}` is {} already",
            PartKind::Word.quote(file.symbol_text(name.name)),
            describe_meaning(meaning)
        );
    }
}

pub(super) fn report_twice(file: &FileSyntax, name: NameSyntax, first: Span, diags: &mut Diags) {
    let text = file.symbol_text(name.name);
    let mut diag = Diag::error(
        codes::NAME_TWICE,
        name.span,
        message!("the name `{}` is taken", PartKind::Word.quote(text)),
    )
    .with_note(
        "names of meshes, kernels and programs are unique in a file, others in their program: choose another one",
    );
    diag.labels.push(DiagLabel { span: first, text: "it is declared here".into() });
    diags.push(diag);
}

/// Warns of a scalar that a block defines again, or one that it sees from around it. The printed form may have such
/// definitions.
pub(super) fn report_defined_again(
    file: &FileSyntax,
    name: NameSyntax,
    earlier: EarlierDefinition,
    first: Span,
    diags: &mut Diags,
) {
    let text = file.symbol_text(name.name);
    let note = match earlier {
        EarlierDefinition::SameBlock => "a scalar has one value: give this one another name",
        EarlierDefinition::OuterBlock => {
            "a scalar has one value, which loops and branches do not change: compute it from the loop's index, as in \
             `slot = i % 2`, or give it another name"
        }
    };
    let message = message!("the scalar `{}` has a value already", PartKind::Word.quote(text));
    let mut diag = Diag::error(codes::NAME_TWICE, name.span, message).with_note(note);
    diag.labels.push(DiagLabel { span: first, text: "it is defined here".into() });
    diags.push(diag.into_warning());
}

pub(super) fn report_reserved(text: &str, span: Span, diags: &mut Diags) {
    let message = message!("`{}` is a word of the language and cannot be a name", PartKind::Word.quote(text));
    push(diags, codes::RESERVED_NAME, span, message, "choose another name");
}

/// The line `names` names nothing of the file.
pub(super) fn report_given_name(text: &str, span: Span, diags: &mut Diags) {
    let message = message!("`{}` is no mesh and no program of this file", PartKind::Word.quote(text));
    let note =
        "`names` lists meshes and programs that have their default names, `d` or `main`, by choice; leave others out";
    push(diags, codes::UNKNOWN_WORD, span, message, note);
}

/// Reports `T7` or `h7` that names no tensor or communication, or has an unknown number.
pub(super) fn report_numbered(text: &str, meaning: Meaning, span: Span, diags: &mut Diags) {
    let what = if text.starts_with('T') { "tensor" } else { "communication" };
    let (digits, largest) = (text[1..].trim_start_matches('0'), hostir_grammar::MAX_NUMBER);
    let is_own = matches!((meaning, what), (Meaning::Tensor(_), "tensor") | (Meaning::Handle(_), "communication"));
    if is_own && digits.parse::<u32>().is_err() && !digits.is_empty() {
        let error = hostir_grammar::SyntaxError::large_number(digits, what, largest, span);
        return diags.push(syntax_error(error));
    }
    let message = message!(
        "`{}` cannot be a name: `{}` and a number stand for a {}",
        PartKind::Word.quote(text),
        &text[..1],
        what
    );
    let note = match is_own {
        true => message!(
            "write `{}{}` for the {} of that number",
            &text[..1],
            if digits.is_empty() { "0" } else { digits },
            what
        ),
        false => "choose another name".into(),
    };
    push(diags, codes::RESERVED_NAME, span, message, note);
}

/// Checks the name of a kernel: a kernel is called like an op, so it must not have an op's name.
pub(super) fn check_kernel_name(ops: OpRegistry, file: &FileSyntax, name: NameSyntax, diags: &mut Diags) {
    let text = file.symbol_text(name.name);
    let is_taken = ops.find_op(text).is_some()
        || function_names().any(|known| known == text)
        || DTYPE_WORDS.iter().any(|(word, _)| *word == text)
        || COMMUNICATION_WORDS.iter().any(|(word, _)| *word == text);
    if is_taken {
        let message = message!("a kernel cannot be called `{}`: that is an op", PartKind::Op.quote(text));
        push(diags, codes::RESERVED_NAME, name.span, message, "choose another name");
    }
}

/// Reports a name of something else in the place of a scalar: in brackets it may be meant as a tensor of indices.
pub(super) fn report_no_scalar(
    file: &FileSyntax,
    name: Symbol,
    meaning: Meaning,
    span: Span,
    is_index: bool,
    diags: &mut Diags,
) {
    let what = describe_meaning(meaning);
    let text = file.symbol_text(name);
    let note = match meaning {
        Meaning::Handle(_) => message!("`wait {}` waits for a communication", PartKind::Handle.quote(text)),
        Meaning::Tensor(_) if is_index => message!(
            "an index is a scalar, which the host computes: slices by a tensor of indices are those of an op, \
             `indexSelect(A, dim=0, {})`",
            PartKind::Tensor.quote(text)
        ),
        Meaning::Tensor(_) => message!(
            "the host computes with scalars and reads no tensors: an input without a type, `{}`, is a scalar; \
             `where(c, A, B)` chooses elements by a tensor of truth values",
            PartKind::Word.quote(text)
        ),
        _ => Message::default(),
    };
    push(
        diags,
        codes::WRONG_KIND,
        span,
        message!("`{}` is {}, but a scalar is needed here", PartKind::Word.quote(text), what),
        note,
    );
}

pub(super) fn report_no_tensor(text: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag =
        Diag::error(codes::UNDEFINED_TENSOR, span, message!("there is no tensor `{}`", PartKind::Tensor.quote(text)));
    diags.push(match nearest_name(text, known.iter().copied()) {
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note(message!(
            "a tensor is declared in the header, or where it is first written: `{}: f32[m, n] = alloc`",
            text
        )),
    });
}

/// Reports a name that nothing declares, in the place of a tensor or a scalar.
pub(super) fn report_no_name(source: &str, text: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag =
        Diag::error(codes::UNKNOWN_SCALAR, span, message!("the name `{}` is not declared", PartKind::Word.quote(text)));
    if let Some(line) = index_loop(source, text, span) {
        return diags.push(diag.with_note(message!(
            "`{}` is the index of the loop in line {}, and has a value inside of it only",
            PartKind::Scalar.quote(text),
            line
        )));
    }
    diags.push(match nearest_name(text, known.iter().copied().filter(|name| *name != text)) {
        _ if matches!(text, "x" | "y" | "z") => {
            diag.with_note(message!("the axis `{}` of a mesh `d`, and the rank's coordinate along it, is `d.{}`", PartKind::Word.quote(text), PartKind::Word.quote(text)))
        }
        _ if constant_of(text).is_some() => diag.with_note(constant_of(text).unwrap_or_default()),
        _ if allocation_of(text).is_some() && known.contains(&"alloc") => {
            diag.with_note(message!("write `{}`", allocation_of(text).unwrap_or_default()))
        }
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note(message!("names here are those of tensors, extents of their types, scalars `at = e`, indices of loops around the statement, `rank` and `streams`; an input without a type is a scalar, `f(.., {})`", text)),
    });
}

/// The length of the text in front of a name in which its loop is searched: with many errors, searching all of it takes long.
const SEARCHED: usize = 1 << 13;

/// The line of the last loop not far above a place that has an index of this name, in the same program.
fn index_loop(source: &str, index: &str, span: Span) -> Option<usize> {
    let before = source.get(..span.start as usize)?;
    let start = before.len().saturating_sub(SEARCHED);
    let near = (start..=before.len()).find_map(|start| before.get(start..))?;
    let is_inside = |line: &&str| line.is_empty() || line.starts_with([' ', '\t', '/']);
    for (after, line) in near.rsplit('\n').take_while(is_inside).enumerate() {
        if line.trim_start().as_bytes().first() != Some(&b'f') {
            continue;
        }
        let mut words = line.split_whitespace();
        if [words.next(), words.next(), words.next()] == [Some("for"), Some(index), Some("in")] {
            let above = before.bytes().filter(|byte| *byte == b'\n').count();
            return Some(above + 1 - after);
        }
    }
    None
}

/// Reports a name of other languages for the rank or the number of ranks.
pub(super) fn report_runtime_scalar(text: &str, note: String, span: Span, diags: &mut Diags) {
    push(
        diags,
        codes::UNKNOWN_SCALAR,
        span,
        message!("the name `{}` is not declared", PartKind::Scalar.quote(text)),
        note,
    );
}

/// Reports a name that nothing declares, in the place of a stream.
pub(super) fn report_no_stream(text: &str, known: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(
        codes::UNKNOWN_SCALAR,
        span,
        message!("the stream `{}` is not declared", PartKind::Stream.quote(text)),
    );
    diags.push(match nearest_name(text, known.iter().copied()) {
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note(message!(
            "write `stream {} = current` where that stream is the current one, or a number, as in `sync 1`",
            PartKind::Stream.quote(text)
        )),
    });
}

/// Reports a name of anything but a tensor.
pub(super) fn report_needs_tensor(text: &str, meaning: Meaning, span: Span, diags: &mut Diags) {
    let message =
        message!("`{}` is {}, but a tensor is needed here", PartKind::Word.quote(text), describe_meaning(meaning));
    push(diags, codes::WRONG_KIND, span, message, "");
}

/// A post that writes a tensor.
pub(super) struct WritingPost {
    /// The handle that names it, if one does.
    pub(super) handle: Option<String>,
    /// Its statement.
    pub(super) text: String,
}

/// The maximum number of handles that a note proposes.
const MOST_HANDLES: usize = 2;

/// Reports `wait` in front of anything but a communication: of a tensor the post that writes it, and the handles of all
/// that transfer it.
pub(super) fn report_no_wait(
    text: &str,
    meaning: Meaning,
    post: Option<WritingPost>,
    handles: &[String],
    span: Span,
    diags: &mut Diags,
) {
    let message =
        message!("`{}` is {}, but `wait` needs a communication", PartKind::Word.quote(text), describe_meaning(meaning));
    let diag = Diag::error(codes::WRONG_KIND, span, message);
    let diag = match (meaning, post) {
        (Meaning::Stream(_), _) => {
            diag.with_note(message!("write `sync {}` to wait for a stream", PartKind::Stream.quote(text)))
        }
        (_, Some(WritingPost { handle: Some(handle), text: statement })) => {
            let fix = Fix::replacement(format!("write `wait {handle}`"), span, handle.clone());
            diag.with_note(message!("`{}` writes it: write `wait {}`", statement, handle))
                .with_fix(Fix { applicability: Applicability::Untried, ..fix })
        }
        (_, Some(WritingPost { handle: None, text: statement })) => diag.with_note(message!(
            "`{}` writes it: give that a name, `h = {}`, and write `wait h`, or write `wait {}` in one line",
            statement.clone(),
            statement.clone(),
            statement
        )),
        (Meaning::Tensor(_), None) if (1..=MOST_HANDLES).contains(&handles.len()) => {
            let waits: Vec<String> = handles.iter().map(|handle| format!("`wait {handle}`")).collect();
            let waits = waits.join(" or ");
            diag.with_note(message!("write {}: a `wait` names the communication, not what it transfers", waits))
        }
        _ => diag.with_note("a communication gets a name where it is posted: `h = send(..)`"),
    };
    diags.push(diag);
}

fn describe_meaning(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Tensor(_) => "a tensor",
        Meaning::Handle(_) => "a communication",
        Meaning::Stream(_) => "a stream",
        Meaning::Scalar => "a scalar",
        Meaning::Poisoned => "unknown",
    }
}

pub(super) fn report_no_handle(text: &str, posted: &[&str], span: Span, diags: &mut Diags) {
    let diag = Diag::error(
        codes::UNKNOWN_HANDLE,
        span,
        message!("no communication is called `{}`", PartKind::Handle.quote(text)),
    );
    diags.push(match nearest_name(text, posted.iter().copied()) {
        Some(near) => diag.with_near_name(span, near),
        None => diag.with_note("a communication gets a name where it is posted: `h = send(..)`"),
    });
}

/// Checks that `streams n` has a positive number, and that the header has each size once.
pub(super) fn check_hints(file: &FileSyntax, diags: &mut Diags) {
    if let Some(streams) = file.head.streams.filter(|streams| !(1..=i64::from(u32::MAX)).contains(&streams.value)) {
        let message = message!("a program cannot run on {} streams", streams.value);
        push(diags, codes::WRONG_NUMBER, streams.span, message, "write a number from 1, as in `streams 3`");
    }
    let mut first: FxHashMap<Symbol, Span> = FxHashMap::default();
    for size in &file.head.sizes {
        if let Some(earlier) = first.insert(size.name, size.span) {
            let message =
                message!("the size of `{}` is given twice", PartKind::Scalar.quote(file.symbol_text(size.name)));
            diags.push(Diag::error(codes::NAME_TWICE, size.span, message).with_label(earlier, "it is given here"));
        }
        let text = file.symbol_text(size.name);
        if is_reserved_word(text) {
            report_reserved(text, size.span, diags);
        } else if is_numbered_name(text) && text.starts_with('T') {
            report_numbered(text, Meaning::Scalar, size.span, diags);
        }
    }
}
