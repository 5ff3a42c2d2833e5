//! Fixes of hir-opt: tried for what is reported, and applied with `--fix`.

use super::cli::OptArgs;
use super::output;
use hostir::diag::{Diag, Diags};
use hostir::repair::{TextJudge, TextVerdict, offer_fixes};
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::repairs::{editable_text, repair_source};
use hostir_tool_support::source::NamedText;
use std::time::{Duration, Instant};

/// The time after which no more texts are judged.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The longest text that fixes are looked for.
const MOST_TEXT: usize = 256 << 10;

/// All that hir-opt says about a text behind so many containers, the passes included; `None` if it cannot tell, since
/// the command line is wrong.
pub(super) type TextRun = fn(&OptArgs, usize, &str, &mut ToolIo<'_>) -> Option<Diags>;

/// Judges texts by what hir-opt says about them.
struct OptJudge<'a, 'io> {
    run: TextRun,
    cli: &'a OptArgs,
    /// The containers in front of the text.
    containers: usize,
    io: &'a ToolIo<'io>,
    end: Instant,
}

/// The verdict behind which no more texts are judged.
const UNJUDGED: TextVerdict = TextVerdict { diags: Vec::new(), instructions: u64::MAX / 4 };

impl TextJudge for OptJudge<'_, '_> {
    fn judge_text(&mut self, text: &str) -> TextVerdict {
        if Instant::now() > self.end {
            return UNJUDGED;
        }
        match self.io.with_silence(|io| (self.run)(self.cli, self.containers, text, io)) {
            Some(diags) => TextVerdict { diags: diags.items, instructions: 0 },
            None => UNJUDGED,
        }
    }
}

/// Adds fixes to diagnostics about a text of the input, behind so many containers.
pub(super) fn add_fixes(
    run: TextRun,
    cli: &OptArgs,
    text: &str,
    containers: usize,
    diags: &mut Diags,
    io: &ToolIo<'_>,
) {
    if cli.verify_diagnostics || text.len() > MOST_TEXT {
        return;
    }
    let end = Instant::now() + MOST_TIME;
    offer_fixes(text, &mut diags.items, &mut OptJudge { run, cli, containers, io, end });
}

/// Repairs the input in its file or to the output, and gives back the result.
///
/// # Errors
/// A text that cannot be edited, and a file that cannot be written.
pub(super) fn repair_input(
    run: TextRun,
    cli: &OptArgs,
    source: &NamedText,
    io: &mut ToolIo<'_>,
) -> Result<NamedText, Diag> {
    let text = editable_text(source)?;
    let end = Instant::now() + MOST_TIME;
    let repaired = repair_source(source, text, &mut OptJudge { run, cli, containers: 0, io, end });
    let in_place = !cli.output_given && cli.file != "-";
    if in_place {
        repaired.write_back(&cli.file, io)?;
    } else {
        output::write_output(io, &cli.output, &repaired.text)?;
    }
    repaired.report_changes("hir-opt", &source.name, cli.format, io);
    Ok(NamedText::new(source.name.clone(), repaired.text))
}
