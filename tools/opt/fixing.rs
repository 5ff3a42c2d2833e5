//! Fixes of hir-opt: tried for what is reported, and applied with `--fix`.

use super::OptSession;
use super::chunk::InputChunk;
use super::cli::OptArgs;
use super::output;
use hostir::diag::{Diag, Diags};
use hostir::repair::{TextJudge, TextVerdict, offer_fixes};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::repairs::{editable_text, repair_source};
use hostir_tool_support::source::NamedText;
use hostir_tool_support::status::ToolStatus;
use std::time::{Duration, Instant};

/// The time after which no more texts are judged.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The longest text that fixes are looked for.
const MOST_TEXT: usize = 1 << 20;

/// Judges texts by all that hir-opt says about them, the passes included.
struct OptJudge<'a, 'io> {
    cli: &'a OptArgs,
    /// The containers in front of the text.
    containers: usize,
    io: &'a ToolIo<'io>,
    end: Instant,
}

impl TextJudge for OptJudge<'_, '_> {
    fn judge_text(&mut self, text: &str) -> TextVerdict {
        if Instant::now() > self.end {
            return TextVerdict { diags: Vec::new(), instructions: u64::MAX / 4 };
        }
        let source = NamedText::default();
        let mut session = OptSession::new(self.cli, &source);
        session.containers = self.containers;
        let chunk = InputChunk::whole(text);
        let diags = self.io.with_silence(|io| session.process_chunk(&chunk, io));
        let faults = session.faults.is_empty();
        TextVerdict { diags: diags.items, instructions: if faults { 0 } else { u64::MAX / 4 } }
    }
}

/// Adds fixes to diagnostics about a text of the input, behind so many containers.
pub(super) fn add_fixes(cli: &OptArgs, text: &str, containers: usize, diags: &mut Diags, io: &ToolIo<'_>) {
    if cli.verify_diagnostics || text.len() > MOST_TEXT {
        return;
    }
    let end = Instant::now() + MOST_TIME;
    offer_fixes(text, &mut diags.items, &mut OptJudge { cli, containers, io, end });
}

/// Repairs the input in its file or to the output, and judges the result.
///
/// # Errors
/// A text that cannot be edited, and a file that cannot be written.
pub(super) fn repair_input(cli: &OptArgs, source: &NamedText, io: &mut ToolIo<'_>) -> Result<ToolStatus, Diag> {
    let text = editable_text(source)?;
    let end = Instant::now() + MOST_TIME;
    let repaired = repair_source(source, text, &mut OptJudge { cli, containers: 0, io, end });
    let in_place = !cli.output_given && cli.file != "-";
    if in_place {
        repaired.write_back(&cli.file, io)?;
    } else {
        output::write_output(io, &cli.output, &repaired.text)?;
    }
    repaired.report_changes("hir-opt", &source.name, cli.format, io);
    let source = NamedText { name: source.name.clone(), bytes: repaired.text.into_bytes() };
    Ok(OptSession::new(cli, &source).run(io))
}
