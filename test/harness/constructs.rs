//! Every construct that nvFuser prints, each in a minimal program: it reads, prints byte for byte and runs as a table
//! says.
//!
//! `test/constructs/table.tsv` has a row for each construct: group, text, `yes` or the code of the error for reading,
//! and the same for a run on the CPU (`-` if it does not read). `other` says that it prints otherwise, `printed` that it
//! does not come back from `hir 2`. A construct that begins to run fails the test as one that stops does; `tools/bless
//! constructs` brings the table up to date. Rows are added and never removed: the first line has their number.
#![allow(clippy::panic, reason = "failures panic")]

mod program;

use hostir_lit::programs::{self, Finished, Invocation};
use hostir_test::tree;
use program::ConstructProgram;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const TABLE: &str = "test/constructs/table.tsv";
/// The first line of the table, before its number of rows.
const COUNT: &str = "# rows: ";
/// So many differences are shown.
const SHOWN: usize = 20;

/// A line of the table.
struct Row {
    group: String,
    construct: String,
    reads: String,
    runs: String,
}

/// How a construct fares today.
#[derive(PartialEq, Eq)]
struct Outcome {
    reads: String,
    runs: String,
    /// The text of the program, or what went wrong.
    report: String,
}

/// The table: the number of rows in its first line, its other comments, and its rows.
struct Table {
    count: usize,
    comments: Vec<String>,
    rows: Vec<Row>,
}

fn table_path() -> PathBuf {
    tree::root().join(TABLE)
}

fn read_table() -> Table {
    let text = tree::read(&table_path());
    let mut table = Table { count: 0, comments: Vec::new(), rows: Vec::new() };
    for line in text.lines() {
        if let Some(count) = line.strip_prefix(COUNT) {
            table.count = count.parse().unwrap_or_else(|_| panic!("{TABLE}: `{count}` is no number"));
        } else if line.starts_with('#') {
            table.comments.push(line.to_owned());
        } else {
            table.rows.push(read_row(line));
        }
    }
    table
}

/// A row; its last two columns may be missing until they are blessed.
fn read_row(line: &str) -> Row {
    let mut columns = line.split('\t').map(str::to_owned);
    let (Some(group), Some(construct)) = (columns.next(), columns.next()) else {
        panic!("{TABLE}: a row has a group, a construct, `reads` and `runs`, with tabs between them: {line}");
    };
    Row { group, construct, reads: columns.next().unwrap_or_default(), runs: columns.next().unwrap_or_default() }
}

fn write_table(table: &Table, outcomes: &[Outcome]) {
    let mut text = format!("{COUNT}{}\n", table.rows.len());
    for comment in &table.comments {
        let _ = writeln!(text, "{comment}");
    }
    for (row, outcome) in table.rows.iter().zip(outcomes) {
        let _ = writeln!(text, "{}\t{}\t{}\t{}", row.group, row.construct, outcome.reads, outcome.runs);
    }
    std::fs::write(table_path(), text).expect("the table is writable");
}

/// Runs a tool on the program.
fn run_tool(words: &[&str], text: &str, scratch: &Path) -> Finished {
    let context = tree::context(scratch);
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let stdin = text.as_bytes().to_vec();
    programs::run_program(&words, Invocation::with_input(stdin, &context))
}

/// The code of the first error.
fn error_code(finished: &Finished) -> String {
    let text = String::from_utf8_lossy(&finished.err);
    let code = text.split_once("error[").and_then(|(_, rest)| rest.split_once(']'));
    code.map_or_else(|| format!("status {}", finished.code), |(code, _)| code.to_owned())
}

fn outcome(row: &Row, scratch: &Path) -> Outcome {
    let Some(program) = ConstructProgram::of_row(&row.group, &row.construct) else {
        panic!("{TABLE}: `{}` is no group, or has another form than `{}`", row.group, row.construct);
    };
    let text = &program.text;
    let printed = run_tool(&["hir-opt", "-"], text, scratch);
    let errors = |finished: &Finished| format!("{text}{}", String::from_utf8_lossy(&finished.err));
    if printed.code != 0 {
        return Outcome { reads: error_code(&printed), runs: "-".to_owned(), report: errors(&printed) };
    }
    let back = String::from_utf8_lossy(&printed.out);
    let in_hir2 = reads_in_hir2(text, scratch);
    let reads = match (back == *text, &in_hir2) {
        (true, Ok(())) => "yes",
        (true, Err(_)) => "printed",
        (false, _) => "other",
    };
    let reads = reads.to_owned();
    let words: Vec<&str> = ["hir-run", "-"].into_iter().chain(program.flags.iter().map(String::as_str)).collect();
    let ran = run_tool(&words, text, scratch);
    let runs = if ran.code == 0 { "yes".to_owned() } else { error_code(&ran) };
    let report = match (reads.as_str(), in_hir2) {
        ("other", _) => format!("{text}prints\n{back}"),
        (_, Err(report)) => report,
        (_, Ok(())) => errors(&ran),
    };
    Outcome { reads, runs, report }
}

/// Writes a program in `hir 2` and reads that back; an error with the texts if it does not come back.
fn reads_in_hir2(text: &str, scratch: &Path) -> Result<(), String> {
    let written = run_tool(&["hir-opt", "-", "--form=hir2"], text, scratch);
    let hir2 = String::from_utf8_lossy(&written.out);
    let again = run_tool(&["hir-opt", "-", "--form=hir2"], &hir2, scratch);
    let error = String::from_utf8_lossy(if written.code == 0 { &again.err } else { &written.err });
    match written.code == 0 && again.code == 0 && again.out == written.out {
        true => Ok(()),
        false => Err(format!("{text}in `hir 2`\n{hir2}\nagain\n{}\n{error}", String::from_utf8_lossy(&again.out))),
    }
}

fn outcomes(rows: &[Row]) -> Vec<Outcome> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (found, next) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = rows.get(at) else { break };
                    let outcome = outcome(row, folder.path());
                    found.lock().expect("no thread panics").push((at, outcome));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics");
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn constructs_read_print_and_run_as_the_table_says() {
    let table = read_table();
    let distinct: BTreeSet<(&str, &str)> = table.rows.iter().map(|row| (&*row.group, &*row.construct)).collect();
    assert_eq!(distinct.len(), table.rows.len(), "{TABLE} has a row twice");
    assert!(table.rows.len() >= table.count, "{TABLE} had {} rows: none may be removed", table.count);
    let outcomes = outcomes(&table.rows);
    if std::env::var_os("HIR_BLESS").is_some() {
        return write_table(&table, &outcomes);
    }
    let mut differences = Vec::new();
    for (row, outcome) in table.rows.iter().zip(&outcomes) {
        if (&row.reads, &row.runs) != (&outcome.reads, &outcome.runs) {
            let Row { group, construct, reads, runs } = row;
            let Outcome { reads: reads_now, runs: runs_now, report } = outcome;
            differences.push(format!(
                "{group} {construct}: reads {reads}, now {reads_now}; runs {runs}, now {runs_now}\n{report}"
            ));
        }
    }
    let count = differences.len();
    differences.truncate(SHOWN);
    assert!(count == 0, "{count} rows differ; `tools/bless constructs` accepts them\n{}", differences.join("\n"));
    assert_eq!(table.rows.len(), table.count, "rows were added: `tools/bless constructs` counts them");
}
