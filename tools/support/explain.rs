//! `--explain CODE`: prints the page of docs/errors about the code of a diagnostic.
//!
//! The pages are part of the tools, so that the explanation is that of the version that printed the message.

use crate::io::ToolIo;
use crate::status::ToolStatus;
use crate::terminal::{help_width, wrap_text};
use clap::{Arg, ArgMatches};
use hostir::diag::visible;

/// The code and the text of each page, in the order of the codes.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The id of the flag.
pub(crate) const EXPLAIN: &str = "explain";

/// Codes that an error proposes.
const PROPOSED: usize = 3;

/// The flag. As with `--help`, other arguments do not matter then.
pub(crate) fn explain_flag() -> Arg {
    Arg::new(EXPLAIN).long("explain").value_name("CODE").num_args(0..=1).default_missing_value("").help(
        "Explain the code of a diagnostic, such as H0701: a wrong program and a right one; without CODE, list all",
    )
}

/// Prints what the command line asks for, if it asks for an explanation.
pub(crate) fn explain_code(matches: &ArgMatches, io: &mut ToolIo<'_>) -> Option<ToolStatus> {
    let asked = matches.get_one::<String>(EXPLAIN)?;
    let width = help_width(io.env, io.columns);
    Some(match explanation(asked, width) {
        Ok(text) => io.print_output(&text),
        Err(message) => {
            io.print_message(&format!("error: {message}"));
            ToolStatus::Usage
        }
    })
}

/// The page of a code, or the list of all codes if none is asked for.
fn explanation(asked: &str, width: usize) -> Result<String, String> {
    if asked.is_empty() {
        return Ok(PAGES.iter().map(|(code, page)| list_line(code, page, width)).collect());
    }
    let number = code_number(asked);
    let found = number.and_then(|number| PAGES.iter().find(|(code, _)| code_number(code) == Some(number)));
    found.map(|(_, page)| wrapped_page(page, width)).ok_or_else(|| {
        let shown = visible::escape_line(asked);
        match number {
            Some(number) => format!("there is no code `{shown}`; the nearest are {}", nearest_codes(number)),
            None => format!("`{shown}` is not a code, such as `H0701`; {}", codes_about(asked)),
        }
    })
}

/// The code and the first sentence of its meaning.
fn list_line(code: &str, page: &str, width: usize) -> String {
    let meaning = page.lines().nth(2).unwrap_or_default();
    let sentence = meaning.find(". ").map_or(meaning, |end| &meaning[..=end]);
    let indent = code.len() + 2;
    format!("{code}  {}\n", wrap_text(sentence, indent, indent, width))
}

/// The page with its paragraphs in lines; programs and messages stay as they are.
fn wrapped_page(page: &str, width: usize) -> String {
    let mut is_fenced = false;
    let lines = page.lines().map(|line| {
        is_fenced ^= line.starts_with("```");
        if is_fenced { line.to_owned() } else { wrap_text(line, 0, 0, width) }
    });
    lines.map(|line| line + "\n").collect()
}

/// The number of a code: of `H0701`, `h701`, `701` or `error[H0701]`.
fn code_number(text: &str) -> Option<u32> {
    let text = text.trim().trim_end_matches(']');
    let text = text.rsplit('[').next().unwrap_or(text);
    let digits = text.strip_prefix(['H', 'h']).unwrap_or(text);
    let is_number = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn nearest_codes(number: u32) -> String {
    let mut codes: Vec<&str> = PAGES.iter().map(|(code, _)| *code).collect();
    codes.sort_by_key(|code| code_number(code).unwrap_or(0).abs_diff(number));
    quoted_list(codes.into_iter().take(PROPOSED))
}

/// The codes whose pages have the word most often, or the way to see all.
fn codes_about(word: &str) -> String {
    let word = word.to_lowercase();
    let counts = PAGES.iter().map(|(code, page)| (page.to_lowercase().matches(&word).count(), *code));
    let mut about: Vec<(usize, &str)> = counts.filter(|(count, _)| *count > 0).collect();
    // The sort is stable: of equals the first codes remain.
    about.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    match about.is_empty() {
        true => "`--explain` without a value lists all".to_owned(),
        false => {
            format!("those with the word are {}", quoted_list(about.into_iter().map(|(_, code)| code).take(PROPOSED)))
        }
    }
}

fn quoted_list<'a>(codes: impl Iterator<Item = &'a str>) -> String {
    codes.map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ")
}
