//! Prints the mutation table: `mutation_table [--only TEXT] [--most N] [--seed N] [--streams N] [--write FOLDER] [--list]`.
//!
//! Every program of the tree that both judges call right is changed by the operators of `mutation::operators`, and each
//! mutant is judged by the toolchain and by the schedule oracle. `--only` takes programs whose names hold a text,
//! `--most` takes at most so many mutants of a program, chosen by `--seed`; `--write` writes the disagreements into a
//! folder, and `--list` prints one line for each.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

#[allow(dead_code, reason = "the tests use a part of it")]
mod mutation;

use mutation::corpus::{BaseProgram, STREAMS, list_programs};
use mutation::judge::{Agreement, Judgement, OracleVerdict, ToolVerdict, judge_text};
use mutation::operators::{MutantProgram, list_mutants};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The options of the command line.
#[derive(Default)]
struct TableOptions {
    only: String,
    most: Option<usize>,
    seed: u64,
    write: Option<PathBuf>,
    list: bool,
    /// The value of `numberOfStreams`.
    streams: Option<u32>,
}

/// A row of the table.
#[derive(Clone, Copy, Default)]
struct TableRow {
    mutants: usize,
    unplanned: usize,
    unproved: usize,
    accepted: usize,
    wrong: usize,
    missed: usize,
    only_proof: usize,
    unjudged: usize,
}

fn main() -> ExitCode {
    let Some(options) = parse_options() else {
        eprintln!("usage: mutation_table [--only TEXT] [--most N] [--seed N] [--streams N] [--write FOLDER] [--list]");
        return ExitCode::from(2);
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let programs = list_programs(&root, &options.only, options.streams.unwrap_or(STREAMS));
    let mut table: BTreeMap<String, TableRow> = BTreeMap::new();
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let mut right = 0;
    for program in &programs {
        if program.is_right() {
            right += 1;
            judge_mutants(program, &options, &mut table, &mut refused);
        } else if options.list || program.judgement.agreement() != Agreement::Same {
            println!("program {}: {}", program.name, program.judgement.verdict_text());
        }
    }
    println!("{} programs, {right} of them right", programs.len());
    print_table(&table, &refused);
    ExitCode::SUCCESS
}

fn parse_options() -> Option<TableOptions> {
    let mut options = TableOptions::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => options.only = words.next()?,
            "--most" => options.most = Some(words.next()?.parse().ok()?),
            "--seed" => options.seed = words.next()?.parse().ok()?,
            "--write" => options.write = Some(PathBuf::from(words.next()?)),
            "--streams" => options.streams = Some(words.next()?.parse().ok()?),
            "--list" => options.list = true,
            _ => return None,
        }
    }
    Some(options)
}

/// Judges the mutants of a program and counts the verdicts.
fn judge_mutants(
    program: &BaseProgram,
    options: &TableOptions,
    table: &mut BTreeMap<String, TableRow>,
    refused: &mut BTreeMap<String, usize>,
) {
    let mut mutants = list_mutants(&program.text, program.ranks);
    if let Some(most) = options.most {
        fastrand::Rng::with_seed(options.seed).shuffle(&mut mutants);
        mutants.truncate(most);
    }
    for mutant in mutants {
        let judged = std::panic::catch_unwind(|| judge_text(&mutant.text, &program.sizes));
        let Ok(judgement) = judged else {
            println!("panic: {}: {}", program.name, mutant.change);
            write_disagreement(program, &mutant, "panic", options);
            continue;
        };
        table.entry(mutant.operator.clone()).or_default().add_verdicts(&judgement);
        if let ToolVerdict::Unproved(code, _) | ToolVerdict::Unplanned(code) = &judgement.tool {
            *refused.entry(code.clone()).or_default() += 1;
        }
        if judgement.agreement() != Agreement::Same {
            let verdict = judgement.verdict_text();
            if options.list {
                println!("{:?}: {}: {}: {verdict}", judgement.agreement(), program.name, mutant.change);
                let _ = std::io::stdout().flush();
            }
            write_disagreement(program, &mutant, &verdict, options);
        }
    }
}

impl TableRow {
    fn add_verdicts(&mut self, judgement: &Judgement) {
        self.mutants += 1;
        match judgement.tool {
            ToolVerdict::Unplanned(_) => self.unplanned += 1,
            ToolVerdict::Unproved(..) => self.unproved += 1,
            ToolVerdict::Accepted => self.accepted += 1,
        }
        self.wrong += usize::from(matches!(judgement.oracle, OracleVerdict::Wrong(..)));
        self.unjudged += usize::from(judgement.oracle == OracleVerdict::TooLarge);
        self.missed += usize::from(judgement.agreement() == Agreement::Missed);
        self.only_proof += usize::from(judgement.agreement() == Agreement::OnlyProof);
    }
    fn cells(&self) -> [usize; 8] {
        [
            self.mutants,
            self.unplanned,
            self.unproved,
            self.accepted,
            self.wrong,
            self.missed,
            self.only_proof,
            self.unjudged,
        ]
    }
}

/// Writes a mutant with both verdicts as comments.
fn write_disagreement(program: &BaseProgram, mutant: &MutantProgram, verdict: &str, options: &TableOptions) {
    let Some(folder) = &options.write else { return };
    let digest = mutant.text.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let name = format!("{}_{digest:08x}.hir", mutant.operator.replace(' ', "_"));
    let every = program.sizes.every.unwrap_or(1);
    let text = format!(
        "// {}\n// {}\n// {verdict}\n// hir-run --set '*={every}' --streams {} --check-only\n{}",
        program.name, mutant.change, program.sizes.streams, mutant.text
    );
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(folder.join(name), text));
    if let Err(error) = written {
        eprintln!("mutation_table: {}: {error}", folder.display());
    }
}

fn print_table(table: &BTreeMap<String, TableRow>, refused: &BTreeMap<String, usize>) {
    let heads = ["mutants", "no plan", "unproved", "accepted", "wrong", "missed", "only proof", "unjudged"];
    println!("| operator | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len()));
    let mut sums = [0; 8];
    for (operator, row) in table {
        let cells = row.cells();
        cells.iter().zip(&mut sums).for_each(|(cell, sum)| *sum += cell);
        println!("| {operator} | {} |", cells.map(|cell| cell.to_string()).join(" | "));
    }
    println!("| all | {} |", sums.map(|cell| cell.to_string()).join(" | "));
    for (code, count) in refused {
        println!("{code}: {count}");
    }
}
