//! `--print-ir-*`: programs between passes, in the logging format of nvFuser.

use super::form::OutputForm;
use hostir::ReadOptions;
use hostir::diag::visible;
use hostir::ir::Program;
use hostir::ops::OpRegistry;
use hostir_passes::manager::PassObserver;
use hostir_passes::{PassAction, PassInfo};
use similar::{ChangeTag, TextDiff};
use std::fmt::Write as _;
use std::io::Write;

/// Equal lines around those that differ.
const CONTEXT: usize = 3;

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
    /// True to print the lines that differ, in the place of the program after a pass.
    pub(super) as_difference: bool,
    /// The program of a pass that fails.
    pub(super) after_failure: bool,
    /// True to colour differences.
    pub(super) is_colored: bool,
}

impl DumpOptions {
    /// The flags that name passes, with the names.
    pub(super) fn named_passes(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        let before = self.before.iter().map(|pass| ("--print-ir-before", pass.name));
        before.chain(self.after.iter().map(|pass| ("--print-ir-after", pass.name)))
    }
    fn wants_after(&self, pass: &PassInfo) -> bool {
        let all = self.after_all || (self.only_changes && self.after.is_empty());
        Self::wants_pass(all, &self.after, pass)
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
    /// The programs before the passes that are running, of those whose difference is wanted.
    before: Vec<String>,
    /// Names of the passes that ran.
    pub(super) ran: Vec<&'static str>,
}

impl<'a> DumpWriter<'a> {
    pub(super) fn new(dumps: &'a DumpOptions, form: OutputForm, out: &'a mut dyn Write) -> Self {
        Self { dumps, form, out, before: Vec::new(), ran: Vec::new() }
    }

    /// The program in the notation of the result.
    fn program_text(&self, program: &Program) -> String {
        let text = hostir::print::print_to_string(program);
        if self.form != OutputForm::Hir2 {
            return text;
        }
        // The writer changes a program for a moment, and this one is lent.
        let (mut programs, mut diags) =
            hostir::load_with_options(&text, &ReadOptions::with_ops(OpRegistry::of_program(program)));
        for program in &programs {
            hostir::verify::verify(program, &mut diags);
        }
        // An invalid program has no text in `hir 2`.
        if diags.has_errors() { text } else { hostir::hir2::write::write_file(&mut programs) }
    }

    fn write_dump(&mut self, when: &str, pass: &PassInfo, text: &str) {
        // Unlike the result, it goes to users.
        let text = visible::escape_block(text);
        self.write_block(when, pass, &text);
    }

    fn write_block(&mut self, when: &str, pass: &PassInfo, text: &str) {
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
            let text = self.program_text(program);
            self.write_dump("before", pass, &text);
        }
        if self.dumps.as_difference && self.dumps.wants_after(pass) {
            let text = self.program_text(program);
            self.before.push(text);
        }
    }

    fn after_pass(&mut self, pass: &'static PassInfo, program: &Program, changed: bool) {
        if !self.dumps.wants_after(pass) {
            return;
        }
        let before = if self.dumps.as_difference { self.before.pop() } else { None };
        if self.dumps.only_changes && !changed {
            return;
        }
        let after = self.program_text(program);
        match before {
            Some(before) => {
                let text = unified_difference(pass.name, &before, &after, self.dumps.is_colored);
                self.write_block("after", pass, &text);
            }
            None => self.write_dump("after", pass, &after),
        }
    }

    fn after_failure(&mut self, pass: &'static PassInfo, program: &Program) {
        if self.dumps.after_failure {
            let text = self.program_text(program);
            self.write_dump("after failed", pass, &text);
        }
    }
}

/// The lines that a pass changed, as a unified diff.
fn unified_difference(pass: &str, before: &str, after: &str, is_colored: bool) -> String {
    let [before, after] = [before, after].map(visible::escape_block);
    let diff = TextDiff::from_lines(&*before, &*after);
    let mut out = format!("--- before {pass}\n+++ after {pass}\n");
    // Writing to a string cannot fail.
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        let _ = writeln!(out, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let (start, end) = match change.tag() {
                ChangeTag::Delete if is_colored => ("\x1b[31m", "\x1b[0m"),
                ChangeTag::Insert if is_colored => ("\x1b[32m", "\x1b[0m"),
                ChangeTag::Delete | ChangeTag::Insert | ChangeTag::Equal => ("", ""),
            };
            let _ = writeln!(out, "{start}{}{}{end}", change.tag(), change.value().trim_end_matches('\n'));
        }
    }
    out
}
