//! The errors of hir-run about a wrong program, and the results of their advice.

use super::edits::Mistake;
use hostir_run::run::main_with;
use hostir_tool_support::io::ToolIo;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::Path;

/// The result of the advice of an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum AdviceOutcome {
    /// An edit makes the program right.
    RightEdit,
    /// An edit makes it a program that is proved and computes something else.
    OtherEdit,
    /// An edit leaves it wrong.
    WrongEdit,
    /// Code in the words, written in place of the statement or before or after it, makes it right.
    RightWords,
    /// There are only words, whose code does not.
    OtherWords,
}

/// The judgement of the errors of a wrong program.
#[derive(Clone, Debug)]
pub(super) struct ErrorJudgement {
    /// True if the first error shows a line of the mistake.
    pub(super) is_located: bool,
    /// The result of its advice.
    pub(super) advice: AdviceOutcome,
    /// True if an edit that a tool may apply does not make the program right.
    pub(super) is_surely_wrong: bool,
    /// The number of further errors that show no line of the mistake.
    pub(super) cascades: usize,
    /// Code of the advice that looks like a statement and is none.
    pub(super) no_statements: Vec<String>,
}

/// The maximum number of texts that are tried for the words of an error.
const MOST_TRIED: usize = 24;

/// Judges what is said about a mistake; `None` if the program is accepted.
pub(super) fn judge_mistake(mistake: &Mistake, right: &Path) -> Option<ErrorJudgement> {
    let text = &mistake.text;
    let ToolAnswer { status, said, .. } = run_tool(&["--check-only", "--error-format=json"], text);
    if status == 0 {
        return None;
    }
    let diags = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let errors: Vec<Value> = diags.filter(|diag| diag["severity"] == "error").collect();
    let first = errors.first()?;
    let touches = |error: &Value| shown_lines(text, error).iter().any(|line| mistake.lines.contains(line));
    let (advice, is_surely_wrong) = judge_advice(text, first, right);
    Some(ErrorJudgement {
        is_located: touches(first),
        advice,
        is_surely_wrong,
        cascades: errors[1..].iter().filter(|error| !touches(error)).count(),
        no_statements: quoted_codes(first).into_iter().filter(|code| is_no_statement(code)).collect(),
    })
}

/// Returns true if a program is proved, and equal to itself.
pub(super) fn is_right(text: &str, file: &Path) -> bool {
    outcome_of(text, file) == TextOutcome::Right
}

/// The errors as a person sees them.
pub(super) fn shown_errors(text: &str) -> String {
    run_tool(&["--check-only"], text).said
}

/// The outcome of the advice of an error; true if an edit that a tool may apply is wrong.
fn judge_advice(text: &str, error: &Value, right: &Path) -> (AdviceOutcome, bool) {
    let mut best = None;
    let mut is_surely_wrong = false;
    for fix in list_of(&error["fixes"]) {
        let Some(repaired) = apply_fix(text, fix) else { continue };
        let is_sure = fix["applicability"] == "MachineApplicable";
        // Another error may need its own edit.
        let outcome = match outcome_of(&repaired, right) {
            TextOutcome::Refused if is_sure => outcome_of(&fixed_text(&repaired), right),
            outcome => outcome,
        };
        let outcome = match outcome {
            TextOutcome::Right => AdviceOutcome::RightEdit,
            TextOutcome::Other => AdviceOutcome::OtherEdit,
            TextOutcome::Refused => AdviceOutcome::WrongEdit,
        };
        is_surely_wrong |= is_sure && outcome != AdviceOutcome::RightEdit;
        best = Some(best.map_or(outcome, |best: AdviceOutcome| best.min(outcome)));
    }
    let words = || match written_texts(text, error).iter().any(|text| outcome_of(text, right) == TextOutcome::Right) {
        true => AdviceOutcome::RightWords,
        false => AdviceOutcome::OtherWords,
    };
    (best.unwrap_or_else(words), is_surely_wrong)
}

/// A program beside the right one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TextOutcome {
    /// It is proved and computes the same.
    Right,
    /// It is proved and computes something else.
    Other,
    /// It is refused.
    Refused,
}

fn outcome_of(text: &str, right: &Path) -> TextOutcome {
    let reference = format!("--reference={}", right.display());
    if run_tool(&["-q", &reference], text).status == 0 {
        return TextOutcome::Right;
    }
    match run_tool(&["-q", "--check-only"], text).status {
        0 => TextOutcome::Other,
        _ => TextOutcome::Refused,
    }
}

/// The text with all edits that a tool may apply.
fn fixed_text(text: &str) -> String {
    run_tool(&["-q", "--check-only", "--fix"], text).fixed
}

/// The answer of the tool.
struct ToolAnswer {
    status: i32,
    /// Standard error.
    said: String,
    /// Standard output.
    fixed: String,
}

/// Runs hir-run on a text.
fn run_tool(options: &[&str], text: &str) -> ToolAnswer {
    let words = ["hir-run", "-"].iter().chain(options);
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let (mut said, mut fixed) = (Vec::new(), Vec::new());
    let status = ToolIo::with_no_environment(|io| {
        let mut own = ToolIo {
            stdin: &mut text.as_bytes(),
            stdout: &mut fixed,
            stderr: &mut said,
            cwd: io.cwd.clone(),
            color: false,
            terminal: false,
            columns: None,
            error_columns: None,
            env: |_| None,
            exe: None,
            gpus: io.gpus.clone(),
        };
        main_with(&words, &mut own)
    });
    let [said, fixed] = [said, fixed].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ToolAnswer { status, said, fixed }
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The bytes of a label or edit.
fn bytes_of(place: &Value) -> Option<(usize, usize)> {
    let start = usize::try_from(place["start"].as_u64()?).ok()?;
    Some((start, usize::try_from(place["end"].as_u64()?).ok()?.max(start)))
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// The lines that the labels and edits of an error show.
fn shown_lines(text: &str, error: &Value) -> BTreeSet<usize> {
    let edits = list_of(&error["fixes"]).iter().flat_map(|fix| list_of(&fix["edits"]));
    let labels = std::iter::once(error).chain(list_of(&error["labels"])).filter_map(bytes_of);
    let labels = labels.map(|(start, end)| line_of(text, start)..=line_of(text, end.max(start + 1) - 1));
    // An insertion stands between two lines.
    let edits = edits.filter_map(bytes_of).map(|(start, end)| match end - start {
        0 => line_of(text, start.max(1) - 1)..=line_of(text, start),
        _ => line_of(text, start)..=line_of(text, end - 1),
    });
    labels.chain(edits).flat_map(RangeInclusive::into_iter).collect()
}

/// The text with the edits of a fix; `None` if it has none.
fn apply_fix(text: &str, fix: &Value) -> Option<String> {
    let (mut out, mut done) = (String::new(), 0);
    for edit in list_of(&fix["edits"]) {
        let (start, end) = bytes_of(edit)?;
        out += text.get(done..start)?;
        out += edit["replacement"].as_str()?;
        done = end;
    }
    (done > 0 || !list_of(&fix["edits"]).is_empty()).then(|| out + &text[done..])
}

/// The code in backquotes of the notes and helps of an error.
fn quoted_codes(error: &Value) -> Vec<String> {
    let fixes = list_of(&error["fixes"]).iter().map(|fix| &fix["message"]);
    let texts = list_of(&error["notes"]).iter().chain(fixes).filter_map(Value::as_str);
    let quoted = Regex::new("`([^`]+)`").expect("a pattern");
    let codes = texts.flat_map(|text| quoted.captures_iter(text).map(|code| code[1].to_owned()).collect::<Vec<_>>());
    codes.collect()
}

/// The texts in which the code of an error's words stands in the place of what it is about, or before or after it.
fn written_texts(text: &str, error: &Value) -> Vec<String> {
    let Some((start, end)) = bytes_of(error) else { return Vec::new() };
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let line = &text[line_start..line_end];
    let body = line.rfind(": ").map_or(line.len() - line.trim_start().len(), |at| at + 2).min(start - line_start);
    let own = line.len() - line.trim_start().len();
    let (before, after) = (&text[..line_start], &text[line_end..]);
    let mut texts = Vec::new();
    for code in quoted_codes(error) {
        texts.push(format!("{}{code}{}", &text[..start], &text[end..]));
        texts.push(format!("{before}{}{code}{after}", &line[..own]));
        texts.push(format!("{before}{}{code}{after}", &line[..body]));
        texts.push(format!("{before}{}{code}\n{line}{after}", &line[..own]));
        texts.push(format!("{before}{line}\n{}{code}{after}", &line[..own]));
        // A declaration elsewhere: `G: f32[m, n]` for the one of `G`.
        texts.extend(redeclared(text, &code));
    }
    texts.truncate(MOST_TRIED);
    texts
}

/// The text in which a declaration stands for the one of the same name.
fn redeclared(text: &str, code: &str) -> Option<String> {
    let (name, _) = code.split_once(':')?;
    let pattern = Regex::new(&format!(r"\b{}: \w+\[[^\]]*\](?: @\w+)?", regex::escape(name))).ok()?;
    let place = pattern.find(text)?;
    let declared = code.split(" = ").next().unwrap_or(code);
    Some(format!("{}{declared}{}", &text[..place.start()], &text[place.end()..]))
}

/// Returns true for code that looks like a whole statement and cannot be read as one.
fn is_no_statement(code: &str) -> bool {
    let begins = ["wait ", "sync ", "stream ", "free "].iter().any(|word| code.starts_with(word));
    let looks = (begins || code.contains(" = ")) && !code.contains("..") && !code.ends_with(':') && !code.contains('…');
    let program = format!("hir 2.1\nsizes a=2\nmesh d = 0..a\nf(A: f32[a]) -> (B: f32[a]) on d:\n  {code}\n");
    looks && hostir::load(&program).1.items.iter().any(|diag| diag.code.starts_with("H00"))
}
