//! Fixes of hir-opt: tried for reported errors, and applied with `--fix`.

use super::cli::OptArgs;
use super::output;
use hostir::ReadOptions;
use hostir::backend::weigh_program;
use hostir::diag::{Diag, Diags};
use hostir::hir2::own_text;
use hostir::ir::Program;
use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::cost::CostModel;
use hostir::repair::{TextJudge, TextVerdict, TextWeight, add_further_errors, add_tested_fixes};
use hostir::verdict::ProofVerdict;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::repairs::{MOST_JUDGED, editable_text, repair_source};
use hostir_tool_support::source::NamedText;
use std::time::{Duration, Instant};

/// The time after which no more texts are judged.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The longest text that fixes are looked for.
const MOST_TEXT: usize = 256 << 10;

/// Runs hir-opt with its passes on a text after so many containers; `None` if the command line is wrong.
pub(super) type TextRun = fn(&OptArgs, usize, &str, &mut ToolIo<'_>) -> Option<JudgedText>;

/// All that hir-opt says about a text.
#[derive(Default)]
pub(super) struct JudgedText {
    /// Errors and warnings.
    pub(super) diags: Diags,
    /// The verdicts of proofs, each with the number of the program, from 0.
    pub(super) proofs: Vec<(usize, ProofVerdict)>,
}

/// Judges texts by hir-opt's diagnostics about them.
struct OptJudge<'a, 'io> {
    run: TextRun,
    cli: &'a OptArgs,
    /// The containers in front of the text.
    containers: usize,
    io: &'a ToolIo<'io>,
    end: Instant,
}

/// The verdict after which no more texts are judged.
const UNJUDGED: TextVerdict = TextVerdict { diags: Vec::new(), instructions: u64::MAX / 4 };

impl TextJudge for OptJudge<'_, '_> {
    fn read_options(&self) -> ReadOptions {
        self.cli.read_options(false)
    }

    fn judge_text(&mut self, text: &str) -> TextVerdict {
        if Instant::now() > self.end {
            return UNJUDGED;
        }
        match self.io.with_null_streams(|io| (self.run)(self.cli, self.containers, text, io)) {
            Some(judged) => TextVerdict { diags: judged.diags.items, instructions: 0 },
            None => UNJUDGED,
        }
    }

    /// The weight of the programs as written, for the sizes of the passes' proofs.
    fn weigh_text(&mut self, text: &str) -> Option<TextWeight> {
        if Instant::now() > self.end {
            return None;
        }
        let judged = self.io.with_null_streams(|io| (self.run)(self.cli, self.containers, text, io))?;
        let (programs, _) = hostir::load_with_options(text, &self.cli.read_options(true));
        let weights = judged
            .proofs
            .into_iter()
            .map(|(number, proof)| weigh_proved(programs.get(number)?, proof, &self.cli.model));
        let weights = weights.collect::<Option<Vec<TextWeight>>>()?;
        weights.into_iter().reduce(|mut all, mut weight| {
            all.time_ns += weight.time_ns;
            all.lost_writes.append(&mut weight.lost_writes);
            all
        })
    }
}

/// The weight of a program for the sizes of a proof.
fn weigh_proved(program: &Program, proof: ProofVerdict, model: &CostModel) -> Option<TextWeight> {
    let settings = SizeSettings {
        set: proof.sizes,
        devices: Some(proof.ranks),
        streams: proof.streams.first().copied()?,
        memory_limit: u64::MAX,
        ..SizeSettings::default()
    };
    let prepared = prepare_program(program, &settings).ok()?;
    let instructions: u64 = prepared.plans.iter().map(|plan| plan.inst_count() as u64).sum();
    if instructions <= MOST_JUDGED { weigh_program(&prepared, model) } else { None }
}

/// Adds to diagnostics about a text of the input, after so many containers, the errors of later stages, and fixes to all.
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
    let mut judge = OptJudge { run, cli, containers, io, end };
    add_further_errors(text, &mut diags.items, &mut judge);
    add_tested_fixes(text, &mut diags.items, &mut judge);
}

/// Repairs the input in its file or to the output, and returns the result.
///
/// # Errors
/// If a text cannot be edited, or a file cannot be written.
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
        output::write_output(io, &cli.output, own_text(&repaired.text))?;
    }
    repaired.report_changes("hir-opt", &source.name, cli.format, io);
    Ok(NamedText::new(source.name.clone(), repaired.text))
}
