//! The declaration of a pass, and the context in which it runs.
//!
//! A pass is one file with one [`PassInfo`] and one line in the table `PASSES`. Help,
//! `--list-passes`, `docs/passes.md`, option parsing and messages follow from that data. The contract:
//! valid in, valid out; a pass that returns an error has changed nothing (its edit is rolled back).

use crate::framework::analyses::{KnownAnalyses, ReshardingOps};
use crate::framework::options::{OptionSpec, Options, is_same_name};
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::machine::Machine;
use hostir::plan::cost::CostModel;
use hostir::verdict::ProofVerdict;
use std::rc::Rc;

/// One row of the pass table. The diagnostic codes of a pass are constants of its own files.
#[derive(Debug)]
pub struct PassInfo {
    /// `stream-parallel-type`; the file of the pass has the same name.
    pub name: &'static str,
    /// One sentence without a full stop.
    pub summary: &'static str,
    /// Its effect and, above all, what it leaves alone, in Markdown.
    pub description: &'static str,
    /// A program before and after; a test runs it.
    pub example: Option<PassExample>,
    /// Options in the order of the documentation.
    pub options: &'static [OptionSpec],
    /// Counters it may raise.
    pub statistics: &'static [StatisticSpec],
    /// The code that runs.
    pub action: PassAction,
}

/// The work of a pass.
#[derive(Clone, Copy, Debug)]
pub enum PassAction {
    /// Changes the program through an edit. An error rolls the edit back.
    Rewrite(fn(&mut Edit<'_>, &mut PassCx<'_>) -> Result<(), Diags>),
    /// Stands for other passes: returns their pipeline text for its options. The manager runs each as a step of its
    /// own, so that dumps, timings and `--disable-pass` see them.
    Pipeline(fn(&Options) -> String),
    /// Stands for one of several pipelines: that of `steps`, or the one of `ways` that is chosen for the program.
    Choice {
        /// The pipeline text if nothing is chosen.
        steps: fn(&Options) -> String,
        /// The ways among which the manager chooses; none if the options ask for no choice.
        ways: fn(&Options) -> PipelineWays,
    },
}

impl PassAction {
    /// The pipeline text of a pass that stands for others.
    pub fn pipeline_steps(self) -> Option<fn(&Options) -> String> {
        match self {
            PassAction::Rewrite(_) => None,
            PassAction::Pipeline(steps) | PassAction::Choice { steps, .. } => Some(steps),
        }
    }
}

/// Pipelines that compute the same, among which one is chosen.
#[derive(Clone, Default, Debug)]
pub struct PipelineWays {
    /// The rule of the choice.
    pub rule: ChoiceRule,
    /// The machine that an option names; `None` is the one of the manager's configuration.
    pub machine: Option<Machine>,
    /// The ways; the first one is kept unless another one is better by more than the model can tell.
    pub ways: Vec<PipelineWay>,
}

/// A way to lower a program.
#[derive(Clone, Debug)]
pub struct PipelineWay {
    /// Its name in remarks.
    pub name: &'static str,
    /// Its pipeline text.
    pub text: String,
}

/// The rule by which a way is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ChoiceRule {
    /// The least time by the cost model.
    #[default]
    LeastTime,
    /// The last way if a GEMM of the first one takes long enough to hide communication, else the first one.
    LongGemm,
}

/// A program before and after a pass, in any form the parser reads.
#[derive(Clone, Copy, Debug)]
pub struct PassExample {
    /// The options as a pipeline gives them, with their braces; empty for none.
    pub options: &'static str,
    /// The input.
    pub before: &'static str,
    /// The output.
    pub after: &'static str,
}

/// One counter of a pass.
#[derive(Clone, Copy, Debug)]
pub struct StatisticSpec {
    /// `ops-removed`.
    pub name: &'static str,
    /// The thing that is counted.
    pub help: &'static str,
}

impl PassInfo {
    /// The defaults of a row, for passes outside of this crate: they need not name the fields that they do not use.
    pub const DEFAULTS: PassInfo = PassInfo {
        name: "",
        summary: "",
        description: "",
        example: None,
        options: &[],
        statistics: &[],
        action: PassAction::Rewrite(|_, _| Ok(())),
    };

    /// The name in the spelling of nvFuser's classes and logs: `StreamParallelType`.
    pub fn class_name(&self) -> String {
        let mut out = String::with_capacity(self.name.len());
        for word in self.name.split('-') {
            let mut letters = word.chars();
            out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            out.push_str(letters.as_str());
        }
        out
    }
    /// Returns true if `text` names this pass; `-` and `_` are equivalent.
    pub fn is_named(&self, text: &str) -> bool {
        is_same_name(self.name, text)
    }
}

/// The context of a running pass besides the program: its options, counters and remarks.
pub struct PassCx<'a> {
    info: &'static PassInfo,
    options: &'a Options,
    model: &'a CostModel,
    counts: Vec<u64>,
    notices: Diags,
    faults: Vec<OptionFault>,
    verdicts: Vec<ProofVerdict>,
    wants_remarks: bool,
    analyses: KnownAnalyses,
}

/// An error in the values of options, and so in the pipeline: the program is not at fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionFault {
    /// The options, the faulty one first.
    pub options: &'static [&'static str],
    /// The error, about no place of the program.
    pub diag: Diag,
}

impl<'a> PassCx<'a> {
    /// A context for one run of `info` on a program for the machine of `model`. Remarks are kept only if
    /// `wants_remarks`.
    pub fn new(info: &'static PassInfo, options: &'a Options, model: &'a CostModel, wants_remarks: bool) -> Self {
        let counts = vec![0; info.statistics.len()];
        let (notices, faults, verdicts) = (Diags::default(), Vec::new(), Vec::new());
        let analyses = KnownAnalyses::default();
        Self { info, options, model, counts, notices, faults, verdicts, wants_remarks, analyses }
    }
    /// The context with the analyses of the program as it is.
    pub(crate) fn with_analyses(self, analyses: KnownAnalyses) -> Self {
        Self { analyses, ..self }
    }
    /// The analyses of the program as it was before the pass, which are taken out.
    pub(crate) fn take_analyses(&mut self) -> KnownAnalyses {
        std::mem::take(&mut self.analyses)
    }
    /// The ops of the host program that move data between devices. The pass asks before it changes anything: then they
    /// are found once for all passes until one changes the program.
    pub fn resharding_ops(&mut self, edit: &Edit<'_>) -> Rc<ReshardingOps> {
        self.analyses.resharding_ops(edit)
    }
    /// The parsed options.
    pub fn options(&self) -> &'a Options {
        self.options
    }
    /// The machine for which times are modelled.
    pub fn model(&self) -> &'a CostModel {
        self.model
    }
    /// Adds to a counter of [`PassInfo::statistics`].
    pub fn add_count(&mut self, statistic: &str, by: u64) {
        let index = self.info.statistics.iter().position(|spec| spec.name == statistic);
        debug_assert!(index.is_some(), "{} declares no statistic {statistic}", self.info.name);
        if let Some(index) = index {
            self.counts[index] += by;
        }
    }
    /// Adds a remark with the reason why something was or was not done. Calls `remark` only if remarks are requested.
    pub fn add_remark(&mut self, remark: impl FnOnce() -> Diag) {
        if self.wants_remarks {
            self.notices.push(remark().into_remark());
        }
    }
    /// Warns; always shown.
    pub fn add_warning(&mut self, warning: Diag) {
        self.notices.push(warning.into_warning());
    }
    /// Adds the verdict of a proof.
    pub fn add_verdict(&mut self, verdict: ProofVerdict) {
        self.verdicts.push(verdict);
    }
    /// The verdicts so far, which are taken out.
    pub fn take_verdicts(&mut self) -> Vec<ProofVerdict> {
        std::mem::take(&mut self.verdicts)
    }
    /// Reports that the values of options are wrong; the pass then returns an error, which may be empty. `diag` has no
    /// place: the reader of the pipeline knows the places of the options.
    pub fn reject_options(&mut self, options: &'static [&'static str], diag: Diag) {
        self.faults.push(OptionFault { options, diag });
    }
    /// The counters with their names, the remarks and warnings in the order in which they were made, and the errors in
    /// the options.
    pub fn finish(self) -> (Vec<(&'static str, u64)>, Diags, Vec<OptionFault>) {
        let names = self.info.statistics.iter().map(|spec| spec.name);
        (names.zip(self.counts).collect(), self.notices, self.faults)
    }
}
