//! `--explain CODE`: prints the page of docs/errors about the code of a diagnostic.
//!
//! The pages are part of the tools, so that the explanation is that of the version that printed the message.

use crate::io::{ToolIo, terminal_columns};
use crate::status::ToolStatus;
use crate::terminal::{help_width, wrap_text};
use clap::{Arg, ArgMatches};
use hostir::diag::visible;
use std::collections::BTreeSet;
use std::io::Write as _;

/// The code and the text of a page.
type Page = (&'static str, &'static str);

/// All pages, in the order of the codes.
const PAGES: &[Page] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The id of the flag.
pub(crate) const EXPLAIN: &str = "explain";

/// Codes that an error proposes.
const PROPOSED: usize = 3;

/// The beginnings of messages.
const MESSAGES: [&str; 3] = ["error[", "warning[", "note["];

/// Digits of a code.
const CODE_DIGITS: usize = 4;

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

/// Prints what `--explain CODE` asks for as this process's output; returns its exit status. For tools whose command
/// lines are their own.
pub fn print_explanation(tool: &str, asked: &str) -> u8 {
    let width = help_width(|name| std::env::var_os(name), terminal_columns(std::io::stdout()));
    // There is nobody to report a closed stream to.
    match explanation(asked, width) {
        Ok(text) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
            0
        }
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "{tool}: error: {message}");
            u8::try_from(ToolStatus::Usage.exit_code()).unwrap_or(2)
        }
    }
}

/// The page of a code, or the list of all codes if none is asked for, for a terminal of this width. The text may be a
/// code (`H0701`, `h701`, `701`), or one with a code in it, such as the first line of a diagnostic.
///
/// # Errors
/// A text that has no code, or a code that does not exist; the message lists pages that may be meant.
pub fn explanation(asked: &str, width: usize) -> Result<String, String> {
    if asked.is_empty() {
        return Ok(PAGES.iter().map(|(code, page)| list_line(code, page, width)).collect());
    }
    let number = code_number(asked);
    let found = number.and_then(|number| PAGES.iter().find(|(code, _)| code_number(code) == Some(number)));
    found.map(|(_, page)| wrapped_page(page, width)).ok_or_else(|| {
        let shown = visible::escape_line(asked);
        let (problem, near) = match number {
            Some(number) => (format!("there is no code `{shown}`"), nearest_pages(number)),
            None => (format!("`{shown}` is not a code, such as `H0701`"), pages_about(asked)),
        };
        let lines: String = near.iter().map(|(code, page)| list_line(code, page, width)).collect();
        match number {
            _ if near.is_empty() => format!("{problem}; `--explain` without a value lists all"),
            Some(_) => format!("{problem}; the nearest are:\n{}", lines.trim_end()),
            None => format!("{problem}; pages with the words:\n{}", lines.trim_end()),
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

/// The number of a code: of `H0701`, `h701`, `701` or of the first code in a text, `error[H0701]: race on U`.
fn code_number(text: &str) -> Option<u32> {
    let whole = text.trim();
    let digits = whole.strip_prefix(['H', 'h']).unwrap_or(whole);
    let is_number = (1..=CODE_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(digits).or_else(|| digits_of_code_in(text))?.parse().ok()
}

/// The digits of the first code in a text.
fn digits_of_code_in(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.strip_prefix('H'));
    words.find(|word| word.len() == CODE_DIGITS && word.bytes().all(|byte| byte.is_ascii_digit()))
}

fn nearest_pages(number: u32) -> Vec<Page> {
    let mut pages = PAGES.to_vec();
    pages.sort_by_key(|(code, _)| code_number(code).unwrap_or(0).abs_diff(number));
    pages.truncate(PROPOSED);
    pages
}

/// The pages with the words of a text, the best first: a rare word counts more than a usual one, and a word of the
/// meaning or of the message more than one of the rest.
fn pages_about(text: &str) -> Vec<Page> {
    let wanted = words_of(text);
    let pages: Vec<(BTreeSet<String>, BTreeSet<String>)> =
        PAGES.iter().map(|(_, page)| (words_of(page), words_of(&head_of(page)))).collect();
    let mut scores = vec![0.0; PAGES.len()];
    for word in &wanted {
        let count = pages.iter().filter(|(all, _)| all.contains(word)).count();
        let weight = (PAGES.len() as f64 / count.max(1) as f64).ln();
        for (score, (all, head)) in scores.iter_mut().zip(&pages) {
            *score += if head.contains(word) { 4.0 * weight } else { f64::from(u8::from(all.contains(word))) * weight };
        }
    }
    let mut best: Vec<(f64, Page)> = scores.into_iter().zip(PAGES.iter().copied()).collect();
    best.retain(|(score, _)| *score > 0.0);
    // The sort is stable: of equals the first codes remain.
    best.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    best.into_iter().map(|(_, page)| page).take(PROPOSED).collect()
}

/// The meaning of a page and the first line of its message.
fn head_of(page: &str) -> String {
    let message = page.lines().find(|line| MESSAGES.iter().any(|word| line.starts_with(word)));
    let message = message.unwrap_or_default();
    format!("{} {message}", page.lines().nth(2).unwrap_or_default())
}

/// The words of a text in small letters, without a plural's ending.
fn words_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words.map(|word| word.strip_suffix('s').unwrap_or(&word).to_owned()).filter(|word| word.len() > 2).collect()
}
