//! Fixes: changes of a program's text, each judged as the program was.

use crate::settings::Settings;
use hostir::backend::weigh_program;
use hostir::diag::{Diag, Diags};
use hostir::ir::{GivenSizes, Program};
use hostir::plan::cost::CostModel;
use hostir::repair::{TextJudge, TextVerdict, TextWeight, add_tested_fixes};
use hostir::verdict::judge_program;
use hostir::{ParsedFile, ReadOptions};
use hostir_passes::manager::{Config, SilentObserver, run_pipeline};
use hostir_passes::pipeline::Pipeline;
use hostir_tool_support::repairs::{MOST_JUDGED, is_about_text};
use hostir_tool_support::source::NamedText;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which no more texts are judged.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The longest text that fixes are looked for.
const MOST_TEXT: usize = 256 << 10;

/// A text, the number of its program (from 0), and the passes that were run on it.
#[derive(Clone, Debug)]
pub(crate) struct TextRecipe {
    pub(crate) source: NamedText,
    pub(crate) container: usize,
    pub(crate) pipelines: Vec<ModelledPipeline>,
    /// Values of the sizes that give the text's meshes.
    pub(crate) given: GivenSizes,
}

/// Passes, and the model of the machine for which they choose.
#[derive(Clone, Debug)]
pub(crate) struct ModelledPipeline {
    pub(crate) pipeline: Pipeline,
    pub(crate) model: CostModel,
}

impl ModelledPipeline {
    /// The settings of the pass manager.
    pub(crate) fn config(&self) -> Config {
        Config { model: self.model.clone(), ..Config::default() }
    }
}

/// The way in which a changed text is judged.
#[derive(Clone)]
pub(crate) enum Judged {
    /// It is read and verified.
    Text,
    /// It is read, verified, and passes run.
    Passes,
    /// It is proved, too.
    Proof(Arc<Settings>),
}

impl TextRecipe {
    /// A text on which no pass was run.
    pub(crate) fn new(source: NamedText, container: usize) -> Self {
        Self { source, container, pipelines: Vec::new(), given: GivenSizes::default() }
    }

    /// The same with further passes.
    pub(crate) fn with_pipeline(&self, pipeline: ModelledPipeline) -> Self {
        let mut longer = self.clone();
        longer.pipelines.push(pipeline);
        longer
    }

    /// The settings with which the text is read.
    fn read_options(&self) -> ReadOptions {
        ReadOptions { given: self.given.clone(), ..ReadOptions::default() }
    }

    /// The same for other values of the sizes that give the text's meshes.
    pub(crate) fn with_sizes(&self, given: GivenSizes) -> Self {
        Self { given, ..self.clone() }
    }

    /// Reads the program, and runs the passes on it.
    ///
    /// # Errors
    /// Fails with the errors of the text, of the verifier if there are passes, and of the passes.
    pub(crate) fn read_program(&self) -> Result<Program, Vec<Diag>> {
        let text = self.source.decoded_text();
        let (file, mut diags) = ParsedFile::parse(&text);
        let mut program =
            file.reader_with_options(&text, &self.read_options()).read_program(self.container, &mut diags);
        if diags.has_errors() {
            let earlier = diags.primary_spans().collect::<Vec<_>>();
            hostir::verify::verify_partial(&program, &earlier, &mut diags);
            diags.sort_by_place();
            return Err(diags.items);
        }
        for passes in &self.pipelines {
            let result = run_pipeline(&mut program, &passes.pipeline, &passes.config(), &mut SilentObserver);
            result.map_err(|failure| failure.errors.items)?;
        }
        Ok(program)
    }

    /// Adds fixes to diagnostics about the text.
    pub(crate) fn add_fixes(&self, diags: &mut Vec<Diag>, judged: Judged) {
        let Ok(text) = std::str::from_utf8(&self.source.bytes) else { return };
        if text.len() <= MOST_TEXT && is_about_text(&self.source, diags) {
            let model = match &judged {
                Judged::Proof(settings) => settings.read_model().ok(),
                Judged::Text | Judged::Passes => None,
            };
            let model = model.unwrap_or_else(CostModel::of_default_machine);
            let mut judge = Judge { recipe: self, judged, model, end: Instant::now() + MOST_TIME };
            add_tested_fixes(text, diags, &mut judge);
        }
    }
}

/// The warnings of the verifier.
///
/// # Errors
/// Its errors.
pub(crate) fn verify_program(program: &Program) -> Result<Vec<Diag>, Vec<Diag>> {
    let mut diags = Diags::default();
    hostir::verify::verify(program, &mut diags);
    diags.sort_by_place();
    if diags.has_errors() { Err(diags.items) } else { Ok(diags.items) }
}

/// Judges texts in place of the one of a recipe.
struct Judge<'a> {
    recipe: &'a TextRecipe,
    judged: Judged,
    model: CostModel,
    end: Instant,
}

impl Judge<'_> {
    fn read_text(&self, text: &str) -> Result<Program, Vec<Diag>> {
        let source = NamedText::new(self.recipe.source.name.clone(), text);
        let recipe = TextRecipe { source, ..self.recipe.clone() };
        recipe.read_program()
    }

    fn read_and_prove(&self, text: &str) -> Result<TextVerdict, Vec<Diag>> {
        let program = self.read_text(text)?;
        let mut diags = verify_program(&program)?;
        let Judged::Proof(settings) = &self.judged else {
            return Ok(TextVerdict { diags, instructions: 0 });
        };
        let prepared = settings.without_limit().prepare(&program)?;
        let instructions = prepared.plans.iter().map(|plan| plan.inst_count() as u64).sum();
        if instructions <= MOST_JUDGED {
            let report = judge_program(&program, &prepared, &self.model, settings.strict).report;
            diags.extend(report.errors.into_iter().chain(report.warnings));
        }
        Ok(TextVerdict { diags, instructions })
    }
}

impl TextJudge for Judge<'_> {
    fn read_options(&self) -> ReadOptions {
        self.recipe.read_options()
    }

    fn judge_text(&mut self, text: &str) -> TextVerdict {
        if Instant::now() > self.end {
            return TextVerdict { diags: Vec::new(), instructions: u64::MAX / 4 };
        }
        self.read_and_prove(text).unwrap_or_else(|diags| TextVerdict { diags, instructions: 0 })
    }

    fn weigh_text(&mut self, text: &str) -> Option<TextWeight> {
        let Judged::Proof(settings) = self.judged.clone() else { return None };
        if Instant::now() > self.end {
            return None;
        }
        let prepared = settings.without_limit().prepare(&self.read_text(text).ok()?).ok()?;
        let instructions: u64 = prepared.plans.iter().map(|plan| plan.inst_count() as u64).sum();
        if instructions > MOST_JUDGED {
            return None;
        }
        weigh_program(&prepared, &self.model)
    }
}
