//! Lists of passes and ops: `--list-passes`, `--list-ops`.

use super::fixing::TextRun;
use super::mistakes::OpMistake;
use super::pass_page::{describe_option, pass_object, pass_page, steps_text};
use hostir::diag::nearest_function;
use hostir::diag::{Diag, Span};
use hostir::hir2::forms::statement_forms;
use hostir::ir::functions::{CASTS, function_names, listed_functions};
use hostir::ir::{COMMUNICATION_WORDS, CallPadding, OpKind, OpLayout, OwnForm, WordLink, statement_word};
use hostir::ops::pointwise::POINTWISE;
use hostir::ops::{ArgKind, ArgPresence, ArgSpec, EqualsSpacing, OpRegistry, OpSpec};
use hostir_passes::pipeline::find_pass;
use hostir_passes::{PassInfo, PassRegistry, ToolRegistries};
use hostir_tool_support::terminal::wrap_text;
use serde_json::{Value, json};
use std::fmt::Write;

/// Every pass with its options, or all about the pass of this name, as text or as data.
///
/// # Errors
/// A name that no pass has.
pub(super) fn passes_text(name: &str, registries: ToolRegistries, is_data: bool, width: usize) -> Result<String, Diag> {
    let ToolRegistries { ops, passes } = registries;
    let pass = if name.is_empty() { None } else { Some(find_pass(name, Span::new(0, name.len()), passes)?) };
    Ok(match (pass, is_data) {
        (None, false) => list_passes(passes, width),
        (Some(pass), false) => pass_page(pass, ops, width),
        (None, true) => format!("{:#}\n", passes.passes().map(|pass| pass_object(pass, ops)).collect::<Value>()),
        (Some(pass), true) => format!("{:#}\n", pass_object(pass, ops)),
    })
}

fn list_passes(passes: PassRegistry, width: usize) -> String {
    let column = passes.passes().map(|pass| pass.name.len()).max().unwrap_or(0) + 2;
    passes.passes().map(|pass| describe_pass(pass, column, width)).collect()
}

fn describe_pass(pass: &PassInfo, column: usize, width: usize) -> String {
    let summary = wrap_text(pass.summary, column, column, width);
    let mut out = format!("{:column$}{summary}\n", pass.name);
    if let Some(steps) = steps_text(pass) {
        // A pipeline may have blanks after its commas.
        let _ = writeln!(out, "  = {}", wrap_text(&steps.replace(',', ", "), 4, 4, width));
    }
    for option in pass.options {
        out.push_str(&describe_option(option, width));
    }
    out
}

/// The forms of all ops in `hir 2`, each from the start of a line, then those of the printed form alone.
pub(super) fn list_ops(ops: OpRegistry, width: usize) -> String {
    let (mut forms, mut printed) = (String::new(), String::new());
    for kind in ops.kinds() {
        let of_kind = statement_forms(kind);
        for form in of_kind.lines() {
            let _ = writeln!(forms, "{}", wrap_text(form, 0, 4, width));
        }
        if of_kind.is_empty() {
            let _ = writeln!(printed, "{}", form_within(kind, width));
        }
    }
    format!(
        "{forms}\nWritten in the printed form alone, in `hir 2` in backquotes:\n\n{printed}\n\
         A and B are operands, T is the result; `T: type` needs its type, and [..] may be\n\
         left out. `--list-ops=NAME` describes an op in detail, with its printed form.\n"
    )
}

/// All ops, or those of this name, as data.
///
/// # Errors
/// A name that no op has.
pub(super) fn ops_data(run: TextRun, name: &str, ops: OpRegistry) -> Result<String, String> {
    let kinds = ops.kinds();
    let found: Vec<Value> =
        kinds.filter(|kind| name.is_empty() || is_named(*kind, name, ops)).map(|kind| op_object(run, kind)).collect();
    if found.is_empty() { Err(unknown_op(name, ops)) } else { Ok(format!("{:#}\n", Value::from(found))) }
}

/// The description of the op with this name, function name or spelling of another era; else an error about the name.
///
/// # Errors
/// A name that no op has.
pub(super) fn describe_by_name(run: TextRun, name: &str, ops: OpRegistry, width: usize) -> Result<String, String> {
    let kinds: Vec<OpKind> = ops.kinds().filter(|kind| is_named(*kind, name, ops)).collect();
    if !kinds.is_empty() {
        return Ok(kinds.iter().map(|kind| describe_op(run, *kind, width)).collect::<Vec<_>>().join("\n"));
    }
    if let Some(text) = describe_function(name) {
        return Ok(text);
    }
    Err(unknown_op(name, ops))
}

fn unknown_op(name: &str, ops: OpRegistry) -> String {
    let names = ops.kinds().map(OpKind::name);
    match nearest_function(name, names.chain(ops.head_words()).chain(function_names())) {
        Some(near) => format!("unknown op `{name}`; did you mean `{near}`?"),
        None => format!("unknown op `{name}`; `--list-ops` lists all ops"),
    }
}

fn is_named(kind: OpKind, name: &str, ops: OpRegistry) -> bool {
    kind.name() == name || ops.find_op(name) == Some(kind) || has_word_of_hir2(kind, name)
}

/// True for a word by which `hir 2` spells the op, or one type of it.
fn has_word_of_hir2(kind: OpKind, word: &str) -> bool {
    let is_collective = COMMUNICATION_WORDS.iter().any(|(known, _)| *known == word);
    match kind.name() {
        "Communication" => is_collective,
        "P2PCommunication" => matches!(word, "send" | "recv"),
        "CollectivePermute" => word == "permute",
        name => statement_word(name) == Some(word),
    }
}

/// An op as data: its forms in both notations and its arguments.
fn op_object(run: TextRun, kind: OpKind) -> Value {
    let spec = kind.spec();
    let arguments = spec.args.iter().map(|arg| json!({ "name": argument_title(arg), "value": argument_contents(arg) }));
    json!({
        "name": kind.name(),
        "summary": spec.summary,
        "forms": statement_forms(kind).lines().collect::<Vec<_>>(),
        "printed_form": op_form(kind),
        "spellings": spec.spellings.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "arguments": arguments.collect::<Value>(),
        "mistake": OpMistake::of_op(run, kind).map(|mistake| mistake.data()),
    })
}

fn describe_op(run: TextRun, kind: OpKind, width: usize) -> String {
    let spec = kind.spec();
    let mut out = String::new();
    for form in statement_forms(kind).lines() {
        let _ = writeln!(out, "{}", wrap_text(form, 0, 4, width));
    }
    let _ = writeln!(out, "  {}", wrap_text(spec.summary, 2, 2, width));
    let _ = writeln!(out, "  Printed form: {}", wrap_text(&op_form(kind), 16, 4, width));
    let others: Vec<&str> = spec.spellings.iter().map(|(name, _)| *name).collect();
    if !others.is_empty() {
        let _ = writeln!(out, "  Spelling by version: {}", others.join(", "));
    }
    if kind.is_pointwise() {
        let named: Vec<&str> = listed_functions().map(|function| function.name).collect();
        let casts: Vec<&str> = CASTS.iter().map(|(name, _)| *name).collect();
        let _ = writeln!(out, "  f: {}", wrap_text(&named.join(" "), 5, 5, width));
        let _ = writeln!(out, "  casts: {}", wrap_text(&casts.join(" "), 9, 9, width));
    }
    let column = spec.args.iter().map(|arg| argument_title(arg).len()).max().unwrap_or(0) + 4;
    for arg in spec.args {
        let text = wrap_text(&argument_contents(arg), column, column, width);
        let _ = writeln!(out, "  {:1$}{text}", argument_title(arg), column - 2);
    }
    if let Some(mistake) = OpMistake::of_op(run, kind).and_then(|mistake| mistake.summary()) {
        let _ = writeln!(out, "\n  A mistake and its message:\n");
        for line in mistake.lines() {
            let _ = writeln!(out, "{}", wrap_summary_line(line, width));
        }
    }
    out
}

/// A line of a summary of a mistake, indented; one that is too wide is continued below its text.
fn wrap_summary_line(line: &str, width: usize) -> String {
    let text = line.trim_start_matches([' ', '=']);
    let start = line.len() - text.len();
    if start + 4 + text.chars().count() <= width {
        return format!("    {line}");
    }
    let column = start + 4;
    format!("    {}{}", &line[..start], wrap_text(text, column, if start == 0 { 6 } else { column }, width))
}

/// A function that pointwise ops compute.
fn describe_function(name: &str) -> Option<String> {
    let found: Vec<String> = listed_functions()
        .filter(|function| function.name == name)
        .map(|function| match (function.is_operator(), function.arity) {
            (true, 1) => format!("T = {name}A;"),
            (true, _) => format!("T = A {name} B;"),
            (false, arity) => {
                format!("T = {name}({});", ["A", "B", "C", "D"][..arity.min(4)].join(", "))
            }
        })
        .collect();
    let cast = CASTS.iter().any(|(cast, _)| *cast == name).then(|| format!("T = {name}(A);"));
    let forms: Vec<String> = found.into_iter().chain(cast).collect();
    (!forms.is_empty()).then(|| format!("{}\n  {}\n", forms.join("\n"), POINTWISE.summary))
}

/// The form of an op, on several lines if one would be wider than `width`.
fn form_within(kind: OpKind, width: usize) -> String {
    let form = op_form(kind);
    if form.chars().count() <= width { form } else { wrap_text(&form, 0, 4, width) }
}

/// The form of an op, on one line.
fn op_form(kind: OpKind) -> String {
    let spec = kind.spec();
    match kind.layout() {
        OpLayout::Own(form) => own_form(form, spec),
        OpLayout::Pointwise => "T = f(A, B);   T = A + B;   T = -A;".to_owned(),
        OpLayout::Define => "name = expression;".to_owned(),
        OpLayout::Words(WordLink::None) if spec.args.is_empty() => kind.name().to_owned(),
        OpLayout::Words(WordLink::None) if kind.is_wait() => format!("{} Communication N", kind.name()),
        OpLayout::Words(WordLink::None) => format!("{} Stream N", kind.name()),
        OpLayout::Words(WordLink::To) => format!("{} to Stream N", kind.name()),
        OpLayout::Words(WordLink::Number) => format!("{} N", kind.name()),
        OpLayout::Keyed => format!("{} N ({})", kind.name(), argument_list(spec)),
        OpLayout::ResultList => format!("(T, U) = {}({})", kind.name(), argument_list(spec)),
        layout => call_form(spec, if is_padded(layout) && !spec.args.is_empty() { " " } else { "" }),
    }
}

/// `T = name( A, B )`
fn call_form(spec: &OpSpec, blank: &str) -> String {
    let results = if spec.identity.layout == OpLayout::ResultTuple { "( T, U )" } else { "T" };
    format!("{results} = {}({blank}{}{blank})", spec.identity.name, argument_list(spec))
}

/// The form of a statement that only one op has.
fn own_form(form: OwnForm, spec: &OpSpec) -> String {
    let text = match form {
        OwnForm::Allocate => return call_form(spec, ""),
        OwnForm::Deallocate => "Deallocate { A }",
        OwnForm::LoopOverDomain => "FOR index in domain [from start to stop [step step]]:",
        OwnForm::LoopOverRange => "FOR index from start to stop [step step]:",
        OwnForm::Branch => "IF Manual condition:  ...  ELSE:",
        OwnForm::GetCurrentStream => "GetCurrentStream into Stream N",
        OwnForm::PostOnStream => "PostOnStream (HostUnitN, Inputs:{A, B, }, Outputs:{T, })",
        OwnForm::LaunchKernel => "LaunchKernel(Group ID: N, Inputs: {A, B, }, Outputs: {T, })",
        OwnForm::Scatter => return call_form(spec, ""),
        OwnForm::GroupedReduction => "GroupedReductionOp( T = reduction( A, op =, initial value = ) ... allreduce = )",
        OwnForm::Welford => "T(Avg), U(Var), V(Count) = Welford ( A(Avg), allreduce = )",
        OwnForm::GroupedWelford => {
            "GroupedWelford( T (Avg), U (Var), V (Count) = Welford ( A (Avg), B (Var), C (Count) initial value = D (Avg), E (Var), F (Count) ) ... allreduce = )"
        }
        OwnForm::ShareMemHandles => "ShareMemHandles(P2PCommunication N (...), P2PCommunication N (...), )",
    };
    text.to_owned()
}

fn is_padded(layout: OpLayout) -> bool {
    matches!(
        layout,
        OpLayout::ResultTuple | OpLayout::OneLine(CallPadding::Padded) | OpLayout::TwoLines(CallPadding::Padded)
    )
}

/// `A, B, dim =, index =?`
fn argument_list(spec: &OpSpec) -> String {
    let mut letters = ["A", "B", "C", "D"].into_iter();
    let texts = spec.args.iter().map(|arg| {
        let text = match (arg.word, arg.key) {
            (Some(word), _) if arg.equals == EqualsSpacing::Spaced => format!("{word} ="),
            (Some(word), _) => format!("{word}="),
            (None, Some(key)) => key.word().to_owned(),
            (None, None) => letters.next().unwrap_or("...").to_owned(),
        };
        let more = if arg.repeated { ", ..." } else { "" };
        let optional = if arg.presence == ArgPresence::Optional { "?" } else { "" };
        format!("{text}{more}{optional}")
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// `dim=`, `operand`.
fn argument_title(arg: &ArgSpec) -> String {
    match arg.word {
        Some(word) => format!("{word}="),
        None => arg.display_name().to_owned(),
    }
}

/// The values that an argument may have.
fn argument_contents(arg: &ArgSpec) -> String {
    let what = match arg.kind {
        ArgKind::Word(words) => format!("one of {}", words.join(", ")),
        ArgKind::Words(words) => format!("a list of {}", words.join(", ")),
        kind => kind.describe().to_owned(),
    };
    let result = if arg.result { ", the result" } else { "" };
    let optional = if arg.presence == ArgPresence::Optional { "; optional" } else { "" };
    let repeated = if arg.repeated { "; repeatable" } else { "" };
    format!("{what}{result}{repeated}{optional}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::OptArgs;
    use crate::fixing::JudgedText;
    use hostir_tool_support::io::ToolIo;

    /// Lists without the messages of mistakes.
    fn unjudged(_: &OptArgs, _: usize, _: &str, _: &mut ToolIo<'_>) -> Option<JudgedText> {
        None
    }

    fn describe(name: &str, width: usize) -> Result<String, String> {
        describe_by_name(unjudged, name, OpRegistry::OURS, width)
    }

    fn fits(text: &str) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// A new op or pass must fit too.
    #[test]
    fn lists_fit_80_columns() {
        fits(&list_passes(PassRegistry::OURS, 80));
        fits(&list_ops(OpRegistry::OURS, 80));
        for kind in OpRegistry::OURS.kinds() {
            fits(&describe_op(unjudged, kind, 80));
        }
        for pass in PassRegistry::OURS.passes() {
            // Examples and tables are as wide as they are.
            let page = pass_page(pass, OpRegistry::OURS, 80);
            let text = page.split("\nBefore --pass").next().unwrap_or_default();
            fits(&text.lines().filter(|line| !line.starts_with("  |")).collect::<Vec<_>>().join("\n"));
        }
    }

    /// The descriptions of options and ops are complete for every width.
    #[test]
    fn lists_are_complete() {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (list, forms) = (words(&list_passes(PassRegistry::OURS, 60)), list_ops(OpRegistry::OURS, 200));
        for pass in PassRegistry::OURS.passes() {
            assert!(list.contains(&words(pass.summary)), "{}", pass.name);
            assert!(words(&pass_page(pass, OpRegistry::OURS, 60)).contains(&words(pass.description)), "{}", pass.name);
            for option in pass.options {
                assert!(list.contains(&words(option.help)), "{}: {}", pass.name, option.name);
            }
        }
        for kind in OpRegistry::OURS.kinds() {
            let name = kind.name();
            let text = describe(name, 200).unwrap();
            let of_kind = statement_forms(kind);
            let printed = if of_kind.is_empty() { op_form(kind) } else { String::new() };
            for line in of_kind.lines().chain(printed.lines()) {
                assert!(forms.contains(line), "{name}: {line}");
                assert!(text.contains(line), "{text}");
            }
            assert!(words(&text).contains(&words(&op_form(kind))), "{text}");
        }
    }

    #[test]
    fn functions_and_spellings_are_found() {
        assert!(describe("relu", 80).unwrap().starts_with("T = relu(A);\n"));
        assert!(describe("-", 80).unwrap().starts_with("T = -A;\nT = A - B;\n"));
        assert!(describe("reshape", 80).unwrap().starts_with("T: type = view(A)\n"));
        assert!(describe("allreduce", 80).unwrap().starts_with("h = allgather(A -> T"));
        assert!(describe("recv", 80).unwrap().starts_with("h = send(A"));
        assert!(describe("alloc", 80).unwrap().starts_with("T: type = alloc"));
        assert_eq!(describe("for", 80).unwrap().matches("FOR index").count(), 2);
        assert_eq!(describe("FOR", 80).unwrap().matches("FOR index").count(), 2);
        assert_eq!(
            describe("comunication", 80).unwrap_err(),
            "unknown op `comunication`; did you mean `Communication`?"
        );
        assert_eq!(describe("", 80).unwrap_err(), "unknown op ``; `--list-ops` lists all ops");
    }
}
