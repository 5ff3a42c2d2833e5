//! Errors of passes that are the fault of an option's value: shown where the option stands on the command
//! line, and answered with the status of a wrong command line.

use super::cli::{Cli, Origin};
use hostir::diag::{Diag, Label};
use hostir_passes::OptionFault;
use hostir_passes::manager::Failure;
use hostir_tool_support::io::Io;
use hostir_tool_support::source::Source;

/// Errors of the command line that were found while passes ran.
#[derive(Default)]
pub(super) struct Faults {
    found: Vec<(Origin, Diag)>,
}

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Takes those of a failure; several programs of one input find the same ones.
    pub(super) fn take(&mut self, cli: &Cli, failure: &Failure) {
        for fault in &failure.faults {
            let Some(origin) = cli.origins.get(failure.step) else { continue };
            let diag = place(cli, failure.step, fault);
            if !self.found.iter().any(|(_, known)| *known == diag) {
                self.found.push((origin.clone(), diag));
            }
        }
    }

    /// Writes them, each with the flag that it is about.
    pub(super) fn report(&self, cli: &Cli, io: &mut Io<'_>) {
        for (origin, diag) in &self.found {
            let name = format!("--{}", origin.flag);
            let source = Source { name, bytes: origin.text.as_bytes().to_vec() };
            io.report(cli.format, &source, std::slice::from_ref(diag));
        }
    }
}

/// The error with the places of the options' values.
fn place(cli: &Cli, step: usize, fault: &OptionFault) -> Diag {
    let mut diag = fault.diag.clone();
    let Some(options) = cli.pipeline.steps.get(step).map(|step| &step.options) else { return diag };
    for span in fault.options.iter().filter_map(|option| options.span(option)) {
        let label = Label { span, text: String::new() };
        match diag.primary {
            None => diag.primary = Some(label),
            Some(_) => diag.labels.push(label),
        }
    }
    diag
}
