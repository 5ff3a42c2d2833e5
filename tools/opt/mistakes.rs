//! Mistakes that are easy to make: for each op a program of docs/ops with one error, and what hir-opt says about it.
//!
//! The messages are made when they are asked for, so they are those of this build.

use super::cli::{self, OptArgs};
use super::fixing::{self, TextRun};
use hostir::diag::focus::narrow_places;
use hostir::diag::render::with_fix_notes;
use hostir::diag::{Diag, Notation, Severity};
use hostir::ir::OpKind;
use hostir_passes::ToolRegistries;
use hostir_tool_support::io::ToolIo;
use serde_json::{Value, json};
use std::ffi::OsString;

/// The programs, each with the name of its op.
static PROGRAMS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/mistakes.rs"));

/// The passes that find the errors which the verifier does not.
const COMMAND: [&str; 3] = ["hir-opt", "-", "--pass=check-program"];

/// A program with an error.
#[derive(Debug)]
pub struct OpMistake {
    /// Its text in `hir 2`.
    pub program: &'static str,
    /// All that hir-opt says about it, in the words of `hir 2`.
    pub diags: Vec<Diag>,
}

impl OpMistake {
    /// The mistake of an op; `None` if docs/ops has none. `run` is hir-opt.
    pub(super) fn of_op(run: TextRun, kind: OpKind) -> Option<Self> {
        let name = if kind.is_definition() { "definition" } else { kind.name() };
        let &(_, program) = PROGRAMS.iter().find(|(known, _)| *known == name)?;
        Some(Self { program, diags: diagnose_text(run, program)? })
    }

    /// The lines of the error in the program, then the message with its last fix, or its last note where it has none.
    pub fn summary(&self) -> Option<String> {
        let diag = self.diags.first()?;
        let mut out = self.marked_lines(diag).join("\n");
        out.push_str(&format!("\nerror[{}]: {}\n", diag.code, diag.message));
        let noted = match diag.fixes.is_empty() {
            true => diag.clone(),
            false => with_fix_notes(self.program, &Diag { notes: Vec::new(), ..diag.clone() }),
        };
        // Place and time come first, the text to write last.
        if let Some(note) = noted.notes.last() {
            out.push_str(&format!("  = {}\n", note.as_str().trim_end().replace('\n', "\n    ")));
        }
        Some(out)
    }

    /// The program with the message as data.
    pub(super) fn data(&self) -> Value {
        let diag = self.diags.first();
        json!({
            "program": self.program,
            "code": diag.map(|diag| diag.code),
            "message": diag.map(|diag| diag.message.as_str()),
        })
    }

    /// The lines of the statements that the diagnostic marks, without their indentation.
    fn marked_lines(&self, diag: &Diag) -> Vec<&'static str> {
        let mut starts: Vec<usize> =
            diag.primary.iter().chain(&diag.labels).map(|label| self.line_start(label.span.start)).collect();
        starts.sort_unstable();
        starts.dedup();
        let primary = diag.primary.as_ref().map(|label| self.line_start(label.span.start));
        // The header only shows where tensors are declared.
        let header = self.program.find(") -> (").map(|at| self.line_start(at as u32));
        let shown = starts.into_iter().filter(|start| Some(*start) == primary || Some(*start) > header);
        shown.map(|start| self.program[start..].lines().next().unwrap_or_default().trim()).collect()
    }

    fn line_start(&self, at: u32) -> usize {
        self.program.get(..at as usize).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1)
    }
}

/// All that hir-opt says about a text, with fixes.
pub(super) fn diagnose_text(run: TextRun, text: &str) -> Option<Vec<Diag>> {
    let args: Vec<OsString> = COMMAND.iter().map(OsString::from).collect();
    ToolIo::with_no_environment(|io| {
        let cli: OptArgs = cli::parse_args(&args, ToolRegistries::default(), io).ok()?;
        let mut diags = run(&cli, 0, text, io)?.diags;
        fixing::add_fixes(run, &cli, text, 0, &mut diags, io);
        let mut shown: Vec<Diag> = diags.items.iter().map(|diag| diag.in_notation(Notation::Hir2)).collect();
        narrow_places(text, &mut shown);
        shown.retain(|diag| diag.severity != Severity::Remark);
        Some(shown)
    })
}
