//! Errors of passes that are the fault of an option's value: shown where the option stands on the command
//! line, and answered with the status of a wrong command line.

use super::cli::{OptArgs, OptionOrigin};
use hostir::diag::Diag;
use hostir_passes::manager::PipelineFailure;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;

/// Errors of the command line that were found while passes ran.
#[derive(Default)]
pub(super) struct PipelineFaults {
    found: Vec<(OptionOrigin, Diag)>,
}

impl PipelineFaults {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Takes those of a failure; several programs of one input find the same ones.
    pub(super) fn record_failure(&mut self, cli: &OptArgs, failure: &PipelineFailure) {
        for fault in &failure.faults {
            let Some(origin) = cli.origins.get(failure.step) else { continue };
            let diag = cli.pipeline.locate_fault(failure.step, fault);
            if !self.found.iter().any(|(_, known)| *known == diag) {
                self.found.push((origin.clone(), diag));
            }
        }
    }

    /// Writes them, each with the flag that it is about.
    pub(super) fn report_faults(&self, cli: &OptArgs, io: &mut ToolIo<'_>) {
        for (origin, diag) in &self.found {
            let name = format!("--{}", origin.flag);
            let source = NamedText::new(name, origin.text.as_str());
            io.report(cli.format, &source, std::slice::from_ref(diag));
        }
    }
}
