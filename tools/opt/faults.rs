//! Errors of passes that are caused by an option's value: shown at the option's place on the command line, with the
//! status of a wrong command line.

use super::cli::{OptArgs, OptionOrigin};
use hostir::diag::Diag;
use hostir_passes::manager::PipelineFailure;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;

/// Errors of the command line that passes found.
#[derive(Default)]
pub(super) struct PipelineFaults {
    found: Vec<(OptionOrigin, Diag)>,
}

impl PipelineFaults {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Records the errors of a failure; several programs of one input have the same ones.
    pub(super) fn record_failure(&mut self, cli: &OptArgs, failure: &PipelineFailure) {
        for fault in &failure.faults {
            let Some(origin) = cli.origins.get(failure.step) else { continue };
            let diag = cli.pipeline.locate_fault(failure.step, fault);
            if !self.found.iter().any(|(_, known)| *known == diag) {
                self.found.push((origin.clone(), diag));
            }
        }
    }

    /// Writes them, each with the flag that caused it.
    pub(super) fn report_faults(&self, cli: &OptArgs, io: &mut ToolIo<'_>) {
        for (origin, diag) in &self.found {
            let name = format!("--{}", origin.flag);
            let source = NamedText::new(name, origin.text.as_str());
            io.report(cli.format, &source, std::slice::from_ref(diag));
        }
    }
}
