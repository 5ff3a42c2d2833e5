//! The verdict about a program, with the sizes, ranks and streams for which it holds.

mod advice;
mod group_order;
mod output_advice;
mod queue_waste;
mod replicas;
mod tensor_writers;
mod trusted;

use crate::diag::components::PROOF;
use crate::diag::{Diag, codes, message};
use crate::ir::Program;
use crate::lower::PreparedProgram;
use crate::plan::cost::CostModel;
use crate::plan_checks::stream_count::{examine_more_streams, find_fewer_streams};
use crate::plan_checks::{ProofReport, check_wasted_time, prove_program};
use std::collections::BTreeMap;

pub use queue_waste::{FoundSkew, find_skews, model_time};
pub use trusted::{TrustedLaunch, trusted_launches};

/// The version of the proof's rules (`docs/language.md`, "Proof"). It is raised whenever a new rule may refuse a
/// program that was proved, or a refused one may be proved.
pub const RULES_VERSION: u32 = 2;

/// The outcome of a proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofOutcome {
    /// The program is right.
    Proved,
    /// The program is wrong, or has warnings that count as errors.
    Refused,
    /// Its ranks deadlock.
    Hangs,
}

impl ProofOutcome {
    /// `proved`, `refused` or `hangs`.
    pub fn word(self) -> &'static str {
        match self {
            ProofOutcome::Proved => "proved",
            ProofOutcome::Refused => "refused",
            ProofOutcome::Hangs => "hangs",
        }
    }
}

/// The verdict about a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProofVerdict {
    /// The outcome.
    pub outcome: ProofOutcome,
    /// The name of the program, if its text gives one.
    pub program: Option<String>,
    /// By name: the extents and integer scalar inputs.
    pub sizes: BTreeMap<String, i64>,
    /// Number of ranks.
    pub ranks: u32,
    /// The numbers of streams that were checked, the given one first.
    pub streams: Vec<u32>,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// The version of the rules.
    pub rules: u32,
    /// The launches that the proof takes as they are declared.
    pub trusted: Vec<TrustedLaunch>,
}

/// A program's verdict and what it rests on.
#[derive(Clone, Debug)]
pub struct JudgedProgram {
    /// The findings.
    pub report: ProofReport,
    /// The verdict.
    pub verdict: ProofVerdict,
}

/// Adds to a race the number of streams with which there is none.
fn add_stream_limit(program: &Program, prepared: &PreparedProgram, errors: &mut [Diag]) {
    let is_race = errors.iter().all(|error| error.code == codes::RACE);
    let Some(first) = errors.first_mut().filter(|_| is_race) else { return };
    if let Some(streams) = find_fewer_streams(program, prepared) {
        first.notes.push(message!(
            "right with at most {} streams (`streams {}`, `--streams {}`); this is with {}",
            streams,
            streams,
            streams,
            prepared.env.streams
        ));
    }
}

/// Proves a program as [`prove_program`] does. If it is right, proves it again with more streams and searches wasted
/// time by a cost model. With `strict` warnings are errors.
pub fn judge_program(program: &Program, prepared: &PreparedProgram, model: &CostModel, strict: bool) -> JudgedProgram {
    let mut report = prove_program(prepared);
    let mut streams = vec![prepared.env.streams];
    if report.errors.is_empty() {
        let more = examine_more_streams(program, prepared);
        streams.extend(more.checked);
        report.warnings.extend(more.warning);
        report.warnings.extend(replicas::check_replicas(program, prepared));
        report.warnings.extend(check_wasted_time(prepared));
        report.warnings.extend(queue_waste::check_queue_waste(program, prepared, model));
        report.warnings.extend(group_order::check_group_order(prepared, model));
    }
    advice::add_advice(program, prepared, &mut report.errors);
    add_stream_limit(program, prepared, &mut report.errors);
    if strict {
        report.errors.extend(report.warnings.drain(..).map(Diag::into_error));
    }
    let outcome = match report.errors.first() {
        None => ProofOutcome::Proved,
        Some(error) if error.code == codes::DEADLOCK => ProofOutcome::Hangs,
        Some(_) => ProofOutcome::Refused,
    };
    tracing::debug!(target: PROOF, outcome = outcome.word(), ?streams, warnings = report.warnings.len(), "judged");
    let sizes = prepared.env.host_values().map(|(name, value)| (program.name(name).to_owned(), value)).collect();
    let (ranks, errors, warnings) = (prepared.ranks, report.errors.len(), report.warnings.len());
    let name = program.given_names().program.map(|name| program.name(name).to_owned());
    let trusted = trusted_launches(program);
    let rules = RULES_VERSION;
    let verdict = ProofVerdict { outcome, program: name, sizes, ranks, streams, errors, warnings, rules, trusted };
    JudgedProgram { report, verdict }
}
