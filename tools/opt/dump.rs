//! `--print-ir-*`: programs between passes, in the logging format of nvFuser.

use super::form::OutputForm;
use hostir::diag::visible;
use hostir::ir::Program;
use hostir_passes::manager::PassObserver;
use hostir_passes::{PassAction, PassInfo};
use std::io::Write;

/// The passes around which programs are dumped.
#[derive(Clone, Default, Debug)]
pub(super) struct DumpOptions {
    /// Before every pass.
    pub(super) before_all: bool,
    /// Before these passes.
    pub(super) before: Vec<&'static PassInfo>,
    /// After every pass.
    pub(super) after_all: bool,
    /// After these passes.
    pub(super) after: Vec<&'static PassInfo>,
    /// True to dump only after passes that changed something; after all passes, if no flag names any.
    pub(super) only_changes: bool,
}

impl DumpOptions {
    /// The flags that name passes, with the names.
    pub(super) fn named_passes(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        let before = self.before.iter().map(|pass| ("--print-ir-before", pass.name));
        before.chain(self.after.iter().map(|pass| ("--print-ir-after", pass.name)))
    }
    fn wants_pass(all: bool, named: &[&'static PassInfo], pass: &PassInfo) -> bool {
        // The last step of a pipeline pass was just dumped, with the same program.
        (all && matches!(pass.action, PassAction::Rewrite(_))) || named.iter().any(|one| one.name == pass.name)
    }
}

/// Writes dumps, and remembers the passes that ran.
pub(super) struct DumpWriter<'a> {
    dumps: &'a DumpOptions,
    form: OutputForm,
    out: &'a mut dyn Write,
    /// Names of the passes that ran.
    pub(super) ran: Vec<&'static str>,
}

impl<'a> DumpWriter<'a> {
    pub(super) fn new(dumps: &'a DumpOptions, form: OutputForm, out: &'a mut dyn Write) -> Self {
        Self { dumps, form, out, ran: Vec::new() }
    }
    fn write_dump(&mut self, when: &str, pass: &PassInfo, program: &Program) {
        // Unlike the result, it goes to users.
        let mut text = hostir::print::print_to_string(program);
        if self.form == OutputForm::Hir2 {
            // The writer changes a program for a moment, and this one is lent.
            let (mut programs, _) = hostir::load(&text);
            text = hostir::hir2::write::write_file(&mut programs);
        }
        let text = visible::escape_block(&text);
        let line = if text.ends_with('\n') { "" } else { "\n" };
        let rule = "=".repeat(40);
        // If the reader of standard error is gone, there is nobody to report to.
        let _ = write!(self.out, "Fusion {when} pass: {}\n{text}{line}{rule}\n", pass.class_name());
    }
}

impl PassObserver for DumpWriter<'_> {
    fn before_pass(&mut self, pass: &'static PassInfo, program: &Program) {
        if !self.ran.contains(&pass.name) {
            self.ran.push(pass.name);
        }
        if DumpOptions::wants_pass(self.dumps.before_all, &self.dumps.before, pass) {
            self.write_dump("before", pass, program);
        }
    }
    fn after_pass(&mut self, pass: &'static PassInfo, program: &Program, changed: bool) {
        let only_changes = self.dumps.only_changes;
        let all = self.dumps.after_all || (only_changes && self.dumps.after.is_empty());
        if DumpOptions::wants_pass(all, &self.dumps.after, pass) && (changed || !only_changes) {
            self.write_dump("after", pass, program);
        }
    }
}
