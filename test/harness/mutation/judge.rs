//! The two judges of mutants.

use hostir::backend::cpu::schedule_oracle::{OracleLimits, ScheduleVerdict, judge_all_schedules};
use hostir::diag::{Diag, Severity};
use hostir::ir::Program;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::plan_checks::prove_program;

/// The verdict of the toolchain: reading, verifying, planning and the proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ToolVerdict {
    /// Refused before there is a plan, with this code.
    Unplanned(String),
    /// Refused by the proof: code and message.
    Unproved(String, String),
    /// Accepted.
    Accepted,
}

/// The verdict of the oracle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OracleVerdict {
    /// There is no plan to run.
    Unplanned,
    /// Too large for the oracle.
    TooLarge,
    /// The same under all orders.
    Equal,
    /// Wrong: the code and message of the first error.
    Wrong(String, String),
}

/// Both verdicts on a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Judgement {
    /// The toolchain's.
    pub(crate) tool: ToolVerdict,
    /// The oracle's.
    pub(crate) oracle: OracleVerdict,
}

/// The relation of two verdicts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Agreement {
    /// Both refuse, or both accept, or only one could judge.
    Same,
    /// The oracle finds an error that the proof does not.
    Missed,
    /// The proof finds an error that the oracle does not.
    OnlyProof,
}

impl Judgement {
    /// The relation of the verdicts.
    pub(crate) fn agreement(&self) -> Agreement {
        match (&self.tool, &self.oracle) {
            (ToolVerdict::Accepted, OracleVerdict::Wrong(..)) => Agreement::Missed,
            (ToolVerdict::Unproved(..), OracleVerdict::Equal) => Agreement::OnlyProof,
            _ => Agreement::Same,
        }
    }
    /// Both verdicts in words.
    pub(crate) fn verdict_text(&self) -> String {
        let tool = match &self.tool {
            ToolVerdict::Unplanned(code) => format!("refused without a plan {code}"),
            ToolVerdict::Unproved(code, message) => format!("refused {code} {message}"),
            ToolVerdict::Accepted => "accepted".to_owned(),
        };
        let oracle = match &self.oracle {
            OracleVerdict::Unplanned => "none".to_owned(),
            OracleVerdict::TooLarge => "too large".to_owned(),
            OracleVerdict::Equal => "equal".to_owned(),
            OracleVerdict::Wrong(code, message) => format!("wrong {code} {message}"),
        };
        format!("proof: {tool}; oracle: {oracle}")
    }
}

/// The sizes that programs are judged at.
pub(crate) fn judged_sizes(every: i64, streams: u32) -> SizeSettings {
    SizeSettings { every: Some(every), streams, memory_limit: 1 << 26, ..SizeSettings::default() }
}

/// Judges a program's text.
pub(crate) fn judge_text(text: &str, sizes: &SizeSettings) -> Judgement {
    match prepare_text(text, sizes) {
        Ok(prepared) => judge_prepared(&prepared),
        Err(code) => Judgement { tool: ToolVerdict::Unplanned(code), oracle: OracleVerdict::Unplanned },
    }
}

/// Plans a program's text.
///
/// # Errors
/// The code of the first error.
pub(crate) fn prepare_text(text: &str, sizes: &SizeSettings) -> Result<PreparedProgram, String> {
    let program = load_program(text)?;
    prepare_program(&program, sizes).map_err(|diags| first_code(&diags.items))
}

/// Reads and verifies a program's text.
///
/// # Errors
/// The code of the first error.
pub(crate) fn load_program(text: &str) -> Result<Program, String> {
    let (mut programs, mut diags) = hostir::load(text);
    if let Some(program) = programs.first() {
        hostir::verify::verify(program, &mut diags);
    }
    match programs.pop() {
        Some(program) if !diags.has_errors() => Ok(program),
        _ => Err(first_code(&diags.items)),
    }
}

fn first_code(diags: &[Diag]) -> String {
    diags.iter().find(|diag| diag.severity == Severity::Error).map_or(String::new(), |diag| diag.code.to_owned())
}

/// Judges plans.
pub(crate) fn judge_prepared(prepared: &PreparedProgram) -> Judgement {
    let limits =
        OracleLimits { most_taken: 1 << 21, most_elements: 1 << 20, most_waits: 1 << 20, ..Default::default() };
    let verdict = judge_all_schedules(prepared, &limits);
    let oracle = match &verdict {
        ScheduleVerdict::Equal => OracleVerdict::Equal,
        ScheduleVerdict::TooLarge => OracleVerdict::TooLarge,
        ScheduleVerdict::Race(_) | ScheduleVerdict::Deadlock(_) | ScheduleVerdict::Misuse(_) => {
            let diags = verdict.to_diags(prepared);
            let first = diags.first();
            let (code, message) = first.map_or(("", ""), |diag| (diag.code, diag.message.as_str()));
            OracleVerdict::Wrong(code.to_owned(), message.to_owned())
        }
    };
    let report = prove_program(prepared);
    let tool = report
        .errors
        .first()
        .map_or(ToolVerdict::Accepted, |diag| ToolVerdict::Unproved(diag.code.to_owned(), diag.message.to_string()));
    Judgement { tool, oracle }
}
