//! Calls of other languages: methods, texts to print, words in quotes, arguments with a colon.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, is_name, split_items};

/// Methods that are functions of one operand.
const FUNCTIONS: &[&str] = &[
    "relu",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "sin",
    "cos",
    "tan",
    "abs",
    "floor",
    "ceil",
    "reciprocal",
    "gelu",
    "silu",
    "erf",
    "neg",
];

/// Methods that convert the elements, and the function here.
const CONVERSIONS: &[(&str, &str)] = &[
    ("float", "f32"),
    ("double", "f64"),
    ("half", "f16"),
    ("bfloat16", "bf16"),
    ("long", "i64"),
    ("int", "i32"),
    ("clone", "Set"),
    ("contiguous", "Set"),
    ("detach", "Set"),
];

/// Methods of two operands that are operators or functions.
const INFIX: &[(&str, &str)] = &[("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")];

/// `printf("%d", rank)`, `print("at", s)`, `std::cout << X`.
pub(super) fn print_call(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let name = line.piece_text(0);
    let values: Vec<String> = match name {
        "printf" | "fprintf" | "print" | "println" | "logging" | "log" => {
            let open = (1..line.pieces.len()).find(|&at| line.piece_text(at) == "(")?;
            let close = line.closing(open)?;
            split_items(line.between(open, close)).into_iter().flat_map(printed_values).collect()
        }
        "std" | "cout" | "cerr" => {
            let parts = line.code.split("<<").skip(1).map(|part| part.trim().trim_end_matches(';').trim());
            parts.filter(|part| !part.starts_with(['"', '\'']) && !part.ends_with("endl")).map(str::to_owned).collect()
        }
        _ => return None,
    };
    let is_known = !values.is_empty()
        && values.iter().all(|value| !value.contains(['"', '\'', '=']))
        && values.iter().all(|value| *value != "stderr");
    is_known.then(|| {
        let message = "`print` is a statement, which shows each value with its name, and no text";
        Habit::rewrite_line(0..name.len(), format!("print {}", values.join(", ")), message)
    })
}

/// The values of an argument of a print: of a text with values in braces these.
fn printed_values(argument: &str) -> Vec<String> {
    let inside = argument.strip_prefix("f\"").or_else(|| argument.strip_prefix("f'"));
    if let Some(text) = inside {
        let parts = text.split('{').skip(1).filter_map(|part| part.split(['}', ':', '=']).next());
        return parts.map(|part| part.trim().to_owned()).collect();
    }
    if argument.starts_with(['"', '\'']) || argument.contains('=') || argument == "stderr" || argument.is_empty() {
        return Vec::new();
    }
    vec![argument.to_owned()]
}

/// `with torch.cuda.stream(1):`, `with stream 1:`
pub(super) fn stream_manager(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if line.piece_text(0) == "with" && line.piece_text(1) == "stream" && line.piece_text(2) != "(" {
        let block = line.code["with".len()..].trim_start();
        return Some(Habit::rewrite_line(
            0.."with".len(),
            block.to_owned(),
            "a block on a stream begins with `stream`",
        ));
    }
    let open = line.find_outside("(").filter(|_| line.piece_text(0) == "with")?;
    let close = line.closing(open)?;
    let stream = line.between(open, close);
    let is_stream = matches!(line.piece_text(open - 1), "stream" | "Stream" | "StreamContext") && !stream.is_empty();
    let is_end = line.piece_text(close + 1) == ":" && line.piece_text(close + 2).is_empty();
    let message = "a block on a stream begins with `stream`";
    (is_stream && is_end)
        .then(|| Habit::rewrite_line(0..line.pieces[close].place.end, format!("stream {stream}:"), message))
}

/// `assert c : "t"`, `assert(c, "t")`.
pub(super) fn assertion(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let name = line.piece_text(0);
    if !matches!(name, "assert" | "static_assert" | "TORCH_CHECK" | "CHECK" | "require") {
        return None;
    }
    let rest = line.code[name.len()..].trim().trim_end_matches(';').trim_end();
    let inner = rest.strip_prefix('(').filter(|_| {
        line.closing(1) == Some(line.pieces.len() - 1)
            || rest.ends_with(')')
                && line
                    .closing(1)
                    .is_some_and(|close| line.pieces[close].place.end >= line.code.trim_end_matches([';', ' ']).len())
    });
    let inner = inner.and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest);
    let quote = inner.find(['"', '\''])?;
    let text = inner[quote..].trim().trim_matches(['"', '\'']);
    let condition = inner[..quote].trim_end().trim_end_matches([',', ':', ';']).trim_end();
    let condition = condition.strip_suffix("&&").unwrap_or(condition).trim_end();
    let meant = format!("assert {condition}, \"{text}\"");
    (!condition.is_empty() && !text.contains('"') && meant != line.code)
        .then(|| Habit::rewrite_line(0..name.len(), meant, "an assertion is a condition, a comma and a text"))
}

/// `A[own].relu()`, `A[own].float()`.
pub(super) fn method_call(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let dot = (1..line.pieces.len())
        .find(|&at| line.piece_text(at) == "." && line.piece_text(at + 2) == "(" && line.is_name(at + 1))?;
    let close = line.closing(dot + 2)?;
    let start = operand_start(line, dot - 1)?;
    let (operand, method) = (line.span_text(start, dot - 1), line.piece_text(dot + 1));
    let arguments = line.between(dot + 2, close);
    let found = CONVERSIONS.iter().find(|(name, _)| *name == method && arguments.is_empty());
    let meant = match found {
        Some((_, function)) => format!("{function}({operand})"),
        None if FUNCTIONS.contains(&method) && arguments.is_empty() => format!("{method}({operand})"),
        None if matches!(method, "matmul" | "mm" | "bmm") && !arguments.is_empty() => {
            format!("matmul({operand}, {arguments})")
        }
        None => {
            let (_, operator) = INFIX.iter().find(|(name, _)| *name == method && is_name(arguments))?;
            format!("{operand} {operator} {arguments}")
        }
    };
    let place = line.pieces[start].place.start..line.pieces[close].place.end;
    let shown = line.pieces[dot].place.start..line.pieces[dot + 1].place.end;
    let message = format!("tensors have no methods: `{method}` is written in front of its operand");
    Some(Habit { place: shown, ..Habit::replace_part(line, place, &meant, message) })
}

/// The first piece of the operand that ends at a piece: a name, a slice or a call.
fn operand_start(line: &CodeLine<'_>, last: usize) -> Option<usize> {
    let mut at = last;
    while matches!(line.piece_text(at), ")" | "]") {
        let depth = line.pieces[at].depth;
        let open = (0..at)
            .rev()
            .find(|&before| line.pieces[before].depth == depth && matches!(line.piece_text(before), "(" | "["))?;
        let has_name = open > 0 && (line.is_name(open - 1) || matches!(line.piece_text(open - 1), ")" | "]"));
        if !has_name {
            return Some(open);
        }
        at = open - 1;
    }
    line.is_name(at).then_some(at)
}

/// `op="sum"`.
pub(super) fn quoted_word(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    if matches!(line.piece_text(0), "assert" | "print" | "import" | "launch") {
        return None;
    }
    let at = (1..line.pieces.len())
        .find(|&at| line.piece_text(at).starts_with(['"', '\'']) && line.piece_text(at - 1) == "=")?;
    let word = line.piece_text(at).trim_matches(['"', '\'']);
    let is_argument = line.pieces[at].depth > 0 && is_name(word);
    is_argument.then(|| Habit::replace_part(line, line.pieces[at].place.clone(), word, "texts in quotes are no values"))
}

/// `send(A, to: 1)`.
pub(super) fn keyword_with_colon(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let at = (2..line.pieces.len()).find(|&at| {
        let is_key = line.is_name(at - 1) && matches!(line.piece_text(at - 2), "(" | ",");
        line.piece_text(at) == ":" && is_key && in_parentheses(line, at)
    })?;
    let key = line.piece_text(at - 1);
    let place = line.pieces[at - 1].place.start..line.pieces.get(at + 1)?.place.start;
    let shown = line.pieces[at].place.clone();
    let message = "an argument is `value` or `key=value`";
    Some(Habit { place: shown, ..Habit::replace_part(line, place, &format!("{key}="), message) })
}

/// True if the innermost bracket around a piece is a `(`.
fn in_parentheses(line: &CodeLine<'_>, at: usize) -> bool {
    let depth = line.pieces[at].depth;
    let open = (0..at)
        .rev()
        .find(|&before| line.pieces[before].depth + 1 == depth && matches!(line.piece_text(before), "(" | "[" | "{"));
    open.is_some_and(|open| line.piece_text(open) == "(")
}

/// A `;` at the end of a line with another error.
pub(super) fn end_of_statement(line: &CodeLine<'_>, _: &LineContext<'_>) -> Option<Habit> {
    let last = line.pieces.len().checked_sub(1).filter(|&last| line.piece_text(last) == ";")?;
    let place = line.pieces[last].place.clone();
    Some(Habit::replace_part(line, place, "", "a statement ends with its line, without `;`"))
}
