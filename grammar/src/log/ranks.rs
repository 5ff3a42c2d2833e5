//! Compares the printed programs of the processes of a run.

use super::streams::{LogContents, LogItem, LoggedProgram};
use super::tags::tag_family;
use crate::error::{Code, SyntaxError};
use crate::span::Span;
use rustc_hash::FxHashMap;

/// Tags that a message names.
const MAX_NAMED: usize = 8;

/// The programs that several processes printed at one place of their outputs.
struct Siblings<'p> {
    programs: Vec<&'p LoggedProgram>,
}

/// The result of comparing the programs of a log.
pub(super) struct RankComparison {
    /// A warning for each program that processes printed differently.
    pub(super) notices: Vec<SyntaxError>,
    /// True if the log has the same program of several processes, and no other one.
    pub(super) is_one_program: bool,
}

/// Compares the first programs of all processes with each other, the second ones, and so on. Processes belong
/// together if their tags differ in numbers only.
pub(super) fn compare_ranks(text: &str, contents: &LogContents) -> RankComparison {
    let mut notices = Vec::new();
    let groups = group_siblings(contents);
    let is_one_group = groups.len() == 1;
    for siblings in &groups {
        let kinds = group_equal(text, siblings);
        if let [first, others @ ..] = &kinds[..] {
            notices.extend(others.iter().map(|other| difference_notice(text, contents, first, other)));
        }
    }
    let all = contents.items.iter().filter(|item| matches!(item, LogItem::Program(_))).count();
    let is_one_program = is_one_group && notices.is_empty() && all > 1 && groups[0].programs.len() == all;
    RankComparison { notices, is_one_program }
}

fn group_siblings(contents: &LogContents) -> Vec<Siblings<'_>> {
    let families: Vec<String> = contents.tags.iter().map(|tag| tag_family(&tag.form)).collect();
    let mut counts = vec![0usize; contents.tags.len()];
    let mut places: FxHashMap<(&str, usize), usize> = FxHashMap::default();
    let mut groups: Vec<Siblings<'_>> = Vec::new();
    for item in &contents.items {
        let LogItem::Program(program) = item else { continue };
        // A page has a sentence in front of a program on one line.
        if program.is_folded {
            continue;
        }
        let count = &mut counts[program.stream];
        let place = (families[program.stream].as_str(), *count);
        *count += 1;
        let group = *places.entry(place).or_insert_with(|| {
            groups.push(Siblings { programs: Vec::new() });
            groups.len() - 1
        });
        groups[group].programs.push(program);
    }
    groups
}

/// The programs by their text, in the order in which the texts appear.
fn group_equal<'p>(text: &str, siblings: &Siblings<'p>) -> Vec<Vec<&'p LoggedProgram>> {
    if siblings.programs.len() < 2 {
        return Vec::new();
    }
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    let mut kinds: Vec<Vec<&LoggedProgram>> = Vec::new();
    for program in &siblings.programs {
        let kind = *places.entry(comparable_text(text, program)).or_insert_with(|| {
            kinds.push(Vec::new());
            kinds.len() - 1
        });
        kinds[kind].push(program);
    }
    kinds
}

/// The text of a program with numbers in the place of the addresses of streams, which differ in each process.
fn comparable_text(text: &str, program: &LoggedProgram) -> String {
    let mut out = String::new();
    let mut addresses: FxHashMap<&str, usize> = FxHashMap::default();
    for line in &program.lines {
        let mut rest = text[line.start..line.end].trim_end();
        while let Some(at) = rest.find("0x") {
            let digits = rest[at + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
            let (address, after) = rest[at..].split_at(2 + digits);
            let count = addresses.len();
            let number = *addresses.entry(address).or_insert(count);
            out.push_str(&rest[..at]);
            out.push_str(&format!("0x{number}"));
            rest = after;
        }
        out.push_str(rest);
        out.push('\n');
    }
    let kept = out.trim_end().len();
    out.truncate(kept);
    out
}

fn difference_notice(
    text: &str,
    contents: &LogContents,
    first: &[&LoggedProgram],
    other: &[&LoggedProgram],
) -> SyntaxError {
    let [named, other_named] = [first, other].map(|programs| name_tags(contents, programs));
    let message = format!("{other_named} printed another program than {named}");
    let (Some(a), Some(b)) = (first.first(), other.first()) else {
        return SyntaxError::new(Code::RanksDiffer, Span::default(), message);
    };
    let line = first_difference(text, a, b);
    let [first, other] = [a, b].map(|program| line_span(text, program, line));
    SyntaxError::new(Code::RanksDiffer, other, message)
        .with_label("this line differs")
        .with_second_label(first, "from this one")
        .with_note("each is a program of its own, in the order of their first lines: select one with `--container=N`")
}

/// The number of the first line in which two programs differ.
fn first_difference(text: &str, a: &LoggedProgram, b: &LoggedProgram) -> usize {
    let [a, b] = [a, b].map(|program| comparable_text(text, program));
    a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count()
}

/// The text of a line, or of the last one.
fn line_span(text: &str, program: &LoggedProgram, number: usize) -> Span {
    let Some(line) = program.lines.get(number).or(program.lines.last()) else { return Span::default() };
    let own = &text[line.start..line.end];
    let start = line.start + (own.len() - own.trim_start().len());
    Span::new(start, start.max(line.start + own.trim_end().len()))
}

/// The tags of the streams that programs belong to.
fn name_tags(contents: &LogContents, programs: &[&LoggedProgram]) -> String {
    let tags: Vec<String> =
        programs.iter().take(MAX_NAMED).map(|program| format!("`{}`", contents.tags[program.stream].text)).collect();
    match programs.len().saturating_sub(MAX_NAMED) {
        0 => tags.join(", "),
        more => format!("{} and {more} others", tags.join(", ")),
    }
}
