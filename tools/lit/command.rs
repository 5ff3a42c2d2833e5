//! The command line of `hir-lit`.

use crate::case::{RunSettings, TestCase};
use crate::context::InProcessTool;
use crate::discovery::{find_run_without_colon, find_tests};
use crate::features::FeatureSet;
use crate::interrupts::{ProcessGroups, handle_signals};
use crate::journal::{Journal, JournalState};
use crate::programs::collect_tool_panics;
use crate::report::{Report, ReportOptions};
use crate::schedule::JournaledTests;
use crate::supervisor::{journal_path, run_supervised};
use crate::update;
use clap::Parser;
use hostir_tool_support::explain::print_explanation;
use regex::Regex;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// Exit status if a test failed, and if none could run.
const FAILED: u8 = 1;
const UNUSABLE: u8 = 2;

/// Runs the tests of folders: files with RUN lines, in the language of LLVM's lit.
///
/// Exit status: 0 if no test failed, 1 if one did, 2 if the command line or a lit.toml is wrong or there are no tests.
#[derive(Parser, Debug)]
#[command(name = "hir-lit", version = hostir_tool_support::VERSION, max_term_width = 100)]
struct Arguments {
    /// Folders and files with tests
    #[arg(required_unless_present = "explain", value_name = "FOLDER")]
    paths: Vec<PathBuf>,
    /// Print each test
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print what all tests did
    #[arg(short = 'a', long)]
    show_all: bool,
    /// Print failed tests and the summary only
    #[arg(short, long, short_alias = 's')]
    quiet: bool,
    /// Run the tests whose names match
    #[arg(long, value_name = "REGEX")]
    filter: Option<String>,
    /// Leave out the tests whose names match
    #[arg(long, value_name = "REGEX")]
    filter_out: Option<String>,
    /// Run part K of N, from 1
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Run so many tests beside each other
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Seconds that each test may take; 0 for any number
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Say that a feature holds
    #[arg(long, value_name = "NAME")]
    feature: Vec<String>,
    /// Define the substitution %{NAME}
    #[arg(short = 'D', long, value_name = "NAME=TEXT")]
    define: Vec<String>,
    /// Start hir-opt, hir-run and filecheck as processes
    #[arg(long)]
    spawn: bool,
    #[command(flatten)]
    reports: ReportFiles,
    #[command(flatten)]
    changes: Changes,
    /// List the tests
    #[arg(long)]
    list: bool,
    /// Explain the code of a diagnostic, such as H0701: a wrong program and a right one; without CODE, list all
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
    /// Run the tests as the process that another hir-lit started
    #[arg(long, hide = true, value_name = "FOLDER")]
    worker_folder: Option<PathBuf>,
}

impl Arguments {
    /// True if tools run as functions, which can end the process.
    fn needs_supervisor(&self, tools: &[InProcessTool]) -> bool {
        let runs_tools = !self.spawn && !self.list && !self.changes.update && !tools.is_empty();
        runs_tools && self.worker_folder.is_none()
    }
}

/// Reports beside the one for people.
#[derive(clap::Args, Debug)]
struct ReportFiles {
    /// Write a report in JUnit's format
    #[arg(long, value_name = "FILE")]
    xunit: Option<PathBuf>,
    /// Write a report in lit's JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print the slowest tests, and how many take how long
    #[arg(long)]
    time_tests: bool,
}

/// The options that change tests.
#[derive(clap::Args, Debug)]
struct Changes {
    /// Write the CHECK lines that the tools' outputs give
    #[arg(long, conflicts_with = "bless")]
    update: bool,
    /// Write the files that `diff FILE -` compares with
    #[arg(long)]
    bless: bool,
}

/// A part of the tests.
#[derive(Clone, Copy, Debug)]
struct Shard {
    part: usize,
    parts: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
        let numbers = numbers.filter(|(part, parts)| (1..=*parts).contains(part));
        numbers.map(|(part, parts)| Self { part, parts }).ok_or_else(|| "give K/N with K from 1 to N".to_owned())
    }
}

/// Runs `hir-lit` with these arguments (the program's name first) and tools; returns its exit status.
pub fn main_with(args: &[OsString], tools: Vec<InProcessTool>) -> u8 {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(error) => {
            // There is nobody to report a closed stream to.
            let _ = error.print();
            return if error.use_stderr() { UNUSABLE } else { 0 };
        }
    };
    if let Some(asked) = &arguments.explain {
        return print_explanation("hir-lit", asked);
    }
    if arguments.needs_supervisor(&tools) {
        // If no second process can be started, one has to do.
        if let Ok(status) = run_supervised(args) {
            return status;
        }
    }
    collect_tool_panics();
    match run_command(&arguments, tools) {
        Ok(true) => 0,
        Ok(false) => FAILED,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "hir-lit: error: {message}");
            UNUSABLE
        }
    }
}

/// Runs, updates or lists the tests; `false` if one failed.
fn run_command(arguments: &Arguments, tools: Vec<InProcessTool>) -> Result<bool, String> {
    let tests = select_tests(arguments)?;
    if arguments.list {
        let names: String = tests.iter().map(|test| test.full_name() + "\n").collect();
        let _ = std::io::stdout().write_all(names.as_bytes());
        return Ok(true);
    }
    let shared = arguments.worker_folder.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::Builder::new().prefix("hir-lit-").tempdir_in(shared);
    let scratch = scratch.map_err(|error| format!("no temporary folder: {error}"))?;
    let groups = ProcessGroups::default();
    let handled = handle_signals(groups.clone(), scratch.path().to_path_buf());
    handled.map_err(|error| format!("cannot handle signals: {error}"))?;
    let journal = arguments.worker_folder.as_deref().map(journal_path);
    let earlier = journal.as_deref().map(JournalState::read_journal).unwrap_or_default();
    let run = RunSettings {
        isolated: earlier.culprits.keys().cloned().collect(),
        tools,
        scratch: Some(scratch.path().to_path_buf()),
        groups,
        spawn: arguments.spawn,
        bless: arguments.changes.bless,
        features: FeatureSet::with_given(arguments.feature.iter().cloned()),
        timeout: arguments.timeout,
    };
    if arguments.changes.update {
        return Ok(update::update_tests(&tests, &run, &mut std::io::stdout()));
    }
    let workers = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let options = ReportOptions {
        verbose: arguments.verbose > 0,
        show_all: arguments.show_all,
        failures_only: arguments.quiet,
        time_tests: arguments.reports.time_tests,
    };
    let report = Report::begin(&tests, workers, options, earlier.is_resumed());
    let journal = journal.and_then(|path| Journal::open(&path).ok());
    let work = JournaledTests { tests: &tests, run: &run, workers, journal };
    work.run_left(earlier, report).finish(arguments.reports.xunit.as_deref(), arguments.reports.json.as_deref())
}

/// The tests that the command line names.
fn select_tests(arguments: &Arguments) -> Result<Vec<TestCase>, String> {
    let mut tests = find_tests(&arguments.paths)?;
    if tests.is_empty() {
        let nearly = arguments.paths.iter().find_map(|path| find_run_without_colon(path));
        let hint = nearly.map_or_else(String::new, |place| format!("; {place} has `RUN` without `:`, write `RUN: ..`"));
        return Err(format!("no tests in {}: a test is a file with a RUN line{hint}", display_paths(&arguments.paths)));
    }
    let filter = arguments.filter.as_deref().map(pattern).transpose()?;
    let out = arguments.filter_out.as_deref().map(pattern).transpose()?;
    tests.retain(|test| {
        let name = test.full_name();
        filter.as_ref().is_none_or(|filter| filter.is_match(&name))
            && !out.as_ref().is_some_and(|out| out.is_match(&name))
    });
    if tests.is_empty() {
        return Err("no test's name passes the filters".to_owned());
    }
    if let Some(Shard { part, parts }) = arguments.shard {
        tests = tests.into_iter().skip(part - 1).step_by(parts).collect();
    }
    for test in tests.iter_mut().filter(|_| !arguments.define.is_empty()) {
        let settings = Arc::make_mut(&mut test.settings);
        for definition in &arguments.define {
            let (name, text) = definition.split_once('=').ok_or_else(|| format!("-D {definition}: give NAME=TEXT"))?;
            settings.substitutions.define(name, text);
        }
    }
    Ok(tests)
}

fn display_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string())
}
