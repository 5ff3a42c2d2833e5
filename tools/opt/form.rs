//! The notation of results.

use hostir::print::PrintForm;

/// The notation of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OutputForm {
    /// nvFuser's.
    Printed(PrintForm),
    /// `hir 2`.
    Hir2,
}

impl Default for OutputForm {
    fn default() -> Self {
        OutputForm::Printed(PrintForm::Full)
    }
}
