//! Runs a pipeline: verifies around every pass, rolls back changes that a pass must not leave, and records time,
//! statistics, op counts and remarks.

use crate::framework::analyses::KnownAnalyses;
use crate::framework::choice;
use crate::framework::pass::{OptionFault, PassAction, PassCx, PassInfo, PipelineWays};
use crate::framework::pipeline::{self, Pipeline, PipelineStep};
use crate::framework::registry::PassRegistry;
use hostir::diag::components::{PASS_MANAGER, codes_of};
use hostir::diag::{Diag, Diags};
use hostir::diag::{codes, message, panic_text};
use hostir::ir::Program;
use hostir::ir::edit::Edit;
use hostir::plan::cost::CostModel;
use hostir::verdict::ProofVerdict;
use hostir::verify::{VerifiedState, verify_edit, verify_with_state};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A pass that produced an invalid program: a bug in the pass.
const INVALID_RESULT: &str = "H0307";
/// A flag that names a pass outside of the pipeline.
const NEVER_RUNS: &str = "H0308";
/// A pass that changed nothing.
const NOTHING_TO_DO: &str = "H0309";
/// A pass was skipped because it is disabled.
const SKIPPED: &str = "H0310";

/// The maximum nesting depth of pipeline passes.
const MAX_DEPTH: usize = 8;

/// The passes after which the manager verifies the program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum VerifyEach {
    /// Those that touched it, by the journal of their edit: after the others it is as verified before. Rules of single
    /// ops are checked for what the pass changed.
    #[default]
    Changed,
    /// All, and the whole program.
    Always,
    /// None.
    Never,
}

/// The settings of the manager.
#[derive(Clone, Debug)]
pub struct Config {
    /// The passes that pipeline passes may name.
    pub passes: PassRegistry,
    /// The machine for which times are modelled.
    pub model: CostModel,
    /// Verify before the first pass; an invalid program runs no pass.
    pub verify_input: bool,
    /// The passes after which the program is verified.
    pub verify_each: VerifyEach,
    /// Passes that are skipped.
    pub disabled: Vec<&'static PassInfo>,
    /// Collect remarks.
    pub remarks: bool,
    /// A panic of a pass, or of the verification after it, is an error ([`codes::INTERNAL`]) and rolls the pass back;
    /// otherwise it is the caller's.
    pub contain_panics: bool,
}

impl Config {
    /// The configuration that verifies before the first pass and after each that changed something, keeps no remarks,
    /// and contains no panics.
    pub fn for_passes(passes: PassRegistry) -> Self {
        Self {
            passes,
            model: CostModel::of_default_machine(),
            verify_input: true,
            verify_each: VerifyEach::default(),
            disabled: Vec::new(),
            remarks: false,
            contain_panics: false,
        }
    }
}

/// Observes the program around every pass: dumps, progress.
pub trait PassObserver {
    /// Called before `pass` runs, also for passes inside of pipeline passes.
    fn before_pass(&mut self, pass: &'static PassInfo, program: &Program);
    /// Called after `pass` ran and its result was verified; `changed` is true if it changed the program.
    fn after_pass(&mut self, pass: &'static PassInfo, program: &Program, changed: bool);
    /// Called after `pass` failed, with the program that it rejected, or the invalid one that it left and that is
    /// dropped.
    fn after_failure(&mut self, pass: &'static PassInfo, program: &Program);
}

/// An observer that looks at nothing.
pub struct SilentObserver;

impl PassObserver for SilentObserver {
    fn before_pass(&mut self, _: &'static PassInfo, _: &Program) {}
    fn after_pass(&mut self, _: &'static PassInfo, _: &Program, _: bool) {}
    fn after_failure(&mut self, _: &'static PassInfo, _: &Program) {}
}

/// The record of one run of one pass.
#[derive(Clone, Debug)]
pub struct PassRun {
    /// The pass.
    pub pass: &'static PassInfo,
    /// The number of enclosing pipeline passes.
    pub depth: usize,
    /// True if the pass was skipped.
    pub skipped: bool,
    /// The time of the pass itself; for a pipeline pass, of everything in it.
    pub time: Duration,
    /// Time of the verification after it.
    pub verify_time: Duration,
    /// Ops of the program before.
    pub ops_before: usize,
    /// Ops of the program after.
    pub ops_after: usize,
    /// True if the pass changed anything.
    pub changed: bool,
    /// Its counters.
    pub statistics: Vec<(&'static str, u64)>,
}

/// The record of a pipeline.
#[derive(Clone, Default, Debug)]
pub struct PipelineReport {
    /// All runs in the order they started.
    pub runs: Vec<PassRun>,
    /// Warnings, and remarks if they were requested.
    pub notices: Diags,
    /// The verdicts of proofs, in the order of the passes.
    pub verdicts: Vec<ProofVerdict>,
}

/// The reason why a pipeline stopped. The program is as it was before the failed pass.
#[derive(Debug)]
pub struct PipelineFailure {
    /// The errors, those of `faults` first.
    pub errors: Diags,
    /// Errors that are the fault of option values.
    pub faults: Vec<OptionFault>,
    /// The pipeline's failed step; if it is a pipeline pass, not the step inside of it.
    pub step: usize,
    /// The pass that failed; `None` if the input was invalid.
    pub pass: Option<&'static PassInfo>,
    /// The steps that were still to run, the failed one first: with the present program, a test case.
    pub remaining: Pipeline,
    /// The record up to the failure.
    pub report: PipelineReport,
}

/// Runs `pipeline` on `program`.
///
/// # Errors
/// Fails if the program is invalid, and at the first pass that rejects the program or its options, or leaves an
/// invalid program. The program is then as it was before that pass.
///
/// # Examples
/// ```
/// use hostir_passes::PASSES;
/// use hostir_passes::manager::{Config, SilentObserver, run_pipeline};
/// use hostir_passes::pipeline::parse_pipeline;
///
/// let text = "\
/// %HostIrContainer { (T0_g_float[iS0{i0}]) -> (T1_g_float[iS1{i0}]) :
///   T1_g_float[iS1{i0}]
///      = relu(T0_g_float[iS0{i0}]);
///   T2_g_float[iS2{i0}]
///      = exp(T0_g_float[iS0{i0}]);
/// } // %HostIrContainer
/// ";
/// let (mut programs, _) = hostir::load(text);
/// let pipeline = parse_pipeline("canonicalize,dce", PASSES).expect("both passes are in the table");
/// let report = run_pipeline(&mut programs[0], &pipeline, &Config::default(), &mut SilentObserver)
///     .map_err(|failure| failure.errors)
///     .expect("the program is valid");
///
/// // Nothing reads T2.
/// assert!(report.runs[1].changed);
/// assert!(!hostir::print::print_to_string(&programs[0]).contains("exp"));
/// ```
pub fn run_pipeline(
    program: &mut Program,
    pipeline: &Pipeline,
    config: &Config,
    observer: &mut dyn PassObserver,
) -> Result<PipelineReport, Box<PipelineFailure>> {
    let mut verified = None;
    if config.verify_input {
        let mut errors = Diags::default();
        verified = verify_with_state(program, &mut errors);
        if errors.has_errors() {
            return Err(Box::new(PipelineFailure {
                errors,
                faults: Vec::new(),
                step: 0,
                pass: None,
                remaining: pipeline.clone(),
                report: PipelineReport::default(),
            }));
        }
    }
    run_verified_pipeline(program, verified, pipeline, config, observer)
}

/// Runs `pipeline`, as [`run_pipeline`] does, on a program that the caller has verified, with the state that this left:
/// after a pass only what it changed is then verified. Without the state the first verification is of the whole program.
///
/// # Errors
/// As [`run_pipeline`], for a valid program.
pub fn run_verified_pipeline(
    program: &mut Program,
    verified: Option<VerifiedState>,
    pipeline: &Pipeline,
    config: &Config,
    observer: &mut dyn PassObserver,
) -> Result<PipelineReport, Box<PipelineFailure>> {
    let mut manager = PassManager {
        config,
        observer,
        verified,
        analyses: KnownAnalyses::default(),
        op_count: count_ops(program),
        report: PipelineReport::default(),
    };
    if let Err(stop) = manager.run_steps(program, &pipeline.steps, 0) {
        let StepFailure { errors, faults, step, pass, remaining } = stop;
        let remaining = Pipeline { steps: remaining };
        let report = manager.report;
        let pass = Some(pass);
        return Err(Box::new(PipelineFailure { errors, faults, step, pass, remaining, report }));
    }
    manager.warn_never_ran();
    Ok(manager.report)
}

/// The reason why a step stopped, and the remaining steps.
struct StepFailure {
    errors: Diags,
    faults: Vec<OptionFault>,
    /// The step, at the depth that the error has reached on its way up.
    step: usize,
    pass: &'static PassInfo,
    remaining: Vec<PipelineStep>,
}

impl StepFailure {
    fn new(step: &PipelineStep, errors: Diags) -> Self {
        let remaining = vec![step.clone()];
        Self { errors, faults: Vec::new(), step: 0, pass: step.pass, remaining }
    }
    /// A stop at a pipeline pass with a wrong pipeline.
    fn at_bug(step: &PipelineStep, what: String) -> Self {
        let mut diags = Diags::default();
        diags.push(Diag::global_error(INVALID_RESULT, what));
        Self::new(step, diags)
    }
    /// With what is wrong with the options.
    fn with_faults(mut self, faults: Vec<OptionFault>) -> Self {
        self.errors.items.splice(0..0, faults.iter().map(|fault| fault.diag.clone()));
        self.faults = faults;
        self
    }
}

/// The verification of what a pass left.
struct ResultVerification {
    state: Option<VerifiedState>,
    time: Duration,
    found: Diags,
}

struct PassManager<'a> {
    config: &'a Config,
    observer: &'a mut dyn PassObserver,
    /// The result of the last verification; `None` if the program changed since without one.
    verified: Option<VerifiedState>,
    /// The analyses of the program as it is.
    analyses: KnownAnalyses,
    /// Its number of ops.
    op_count: usize,
    report: PipelineReport,
}

impl PassManager<'_> {
    fn run_steps(&mut self, program: &mut Program, steps: &[PipelineStep], depth: usize) -> Result<(), StepFailure> {
        for (index, step) in steps.iter().enumerate() {
            self.run_step(program, step, depth).map_err(|mut stop| {
                stop.step = index;
                stop.remaining.extend_from_slice(&steps[index + 1..]);
                stop
            })?;
        }
        Ok(())
    }

    fn run_step(&mut self, program: &mut Program, step: &PipelineStep, depth: usize) -> Result<(), StepFailure> {
        let pass = step.pass;
        let index = self.begin_pass(pass, depth);
        let span = tracing::debug_span!(target: PASS_MANAGER, "pass", name = pass.name, options = %step.options);
        let _entered = span.enter();
        if self.config.disabled.iter().any(|disabled| disabled.name == pass.name) {
            self.report.runs[index].skipped = true;
            tracing::debug!(target: PASS_MANAGER, "skipped: it is disabled");
            self.add_remark(|| Diag::global_error(SKIPPED, message!("skipped `{}`, which is disabled", pass.name)));
            return Ok(());
        }
        self.observer.before_pass(pass, program);
        let start = Instant::now();
        let changed = match pass.action {
            PassAction::Rewrite(action) => self.run_rewrite(program, step, index, action)?,
            PassAction::Pipeline(steps) => self.run_nested(program, step, depth, &steps(&step.options))?,
            PassAction::Choice { steps, ways } => {
                let chosen = self.choose_way(program, &ways(&step.options), pass);
                let text = chosen.unwrap_or_else(|| steps(&step.options));
                self.run_nested(program, step, depth, &text)?
            }
        };
        let run = &mut self.report.runs[index];
        run.time = start.elapsed().saturating_sub(run.verify_time);
        if changed {
            self.op_count = count_ops(program);
        }
        run.ops_after = self.op_count;
        run.changed = changed;
        let (ops_before, ops_after) = (run.ops_before, run.ops_after);
        tracing::debug!(target: PASS_MANAGER, changed, ops_before, ops_after, "done");
        if !changed {
            self.add_remark(|| Diag::global_error(NOTHING_TO_DO, message!("`{}` changed nothing", pass.name)));
        }
        self.observer.after_pass(pass, program, changed);
        Ok(())
    }

    fn begin_pass(&mut self, pass: &'static PassInfo, depth: usize) -> usize {
        let ops = self.op_count;
        self.report.runs.push(PassRun {
            pass,
            depth,
            skipped: false,
            time: Duration::ZERO,
            verify_time: Duration::ZERO,
            ops_before: ops,
            ops_after: ops,
            changed: false,
            statistics: Vec::new(),
        });
        self.report.runs.len() - 1
    }

    fn run_rewrite(
        &mut self,
        program: &mut Program,
        step: &PipelineStep,
        index: usize,
        action: fn(&mut Edit<'_>, &mut PassCx<'_>) -> Result<(), Diags>,
    ) -> Result<bool, StepFailure> {
        let pass = step.pass;
        let analyses = std::mem::take(&mut self.analyses);
        let mut cx = PassCx::new(pass, &step.options, &self.config.model, self.config.remarks).with_analyses(analyses);
        let mut edit = Edit::new(program);
        let result = self.contain_panic(pass, || action(&mut edit, &mut cx)).flatten();
        if edit.is_untouched() {
            self.analyses = cx.take_analyses();
        }
        self.report.verdicts.append(&mut cx.take_verdicts());
        let (statistics, notices, faults) = cx.finish();
        self.report.notices.items.extend(notices.items);
        if let Err(errors) = result {
            tracing::debug!(target: PASS_MANAGER, codes = ?codes_of(&errors.items), "failed, rolling back");
            // An edit rolls itself back when it is dropped without a commit.
            drop(edit);
            self.observer.after_failure(pass, program);
            return Err(StepFailure::new(step, errors).with_faults(faults));
        }
        let verified = self.verified.take();
        match self.contain_panic(pass, || self.verify_result(&edit, verified)) {
            Ok(ResultVerification { state, time, found }) => {
                self.verified = state;
                self.report.runs[index].verify_time = time;
                if found.has_errors() {
                    self.observer.after_failure(pass, edit.program());
                    return Err(StepFailure::new(step, invalid_result(pass, found)));
                }
            }
            Err(errors) => return Err(StepFailure::new(step, errors)),
        }
        self.report.runs[index].statistics = statistics;
        Ok(edit.commit())
    }

    /// Carries out work of a pass; a panic becomes an error, if that is wanted. The edit that the work was to change is
    /// then dropped, which rolls it back.
    fn contain_panic<T>(&self, pass: &PassInfo, work: impl FnOnce() -> T) -> Result<T, Diags> {
        if !self.config.contain_panics {
            return Ok(work());
        }
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panicked(pass, panic_text(&*panic)))
    }

    /// Verifies the program that a pass left, if that is wanted: what changed, given the state from before the pass, or
    /// for [`VerifyEach::Always`] all of it.
    fn verify_result(&self, edit: &Edit<'_>, before: Option<VerifiedState>) -> ResultVerification {
        let is_untouched = edit.is_untouched();
        let is_wanted = match self.config.verify_each {
            VerifyEach::Changed => !is_untouched,
            VerifyEach::Always => true,
            VerifyEach::Never => false,
        };
        tracing::debug!(target: PASS_MANAGER, untouched = is_untouched, verify = is_wanted, "returned");
        if !is_wanted {
            let state = before.filter(|_| is_untouched);
            return ResultVerification { state, time: Duration::ZERO, found: Diags::default() };
        }
        let start = Instant::now();
        let mut found = Diags::default();
        let state = match self.config.verify_each {
            VerifyEach::Always => verify_with_state(edit.program(), &mut found),
            VerifyEach::Changed | VerifyEach::Never => {
                verify_edit(edit.program(), &edit.edited_parts(), before, &mut found)
            }
        };
        ResultVerification { state, time: start.elapsed(), found }
    }

    fn run_nested(
        &mut self,
        program: &mut Program,
        step: &PipelineStep,
        depth: usize,
        text: &str,
    ) -> Result<bool, StepFailure> {
        if depth == MAX_DEPTH {
            let what = format!("`{}` is an alias of itself (this is a bug)", step.pass.name);
            return Err(StepFailure::at_bug(step, what));
        }
        tracing::debug!(target: PASS_MANAGER, steps = %text, "stands for others");
        let mut inner = pipeline::parse_pipeline(text, self.config.passes).map_err(|errors| {
            let first = errors.items.first().map_or("", |diag| &diag.message).to_owned();
            let what = format!("`{}` is an alias for `{text}`: {first} (this is a bug)", step.pass.name);
            StepFailure::at_bug(step, what)
        })?;
        for one in &mut inner.steps {
            one.options.adopt_step(one.pass.name, &step.options);
        }
        let first = self.report.runs.len();
        self.run_steps(program, &inner.steps, depth + 1)?;
        Ok(self.report.runs[first..].iter().any(|run| run.changed))
    }

    /// The pipeline text of the way that is chosen for a program; `None` if there is nothing to choose from.
    fn choose_way(&mut self, program: &Program, ways: &PipelineWays, pass: &PassInfo) -> Option<String> {
        let choice = choice::choose_way(program, ways, self.config)?;
        self.add_remark(|| choice.describe_choice(pass.name, ways));
        ways.ways.get(choice.chosen).map(|way| way.text.clone())
    }

    fn add_remark(&mut self, remark: impl FnOnce() -> Diag) {
        if self.config.remarks {
            self.report.notices.push(remark().into_remark());
        }
    }

    fn warn_never_ran(&mut self) {
        for disabled in &self.config.disabled {
            if !self.report.runs.iter().any(|run| run.pass.name == disabled.name) {
                self.report.notices.push(never_run_warning("--disable-pass", disabled.name));
            }
        }
    }
}

/// The warning that `flag` names a pass that is not in the pipeline.
pub fn never_run_warning(flag: &str, pass: &str) -> Diag {
    Diag::global_error(NEVER_RUNS, message!("`{}={}` has no effect: `{}` is not in the pipeline", flag, pass, pass))
        .into_warning()
}

fn invalid_result(pass: &PassInfo, errors: Diags) -> Diags {
    let message = message!("`{}` produced an invalid program (this is a bug in the pass)", pass.name);
    let mut diags = Diags::default();
    diags.push(
        Diag::global_error(INVALID_RESULT, message)
            .with_note("the program is unchanged; --reproducer=FILE writes a test case for a bug report")
            .with_note("the following errors concern the discarded program"),
    );
    diags.items.extend(errors.items);
    diags
}

fn panicked(pass: &PassInfo, text: &str) -> Diags {
    let message = message!("`{}` panicked: {} (this is a bug in the pass)", pass.name, text);
    let note = "the program is unchanged; --reproducer=FILE writes a test case for a bug report";
    Diags { items: vec![Diag::global_error(codes::INTERNAL, message).with_note(note)] }
}

fn count_ops(program: &Program) -> usize {
    let mut count = 0;
    program.walk(program.body(), &mut |_| count += 1);
    count
}
