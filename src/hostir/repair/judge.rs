//! The interface to the caller that reads and proves changed texts.

use crate::ReadOptions;
use crate::diag::Diag;
use crate::plan_checks::LostWrite;

/// All that is said about a text.
#[derive(Clone, Default, Debug)]
pub struct TextVerdict {
    /// Errors and warnings of reading, verifying, planning and proving it.
    pub diags: Vec<Diag>,
    /// The instructions of all plans that were proved: the work of judging such a text once more.
    pub instructions: u64,
}

/// The worth of a program beside others that repair the same text.
#[derive(Clone, Default, Debug)]
pub struct TextWeight {
    /// The time of a run by the cost model, in nanoseconds.
    pub time_ns: u64,
    /// The writes that it loses.
    pub lost_writes: Vec<LostWrite>,
    /// A digest of what it computes of inputs that are whole numbers; `None` for a program that is too large to run.
    pub outputs: Option<u64>,
}

/// Reads and proves a text, with everything that the user has fixed beside it.
pub trait TextJudge {
    /// All that is said about the text.
    fn judge_text(&mut self, text: &str) -> TextVerdict;
    /// Returns true if the verdict of a text that can be read has its proof.
    fn is_proving(&self) -> bool {
        false
    }
    /// The settings with which the judge reads the text.
    fn read_options(&self) -> ReadOptions {
        ReadOptions::default()
    }
    /// The worth of the text's program, which has been judged; `None` if it is unknown.
    fn weigh_text(&mut self, text: &str) -> Option<TextWeight>;
}
