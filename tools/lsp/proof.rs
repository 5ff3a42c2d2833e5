//! Proofs in the background: a thread proves the programs of a text, and tries the fixes of its diagnostics.
//!
//! The thread works on one text at a time, once it has not changed for a moment. A change of the text cancels its work:
//! it looks between programs, stages and candidates of fixes, and a result that comes too late is dropped.

use crate::background::start_threads;
use crate::model_times::{ModelTimes, ProgramPlace, model_program};
use crate::settings::RunValues;
use crate::snapshot::{Snapshot, TextSection};
use crossbeam_channel::{Receiver, Sender, unbounded};
use hostir::ReadOptions;
use hostir::backend::weigh_program;
use hostir::diag::{Diag, Diags, Span, codes, count_text};
use hostir::ir::Program;
use hostir::lower::{PreparedProgram, prepare_program};
use hostir::plan::cost::CostModel;
use hostir::repair::{TextJudge, TextVerdict, TextWeight, add_further_errors, add_tested_fixes};
use hostir::verdict::{ProofOutcome, ProofVerdict, judge_program};
use hostir_tool_support::repairs::MOST_JUDGED;
use lsp_types::Uri;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time after which no more fixes are tried.
const MOST_TRYING: Duration = Duration::from_secs(5);

/// The time for which a text stays as it is before its proof begins: while somebody types there is none.
const STILLNESS: Duration = Duration::from_millis(100);

/// The longest text that fixes are looked for.
const MOST_TEXT: usize = 256 << 10;

/// A text whose programs are to be proved.
pub struct ProofJob {
    /// The document.
    pub uri: Uri,
    /// The text as it was read.
    pub snapshot: Arc<Snapshot>,
    /// Becomes true when the text has changed.
    pub cancelled: Arc<AtomicBool>,
}

/// A job until its proof begins: it does not keep a text that has changed in memory.
struct WaitingJob {
    uri: Uri,
    snapshot: Weak<Snapshot>,
    cancelled: Arc<AtomicBool>,
}

impl WaitingJob {
    /// Waits; the job if the text is still the same.
    fn start_still(self) -> Option<ProofJob> {
        if !is_cancelled(&self.cancelled) {
            std::thread::sleep(STILLNESS);
        }
        let snapshot = self.snapshot.upgrade().filter(|_| !is_cancelled(&self.cancelled))?;
        Some(ProofJob { uri: self.uri, snapshot, cancelled: self.cancelled })
    }
}

/// The findings of the thread about a text.
#[derive(Debug)]
pub struct ProofResult {
    /// The document.
    pub uri: Uri,
    /// The text as it was read.
    pub snapshot: Arc<Snapshot>,
    /// All diagnostics about it, with tested fixes and places in the document.
    pub diags: Vec<Diag>,
    /// The outcomes of its programs.
    pub outcomes: ProgramOutcomes,
}

/// The outcomes of the proofs of a text's programs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ProgramOutcomes {
    /// The verdicts, for the headers of programs.
    pub verdicts: Vec<ProgramVerdict>,
    /// The times of those that are proved.
    pub times: Vec<ModelTimes>,
}

/// The outcome of a program's proof in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramVerdict {
    /// The header of the program in the document.
    pub header: Span,
    /// `proved for n=8: 4 ranks`.
    pub title: String,
}

/// The thread that proves. It ends when this is dropped and its work is done.
pub struct ProofThread {
    jobs: Sender<WaitingJob>,
    /// The results, in the order of the jobs.
    pub results: Receiver<ProofResult>,
}

impl ProofThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn spawn() -> std::io::Result<Self> {
        let (jobs, waiting) = unbounded::<WaitingJob>();
        let (done, results) = unbounded();
        let threads = start_threads()?;
        let builder = std::thread::Builder::new().name("proof".to_owned());
        builder.spawn(move || {
            for job in waiting.iter().filter_map(WaitingJob::start_still) {
                // A bug of the proof costs a proof, not the server.
                let proof = std::panic::AssertUnwindSafe(|| threads.install(|| prove_text(&job)));
                let proved = std::panic::catch_unwind(proof);
                if let Ok(result) = proved
                    && !is_cancelled(&job.cancelled)
                    && done.send(result).is_err()
                {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, results })
    }

    /// Adds a job.
    pub fn add_job(&self, job: ProofJob) {
        let ProofJob { uri, snapshot, cancelled } = job;
        let snapshot = Arc::downgrade(&snapshot);
        // The thread lives as long as this sender.
        let _ = self.jobs.send(WaitingJob { uri, snapshot, cancelled });
    }
}

fn is_cancelled(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Relaxed)
}

/// Proves the programs of a text one after the other.
fn prove_text(job: &ProofJob) -> ProofResult {
    let (mut diags, mut outcomes) = (Vec::new(), ProgramOutcomes::default());
    for number in 0..job.snapshot.sections.len() {
        let found = prove_section(job, number, &mut outcomes);
        diags.extend(job.snapshot.sections[number].place_diags(&found));
    }
    ProofResult { uri: job.uri.clone(), snapshot: job.snapshot.clone(), diags, outcomes }
}

/// All diagnostics about a text of a document.
fn prove_section(job: &ProofJob, text: usize, outcomes: &mut ProgramOutcomes) -> Vec<Diag> {
    let (section, values, cancelled) = (&job.snapshot.sections[text], &job.snapshot.values, &*job.cancelled);
    let mut all = section.diags.clone();
    if section.has_errors() {
        if section.text.len() <= MOST_TEXT {
            add_further_errors(&section.text, &mut all, &mut Judge::new(values, cancelled, Some(0)));
        }
        let mut judge = Judge::new(values, cancelled, None);
        add_fixes(section, &mut all, &mut judge);
        return all;
    }
    for (number, program) in section.programs.iter().enumerate() {
        if is_cancelled(cancelled) {
            break;
        }
        let header = section.span_in_document(program.source().header);
        let model = values.cost_model();
        let (mut found, title) = match prepare_program(program, &values.size_settings(program)) {
            Ok(prepared) => {
                let judged = judge_program(program, &prepared, &model, false);
                let found: Vec<Diag> = judged.report.errors.into_iter().chain(judged.report.warnings).collect();
                if judged.verdict.outcome == ProofOutcome::Proved {
                    let place = ProgramPlace { section: text, program: number };
                    outcomes.times.extend(model_program(section, program, &prepared, &model, place));
                }
                (found, verdict_title(&judged.verdict))
            }
            Err(refused) => refusal(refused),
        };
        let mut judge = Judge::new(values, cancelled, Some(number));
        add_fixes(section, &mut found, &mut judge);
        all.extend(found);
        outcomes.verdicts.push(ProgramVerdict { header, title });
    }
    let mut sorted = Diags { items: all };
    sorted.sort_by_place();
    sorted.items
}

/// The errors of planning. Sizes that nobody has given are no mistake of the text.
fn refusal(refused: Diags) -> (Vec<Diag>, String) {
    let (open, errors): (Vec<Diag>, Vec<Diag>) =
        refused.items.into_iter().partition(|diag| [codes::SIZE_UNKNOWN, codes::MESH_SIZE_OPEN].contains(&diag.code));
    let title = match (errors.len(), open.first()) {
        (0, Some(first)) => format!("not proved: {}", first.message.as_str()),
        (count, _) => format!("not proved: {}", count_text(count, "error")),
    };
    (errors, title)
}

fn verdict_title(verdict: &ProofVerdict) -> String {
    let sizes: Vec<String> = verdict.sizes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let values = match sizes.is_empty() {
        true => String::new(),
        false => format!(" for {}", sizes.join(", ")),
    };
    let ranks = count_text(verdict.ranks as usize, "rank");
    match verdict.outcome {
        ProofOutcome::Proved if verdict.warnings > 0 => {
            format!("proved{values}, {ranks}: {}", count_text(verdict.warnings, "warning"))
        }
        ProofOutcome::Proved => format!("proved{values}, {ranks}"),
        ProofOutcome::Refused => format!("refused{values}, {ranks}: {}", count_text(verdict.errors, "error")),
        ProofOutcome::Hangs => format!("hangs{values}, {ranks}"),
    }
}

fn add_fixes(section: &TextSection, diags: &mut Vec<Diag>, judge: &mut Judge<'_>) {
    if section.text.len() <= MOST_TEXT && diags.iter().any(|diag| diag.primary.is_some()) {
        add_tested_fixes(&section.text, diags, judge);
    }
}

/// Judges changed texts as the thread judges the text.
struct Judge<'a> {
    options: ReadOptions,
    values: &'a RunValues,
    cancelled: &'a AtomicBool,
    /// The number of the program that is proved; `None` if the texts are read and verified only.
    proved: Option<usize>,
    /// The machine for which times are modelled.
    model: CostModel,
    end: Instant,
}

/// The verdict after which no more texts are judged.
const UNJUDGED: TextVerdict = TextVerdict { diags: Vec::new(), instructions: u64::MAX / 4 };

impl<'a> Judge<'a> {
    fn new(values: &'a RunValues, cancelled: &'a AtomicBool, proved: Option<usize>) -> Self {
        let (model, end) = (values.cost_model(), Instant::now() + MOST_TRYING);
        Self { options: values.read_options(), values, cancelled, proved, model, end }
    }

    fn is_over(&self) -> bool {
        is_cancelled(self.cancelled) || Instant::now() > self.end
    }

    /// The diagnostics of reading a text, and the program that is proved.
    fn read_text(&self, text: &str) -> (Vec<Diag>, Option<Program>) {
        let section = TextSection::read_linked(text, &self.options);
        let has_errors = section.has_errors();
        let program = self.proved.filter(|_| !has_errors).and_then(|at| section.programs.into_iter().nth(at));
        (section.diags, program)
    }

    fn prepare(&self, program: &Program) -> Result<(PreparedProgram, u64), Diags> {
        let prepared = prepare_program(program, &self.values.size_settings(program))?;
        let instructions = prepared.plans.iter().map(|plan| plan.inst_count() as u64).sum();
        Ok((prepared, instructions))
    }
}

impl TextJudge for Judge<'_> {
    fn is_proving(&self) -> bool {
        self.proved.is_some()
    }

    fn read_options(&self) -> ReadOptions {
        self.options.clone()
    }

    fn judge_text(&mut self, text: &str) -> TextVerdict {
        if self.is_over() {
            return UNJUDGED;
        }
        let (mut diags, program) = self.read_text(text);
        let Some(program) = program else { return TextVerdict { diags, instructions: 0 } };
        match self.prepare(&program) {
            Err(refused) => TextVerdict { diags: refused.items, instructions: 0 },
            Ok((prepared, instructions)) => {
                if instructions <= MOST_JUDGED {
                    let report = judge_program(&program, &prepared, &self.model, false).report;
                    diags.extend(report.errors.into_iter().chain(report.warnings));
                }
                TextVerdict { diags, instructions }
            }
        }
    }

    fn weigh_text(&mut self, text: &str) -> Option<TextWeight> {
        if self.is_over() {
            return None;
        }
        let (_, program) = self.read_text(text);
        let (prepared, instructions) = self.prepare(&program?).ok()?;
        if instructions <= MOST_JUDGED { weigh_program(&prepared, &self.model) } else { None }
    }
}
