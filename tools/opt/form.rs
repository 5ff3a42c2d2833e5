//! The notation of results.

use hostir::diag::message;
use hostir::diag::{Diag, Diags, codes};
use hostir::ir::Program;
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

/// Reports parts that `hir 2` cannot express: a HostUnit that the text leaves out.
pub(super) fn check_hir2_form(program: &Program, diags: &mut Diags) {
    let Some((_, unit)) = program.units().iter().find(|(_, unit)| unit.is_elided) else { return };
    let message =
        message!("{} cannot be written in `hir 2`: the text leaves its kernel out", program.unit_name(unit.number));
    let note = "write the lists and the kernel of the HostUnit in the place of `[...]`";
    diags.push(Diag::global_error(codes::CANNOT_RUN, message).with_note(note));
}
