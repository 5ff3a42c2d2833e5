//! `--reproducer` and `--run-reproducer`: a program and the passes that failed on it, in one file.
//!
//! The file is a program below a comment with a command line: `// hir-opt --pass-pipeline='cse,dce'`. Of its flags only
//! those in [`SETTINGS`] are read, so a stranger's file cannot write files.

use super::cli::{self, OptArgs, OptionOrigin};
use hostir::diag::message;
use hostir::diag::{Diag, Diags, Span};
use hostir::ir::Program;
use hostir_passes::PassInfo;
use hostir_passes::manager::VerifyEach;
use hostir_passes::pipeline::{self, Pipeline};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::source::NamedText;
use hostir_tool_support::status::ToolStatus;

/// A file without a pipeline to run.
const NO_PIPELINE: &str = "H0647";

/// The start of the line with the command.
const COMMAND: &str = "// hir-opt ";
const PIPELINE: &str = "--pass-pipeline=";
const DISABLED: &str = "--disable-pass=";
const VERIFY_EACH: &str = "--verify-each=";

/// The flags that the command may have.
const SETTINGS: &[&str] = &[DISABLED, VERIFY_EACH, PIPELINE];

/// The program with the passes that fail on it.
pub(super) fn reproducer_text(program: &Program, remaining: &Pipeline, cli: &OptArgs) -> String {
    let mut command = COMMAND.to_owned();
    for pass in cli.disabled.iter().filter(|pass| may_run(remaining, pass)) {
        command += &format!("{DISABLED}{} ", pass.name);
    }
    if cli.verify_each != VerifyEach::default() {
        command += &format!("{VERIFY_EACH}{} ", cli::verify_each_word(cli.verify_each));
    }
    format!("{command}{PIPELINE}'{remaining}'\n{}", hostir::print::print_to_string(program))
}

/// Whether a pipeline has this pass, or a pass that stands for several.
fn may_run(pipeline: &Pipeline, pass: &PassInfo) -> bool {
    let mut steps = pipeline.steps.iter().map(|step| step.pass);
    steps.any(|step| step.name == pass.name || step.action.pipeline_steps().is_some())
}

/// Gives the command line the settings that a file holds.
///
/// # Errors
/// A file without a pipeline or with a malformed one, which was reported.
pub(super) fn apply_settings(cli: &mut OptArgs, source: &NamedText, io: &mut ToolIo<'_>) -> Result<(), ToolStatus> {
    let text = source.decoded_text();
    read_settings(cli, &text).map_err(|diags| {
        io.report(cli.format, source, &diags.items);
        ToolStatus::Program
    })
}

fn read_settings(cli: &mut OptArgs, text: &str) -> Result<(), Diags> {
    let Some((start, line)) = find_command(text) else {
        let message = message!("the file has no line `// hir-opt --pass-pipeline='...'`");
        let note =
            "`--reproducer=FILE` writes such a file if a pass fails; `--pass-pipeline` runs passes on any program";
        return Err(one_error(Diag::global_error(NO_PIPELINE, message).with_note(note)));
    };
    let (flags, pipeline) = line.split_at(line.find(PIPELINE).unwrap_or(line.len()));
    let mut at = start;
    for word in flags.split_inclusive(' ') {
        let flag = word.trim_end();
        read_flag(cli, flag, Span::new(at, at + flag.len()))?;
        at += word.len();
    }
    let quoted = pipeline.strip_prefix(PIPELINE).unwrap_or_default().trim();
    let value = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(quoted);
    let value_start = at + pipeline.find(value).unwrap_or(0);
    let read =
        pipeline::parse_pipeline(value, cli.registries.passes).map_err(|diags| shift_diags(diags, value_start))?;
    let origin = OptionOrigin { flag: "pass-pipeline", text: value.to_owned() };
    cli.origins = vec![origin; read.steps.len()];
    cli.given.devices = cli.given.devices.or(read.wanted_devices());
    cli.pipeline = read;
    Ok(())
}

/// The first command with a pipeline: the place after its start, and its flags.
fn find_command(text: &str) -> Option<(usize, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(flags) = line.trim_end().strip_prefix(COMMAND).filter(|flags| flags.contains(PIPELINE)) {
            return Some((at + COMMAND.len(), flags));
        }
        at += line.len();
    }
    None
}

/// Reads a flag beside the pipeline.
fn read_flag(cli: &mut OptArgs, flag: &str, span: Span) -> Result<(), Diags> {
    if let Some(name) = flag.strip_prefix(DISABLED) {
        let at = Span::new(span.end as usize - name.len(), span.end as usize);
        cli.disabled.push(pipeline::find_pass(name, at, cli.registries.passes).map_err(one_error)?);
        return Ok(());
    }
    if let Some(when) = flag.strip_prefix(VERIFY_EACH).and_then(cli::verify_each_of_word) {
        cli.verify_each = when;
        return Ok(());
    }
    if flag.is_empty() {
        return Ok(());
    }
    let message = message!("a file cannot set `{}`", flag);
    let note = message!("its flags are {}; write others on the command line", SETTINGS.join(", "));
    Err(one_error(Diag::error(NO_PIPELINE, span, message).with_note(note)))
}

fn one_error(diag: Diag) -> Diags {
    Diags { items: vec![diag] }
}

/// Diagnostics about a part of the text as diagnostics about the text.
fn shift_diags(mut diags: Diags, by: usize) -> Diags {
    for span in diags.items.iter_mut().flat_map(Diag::spans_mut) {
        *span = Span::new(span.start as usize + by, span.end as usize + by);
    }
    diags
}

#[cfg(test)]
mod tests {
    use crate::{OptSession, cli};
    use hostir::diag::Diags;
    use hostir::ir::edit::Edit;
    use hostir_passes::{PassAction, PassCx, PassInfo, PassRegistry, ToolRegistries};
    use hostir_tool_support::ToolStatus;
    use hostir_tool_support::io::ToolIo;
    use hostir_tool_support::panics;
    use hostir_tool_support::source::NamedText;

    const TEXT: &str = "hir 2\n\ncopy(A: f32[4]) -> (B: f32[4]):\n  B = relu(A)\n";

    /// No pass of the table panics.
    static PANICS: PassInfo = PassInfo {
        name: "panics",
        summary: "panics",
        description: "",
        example: None,
        options: &[],
        statistics: &[],
        action: PassAction::Rewrite(panic_always),
    };

    #[allow(clippy::panic, reason = "the panic is what is tested")]
    fn panic_always(_: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
        panic!("index 7 of 3");
    }

    /// A panic of a pass is an internal error that says how to report it, and the test case is written all the same.
    #[test]
    fn a_panic_is_reported_with_a_test_case() {
        panics::report_panics();
        let folder = std::env::temp_dir().join(format!("hir-opt-panic-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut io = ToolIo {
            stdin: &mut std::io::empty(),
            stdout: &mut out,
            stderr: &mut err,
            cwd: folder.clone(),
            color: false,
            terminal: false,
            columns: None,
            error_columns: None,
            exe: None,
            gpus: hostir_tool_support::SharedState::default(),
            env: |_| None,
        };
        let words = ["hir-opt", "a.hir", "--pass-pipeline=cse,panics,dce", "--reproducer=failed.hir"].map(Into::into);
        static PASSES: PassRegistry = PassRegistry::with_passes(&[&PANICS]);
        let registries = ToolRegistries { passes: PASSES, ..ToolRegistries::default() };
        let cli = cli::parse_args(&words, registries, &mut io).unwrap();
        let status = OptSession::new(&cli, &NamedText::new("a.hir", TEXT)).run(&mut io);

        let (out, err) = (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap());
        assert_eq!((status, out.as_str()), (ToolStatus::Internal, ""), "{err}");
        let parts = [
            "error[H0674]: `panics` panicked: index 7 of 3 (this is a bug in the pass)",
            "it panicked at tools/opt/reproducer.rs:",
            "please report it with the command line and the input file (version",
            "a test case was written to failed.hir",
        ];
        for part in parts {
            assert!(err.contains(part), "{part}\n{err}");
        }
        let written = std::fs::read_to_string(folder.join("failed.hir")).unwrap();
        assert!(written.starts_with("// hir-opt --pass-pipeline='panics,dce'\n"), "{written}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
