//! Parts of the resolver's messages: what a value has to be, the arguments of an op, and spellings to write.

use crate::diag::{Diag, Message, PartKind, Span, count_text, message, nearest_candidate};
use crate::ops::{ArgKind, ArgPresence, ArgSpec, OpSpec};

/// A value that a statement needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NeededValue<'t> {
    /// An argument of a kind.
    Kind(ArgKind),
    /// Described by a text, with an example.
    Text(&'t str),
}

impl NeededValue<'_> {
    pub(super) fn describe(&self) -> &str {
        match self {
            Self::Kind(kind) => kind.describe(),
            Self::Text(text) => text,
        }
    }
}

impl From<ArgKind> for NeededValue<'_> {
    fn from(kind: ArgKind) -> Self {
        Self::Kind(kind)
    }
}

impl<'t> From<&'t str> for NeededValue<'t> {
    fn from(text: &'t str) -> Self {
        Self::Text(text)
    }
}

/// The operator for a function of two operands of other tools.
pub(super) fn operator_of(name: &str) -> Option<&'static str> {
    let signs = [("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")];
    signs.iter().find(|(known, _)| *known == name).map(|(_, sign)| *sign)
}

/// Returns a note on the operator that this language has in place of another tool's function.
pub(super) fn infix_note(name: &str) -> &'static str {
    match name {
        "add" => "write `T2 = T0 + T1;`",
        "sub" => "write `T2 = T0 - T1;`",
        "mul" => "write `T2 = T0 * T1;`",
        "div" => "write `T2 = T0 / T1;`",
        "neg" => "write `T1 = -T0;`",
        _ => "see docs/language.md for all statements",
    }
}

pub(super) fn did_you_mean(diag: Diag, place: Option<Span>, word: &str, words: &[&str]) -> Diag {
    match nearest_candidate(word, words.iter().copied()) {
        Some(near) => name_near(diag, place, word, near),
        None => diag.with_note(message!("valid values are {}", words.join(", "))),
    }
}

/// Names the nearest word, as a fix if the place of the wrong one is known.
pub(super) fn name_near(diag: Diag, place: Option<Span>, found: &str, near: &str) -> Diag {
    match place {
        Some(place) => diag.with_near_word(place, found, near),
        None => diag.with_note(message!("did you mean `{}`?", PartKind::Word.quote(near))),
    }
}

/// `no operand`, `1 operand`, `2 operands`.
pub(super) fn count_or_none(number: usize, what: &str) -> Message {
    if number == 0 { message!("no {}", what) } else { count_text(number, what) }
}

/// The declared arguments in words.
pub(super) fn signature_text(spec: &OpSpec) -> Message {
    let parts: Vec<Message> = spec
        .args
        .iter()
        .map(|declared| {
            let text = match declared.word {
                Some(word) => message!("`{}=`", PartKind::Word.quote(word)),
                None => declared.kind.describe().into(),
            };
            let optional = declared.presence == ArgPresence::Optional;
            if optional { message!("{} (optional)", text) } else { text }
        })
        .collect();
    Message::join(&parts, ", ")
}

/// An argument as an example shows it.
pub(super) fn example_text(declared: &ArgSpec) -> String {
    let value = match declared.kind {
        ArgKind::Word(words) => words.first().copied().unwrap_or("word"),
        ArgKind::Name => "second",
        ArgKind::Text => "\"text\"",
        ArgKind::Words(_) => "{add, mul}",
        ArgKind::Bool => "false",
        ArgKind::CapitalBool => "False",
        ArgKind::Team => "(0 1 2 3)",
        ArgKind::Expr | ArgKind::Int | ArgKind::Operand => "0",
        ArgKind::Tensor => "T0_g_float[iS0{i0}]",
        ArgKind::Axis => "iS0{i0}",
        ArgKind::Bools => "{true, false}",
        ArgKind::Array => "{ 0.5, 2 }",
        ArgKind::Exprs | ArgKind::Ints => "{1, 0}",
        ArgKind::Ranges => "{ {0, i0, 1} }",
        ArgKind::DType => "float",
        ArgKind::Stream => "Stream 0",
        ArgKind::Handle => "Communication 1",
    };
    match declared.word {
        Some(word) => format!("`{word}={value}`"),
        None => format!("`{value}`"),
    }
}

/// The written form of ops with one of their own.
pub(super) fn written_form(name: &str) -> &'static str {
    match name {
        "ALLOCATE" => "T0 = ALLOCATE(buffer=T0, mem_type=global, size=i0, zero_init=false, resets_to_zero=false)",
        "PostOnStream" => "PostOnStream (HostUnit0, Inputs:{T0, }, Outputs:{T1, })",
        "LaunchKernel" => "LaunchKernel(Group ID: 0, Inputs: {T0}, Outputs: {T1})",
        "Welford" => "T1(Avg), T2(Var), T3(Count) = Welford ( T0(Avg), allreduce = false )",
        "GroupedReductionOp" => {
            "GroupedReductionOp( T1 = reduction( T0, op = add, initial value = float(0) ) allreduce = false )"
        }
        "GroupedWelford" => {
            "GroupedWelford( T1 (Avg), T2 (Var), T3 (Count) = Welford ( T0 (Avg), float(0) (Var), 1 (Count) initial value = float(0) (Avg), float(0) (Var), 0 (Count) ) allreduce = false )"
        }
        _ => "GetCurrentStream into Stream 0",
    }
}
