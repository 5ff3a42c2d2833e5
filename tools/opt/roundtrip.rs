//! `--verify-roundtrip`: a program's text reads back as the program, in both notations.

use super::form::OutputForm;
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Message, Severity};
use hostir::ir::{DType, Program};
use hostir::ops::OpRegistry;
use hostir::print::{PrintForm, PrintOptions, VersionLine};
use hostir::{ParsedFile, ReadOptions};
use hostir_tool_support::errors;

/// Reports notations in which the program's text is refused, or another one after it has been read and printed.
pub(super) fn verify_roundtrip(program: &Program, element_type: DType, diags: &mut Diags) {
    let elided = program.units().iter().any(|(_, unit)| unit.is_elided);
    let forms = [OutputForm::Printed(PrintForm::Full), OutputForm::Printed(PrintForm::Short), OutputForm::Hir2];
    // `hir 2` cannot express a HostUnit that the text leaves out.
    for form in forms.into_iter().filter(|form| !elided || *form != OutputForm::Hir2) {
        if let Err(what) = reread_form(program, form, element_type) {
            let message = message!("the program does not survive a round trip through {}: {}", form_name(form), what);
            let note = "this is a defect of hir-opt: please report it with the program";
            diags.push(Diag::global_error(errors::ROUNDTRIP, message).with_note(note));
        }
    }
}

fn form_name(form: OutputForm) -> &'static str {
    match form {
        OutputForm::Printed(PrintForm::Full) => "its printed form",
        OutputForm::Printed(PrintForm::Short) => "its abbreviated form",
        OutputForm::Hir2 => "`hir 2`",
    }
}

/// Reads the program's text and compares it with that of the program that was read.
fn reread_form(program: &Program, form: OutputForm, element_type: DType) -> Result<(), Message> {
    let text = form_text(program.clone(), form);
    let (file, mut found) = ParsedFile::parse(&text);
    let options = ReadOptions::with_ops(OpRegistry::of_program(program));
    let mut reader = file.reader_with_options(&text, &options).with_element_type(element_type);
    let programs: Vec<Program> =
        (0..file.program_count()).map(|index| reader.read_program(index, &mut found)).collect();
    let [again] = programs.as_slice() else {
        return Err(message!("the text has {} programs", programs.len()));
    };
    if !found.has_errors() {
        hostir::verify::verify(again, &mut found);
    }
    if let Some(error) = found.items.iter().find(|diag| diag.severity == Severity::Error) {
        return Err(message!("{}: {}", error.code, error.message));
    }
    compare_lines(&text, &form_text(again.clone(), form))
}

fn form_text(mut program: Program, form: OutputForm) -> String {
    // The text is read without the files that it imports.
    program.own_imports();
    match form {
        OutputForm::Hir2 => hostir::hir2::write::write_file(&mut [program]),
        OutputForm::Printed(form) => {
            let version = if program.has_names() { VersionLine::Always } else { VersionLine::AsRead };
            let mut text = String::new();
            hostir::print::print_into(&program, PrintOptions { form, version }, &mut text);
            text
        }
    }
}

/// The first line that differs.
fn compare_lines(first: &str, second: &str) -> Result<(), Message> {
    if first == second {
        return Ok(());
    }
    let both = first.lines().zip(second.lines());
    match (1..).zip(both).find(|(_, (one, other))| one != other) {
        Some((number, (one, other))) => {
            Err(message!("line {} is `{}` at first, then `{}`", number, one.trim(), other.trim()))
        }
        None => Err(message!("it has {} lines at first, then {}", first.lines().count(), second.lines().count())),
    }
}

#[cfg(test)]
mod tests {
    use super::verify_roundtrip;
    use hostir::diag::Diags;
    use hostir::ir::edit::Edit;
    use hostir::ir::{DType, RunHints};

    const COPY: &str = "hir 2\n\ncopy(A: f32[4]) -> (B: f32[4]):\n  B = relu(A)\n";

    /// No text gives such a program: it proposes a value for a size whose name no notation has.
    #[test]
    fn a_program_that_does_not_read_back_is_reported() {
        let (mut programs, _) = hostir::load(COPY);
        let mut diags = Diags::default();
        verify_roundtrip(&programs[0], DType::Float, &mut diags);
        assert!(diags.items.is_empty(), "{diags:?}");

        let mut edit = Edit::new(&mut programs[0]);
        let name = edit.intern_name("two words");
        edit.set_run_hints(RunHints { sizes: vec![(name, 3)], streams: None });
        edit.commit();
        verify_roundtrip(&programs[0], DType::Float, &mut diags);
        assert!(diags.items.iter().all(|diag| diag.code == "H0634"), "{diags:?}");
        assert!(
            diags.items.iter().any(|diag| diag.message.as_str().contains("round trip through `hir 2`")),
            "{diags:?}"
        );
    }
}
