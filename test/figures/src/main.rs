//! Prints figures about the sources of this repository: see [`HELP`].
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program's own output")]

use hostir_figures::report::Figures;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Counts what this repository promises about its own sources.

usage: cargo run -p hostir-figures -- [OPTIONS] [ROOT]

  --worst N    places of each figure, the N worst
  --cycles N   the files and arrows of import cycles of at least N files
  --help       this text

ROOT is the repository; without it, the one that this program was built from. Exit status: 0 success, 2 the command line is
wrong, 3 a source cannot be read.
";

/// A command line.
struct Request {
    root: PathBuf,
    worst: Option<usize>,
    cycles: Option<usize>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let request = match parse(&words) {
        Ok(request) => request,
        Err(problem) => {
            eprint!("figures: {problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let figures = match Figures::of(&request.root) {
        Ok(figures) => figures,
        Err(problem) => {
            eprintln!("figures: {problem}");
            return ExitCode::from(3);
        }
    };
    print!("{}", figures.table());
    if let Some(count) = request.worst {
        print!("{}", figures.worst(count));
    }
    if let Some(smallest) = request.cycles {
        print!("{}", figures.cycle_text(smallest));
    }
    ExitCode::SUCCESS
}

fn parse(words: &[String]) -> Result<Request, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    let mut request = Request { root: here.to_path_buf(), worst: None, cycles: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--worst" => request.worst = Some(number(value()?)?),
            "--cycles" => request.cycles = Some(number(value()?)?),
            flag if flag.starts_with('-') => return Err(format!("unknown option `{flag}`")),
            root => request.root = PathBuf::from(root),
        }
    }
    Ok(request)
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}
