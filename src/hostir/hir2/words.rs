//! Messages about programs in `hir 2`, in its words.
//!
//! Checks and analyses quote statements in the printed form. Here, and nowhere else, these quotations become statements
//! of `hir 2`: `Synchronize Stream 0` is `sync 0`. What is said in names (tensors, slices, posts) needs no translation.

use super::defaults::{COMMUNICATION_WORDS, DTYPE_WORDS};
use super::is_hir2;
use crate::diag::{Diag, Span};
use crate::ir::{AttrKey, Program, Value, handle_label, statement_label, statement_word};

/// Translates what diagnostics about a text in `hir 2` quote; others stay as they are.
pub fn translate_diags(text: &str, diags: &mut [Diag]) {
    if diags.is_empty() || !is_hir2(text) {
        return;
    }
    let (programs, _) = super::read::read_text(text);
    for diag in diags {
        let span = diag.primary.as_ref().map_or(Span::default(), |label| label.span);
        let found = programs.iter().rev().find(|program| program.source().header.start <= span.start);
        let Some(program) = found.or(programs.first()) else { return };
        translate_diag(program, text, diag);
    }
}

/// Advice that is another one in `hir 2`, not the same in other words.
const ADVICE: &[(&str, &str)] = &[
    (
        "`a % n` is negative if `a` is: add `n` to `a` first, as in `( ( a + n ) % n )`",
        "`a % n` is negative if `a` is: `wrap(a, n)` is not",
    ),
    (
        "convert with a cast, for example `__to_float(..)`",
        "convert one of them in a statement of its own, as in `U = f32(X)`",
    ),
    (
        "lower either the whole program or no part of it",
        "communicate, as in `wait allgather(A -> G)`, or give both tensors one mesh and the same axes on it; plain math \
         has no loops and no communications",
    ),
    (
        "post the messages of a rank between StartCoalescing and EndCoalescing, or let one side send first",
        "post the messages of a rank in one group, `wait { send(..); recv(..) }`, or let one side send first",
    ),
    (
        "write `keep=false` in the ALLOCATE to give each iteration its own memory",
        "write `alloc` without `keep` to give each iteration its own memory",
    ),
    (
        "write `S` for one of them, or shard it over another axis of the mesh",
        "store one of them whole on every rank, or shard it over another axis of the mesh",
    ),
];

/// Phrases about HostUnits, which are kernels in `hir 2`, and about groups.
const PHRASES: &[(&str, &str)] = &[
    ("PostOnStream has ", "the call has "),
    ("the unit has ", "the kernel has "),
    ("a coalescing group", "a group"),
    ("coalescing groups", "groups"),
];

fn translate_diag(program: &Program, source: &str, diag: &mut Diag) {
    name_post(program, diag);
    let spans = diag.primary.iter().chain(&diag.labels).map(|label| label.span.as_usize_range());
    let lines: Vec<&str> = spans.map(|range| lines_around(source, range)).collect();
    if let Some(part) = &mut diag.focus {
        *part = translate_quotation(program, part);
    }
    let labels = diag.primary.iter_mut().chain(&mut diag.labels).map(|label| &mut label.text);
    let fixes = diag.fixes.iter_mut().map(|fix| &mut fix.message);
    for text in labels.chain(fixes).chain(&mut diag.notes).chain([&mut diag.message]) {
        *text = translate_text(program, &lines, text);
    }
}

/// The lines that contain a part of a text.
fn lines_around(source: &str, range: std::ops::Range<usize>) -> &str {
    let before = source.get(..range.start).unwrap_or_default();
    let after = source.get(range.end..).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let end = source.len() - after.len() + after.find('\n').unwrap_or(after.len());
    source.get(start..end).unwrap_or_default()
}

/// Names a communication that a message is about by its word, `allgather`, in place of that of its op.
fn name_post(program: &Program, diag: &mut Diag) {
    let Some(label) = diag.primary.as_ref().filter(|_| diag.message.contains("`Communication`")) else { return };
    let mut found = None;
    program.walk_with_units(&mut |id| {
        if program.op_span(id) == label.span {
            found = found.or(program.op(id).word_attr(AttrKey::Type));
        }
    });
    if let Some(word) = found.and_then(|kind| word_of_collective(program.name(kind))) {
        diag.message = diag.message.replace("`Communication`", &format!("`{word}`"));
    }
}

/// `allgather` of `Allgather`.
fn word_of_collective(kind: &str) -> Option<&'static str> {
    COMMUNICATION_WORDS.iter().find(|(_, known)| *known == kind).map(|(word, _)| *word)
}

/// `f16` of `__half`.
fn word_of_type(name: &str) -> Option<&'static str> {
    DTYPE_WORDS.iter().find(|(_, dtype)| dtype.name() == name).map(|(word, _)| *word)
}

/// Translates a sentence: quotations in backquotes, and statements that are named without them. What the author wrote
/// in the lines that it is about stays.
fn translate_text(program: &Program, lines: &[&str], text: &str) -> String {
    if let Some((_, advice)) = ADVICE.iter().find(|(printed, _)| *printed == text) {
        return (*advice).to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut after = "";
    for (number, part) in text.split('`').enumerate() {
        if number > 0 {
            out.push('`');
        }
        match number % 2 {
            0 => {
                out.push_str(std::mem::take(&mut after));
                let prose = bracket_numbers(part);
                let prose = PHRASES.iter().fold(prose, |prose, (printed, ours)| prose.replace(printed, ours));
                push_prose(&prose, &mut out);
            }
            _ if lines.iter().any(|line| line.contains(part)) => out.push_str(part),
            _ if waits_for_nameless(program, part) => {
                out.push_str("wait h");
                after = ", and `h =` in front of what it waits for,";
            }
            _ => out.push_str(&bracket_numbers(&translate_quotation(program, part))),
        }
    }
    out
}

/// `(0 1 2)`, a list of the printed form, as `[0, 1, 2]`.
fn bracket_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, part) in text.split('(').enumerate() {
        let list = part.split_once(')').filter(|(inner, _)| number > 0 && inner.contains(' '));
        let list = list.filter(|(inner, _)| inner.bytes().all(|byte| byte.is_ascii_digit() || byte == b' '));
        match list {
            Some((inner, after)) => out += &format!("[{}]{after}", inner.replace(' ', ", ")),
            None if number > 0 => out += &format!("({part}"),
            None => out += part,
        }
    }
    out
}

/// Whether a quotation waits for a communication or group that has no name in the text.
fn waits_for_nameless(program: &Program, quoted: &str) -> bool {
    let number = quoted.strip_prefix("Wait Communication ").and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| !program.given_names().handles.contains_key(&number))
}

/// Prose in which statements of the printed form may stand without quotes: `its Deallocate`.
fn push_prose(text: &str, out: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let statement = statement_word(word).filter(|_| !matches!(word, "StartCoalescing" | "HirAliasSelect"));
        match statement.or_else(|| word_of_collective(word)) {
            Some(short) => {
                out.push('`');
                out.push_str(short);
                out.push('`');
            }
            // Only what something is said to be is a type: `double` is a word, too.
            None if ["is ", "be ", "are "].iter().any(|verb| out.ends_with(verb)) => {
                out.push_str(word_of_type(word).unwrap_or(word));
            }
            None => out.push_str(word),
        }
        let next = after.find(|c: char| c.is_ascii_alphanumeric() || c == '_').unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
}

/// An axis as types write it, `x:4` for `ideviceIdx.x10{4}`.
fn short_axis(quoted: &str) -> Option<String> {
    let (head, extent) = quoted.strip_suffix('}')?.split_once('{')?;
    let head = head.trim_end_matches(|c: char| c.is_ascii_digit());
    let kinds = [("i", ""), ("r", "r."), ("b", "b.")];
    let (kind, parallel) = kinds.iter().find_map(|(letter, kind)| Some((kind, head.strip_prefix(letter)?)))?;
    let place = match parallel {
        "S" => "",
        "deviceIdx.x" => "x:",
        "deviceIdx.y" => "y:",
        "deviceIdx.z" => "z:",
        "StreamIdx" | "streamIdx" | "Stream" => "st:",
        _ => return None,
    };
    let extent = extent.strip_prefix("( ").and_then(|inner| inner.strip_suffix(" )")).unwrap_or(extent);
    Some(format!("{kind}{place}{extent}"))
}

/// A quotation in the words of `hir 2`; what is none of the printed form's statements stays.
fn translate_quotation(program: &Program, quoted: &str) -> String {
    let streams = [
        ("Synchronize Stream ", "sync ", ""),
        ("SetCurrentStream to Stream ", "stream ", ""),
        ("GetCurrentStream into Stream ", "stream ", " = current"),
    ];
    for (printed, word, end) in streams {
        if let Some(stream) = quoted.strip_prefix(printed) {
            return format!("{word}{}{end}", short_scalar(stream));
        }
    }
    if let Some(handle) = quoted.strip_prefix("Wait ") {
        return format!("wait {}", translate_quotation(program, handle));
    }
    for head in ["Communication ", "P2PCommunication ", "CollectivePermute ", "EndCoalescing "] {
        if let Some(number) = quoted.strip_prefix(head).and_then(|number| number.parse().ok()) {
            return post_name(program, number);
        }
    }
    if let Some(axis) = short_axis(quoted) {
        return axis;
    }
    for (printed, word) in [("mem_type=", "mem="), ("backend=", "via=")] {
        if let Some(value) = quoted.strip_prefix(printed) {
            return format!("{word}{value}");
        }
    }
    if let Some(devices) = quoted.strip_prefix("DeviceMesh{").and_then(|rest| rest.strip_suffix('}')) {
        return format!("[{}]", devices.replace(' ', ", "));
    }
    if let Some((dtype, value)) = quoted.split_once('(')
        && let Some(word) = word_of_type(dtype)
    {
        return format!("{word}({value}");
    }
    match quoted {
        "keep=false" => "alloc".to_owned(),
        "keep=true" => "alloc(keep)".to_owned(),
        "numberOfStreams" => "streams".to_owned(),
        "zero_init=true" => "zero".to_owned(),
        "red_op" => "op".to_owned(),
        "deviceIdx.x" | "deviceIdx.y" | "deviceIdx.z" => quoted.trim_start_matches("deviceIdx.").to_owned(),
        _ => match quoted.split_once(' ') {
            None => statement_word(quoted).or(word_of_type(quoted)).unwrap_or(quoted).to_owned(),
            Some(_) => quoted.replace("numberOfStreams", "streams"),
        },
    }
}

/// `i % streams` of `( i % numberOfStreams )`.
fn short_scalar(text: &str) -> String {
    let inner = text.strip_prefix("( ").and_then(|rest| rest.strip_suffix(" )"));
    inner.unwrap_or(text).replace("numberOfStreams", "streams")
}

/// The name of a communication, or the text of the post that has its number.
fn post_name(program: &Program, number: u32) -> String {
    if program.given_names().handles.contains_key(&number) {
        return handle_label(program, number);
    }
    let mut found = None;
    program.walk(program.body(), &mut |id| {
        let op = program.op(id);
        if op.number() == Some(number) && !op.operands.iter().any(|value| matches!(value, Value::Handle(_))) {
            found = found.or(Some(id));
        }
    });
    found.map_or_else(|| handle_label(program, number), |id| statement_label(program, id))
}
