//! Programs: reads, verifies, changes and writes them.

use crate::failure::{Failure, diags_as_json};
use crate::judge::{Judged, ModelledPipeline, TextRecipe, verify_program};
use crate::settings::read_model;
use crate::worker::run_detached;
use hostir::ParsedFile;
use hostir::analysis::written::written_inputs;
use hostir::diag::{Diag, codes};
use hostir::ir::{GivenSizes, Program, Value};
use hostir::lower::io_names::tensor_ids;
use hostir::print::{PrintForm, PrintOptions};
use hostir_passes::PASSES;
use hostir_passes::manager::{PipelineFailure, SilentObserver, run_pipeline};
use hostir_passes::pipeline::parse_pipeline;
use hostir_tool_support::errors;
use hostir_tool_support::source::NamedText;
use pyo3::prelude::*;
use std::sync::Arc;

/// A program with its text, and the passes that were run on it since.
#[derive(Clone, Debug)]
pub(crate) struct SourcedProgram {
    pub(crate) program: Arc<Program>,
    pub(crate) recipe: Arc<TextRecipe>,
}

/// The program that passes leave, and their messages.
struct PassResult {
    made: SourcedProgram,
    notices: Vec<Diag>,
}

impl SourcedProgram {
    /// The warnings of the verifier.
    ///
    /// # Errors
    /// Its errors.
    pub(crate) fn verify(&self) -> Result<Vec<Diag>, Vec<Diag>> {
        verify_program(&self.program)
    }

    /// Diagnostics about the program as an error, with fixes where some are found that work.
    pub(crate) fn to_failure(&self, mut diags: Vec<Diag>, judged: Judged) -> Failure {
        self.recipe.add_fixes(&mut diags, judged);
        Failure::new(&self.recipe.source, diags)
    }

    /// The program for these sizes: its text is read again if sizes give its meshes.
    ///
    /// # Errors
    /// If the sizes give no meshes.
    pub(crate) fn for_sizes(&self, given: GivenSizes) -> Result<Self, Failure> {
        if self.program.given_names().sized.texts.is_empty() {
            return Ok(self.clone());
        }
        let recipe = self.recipe.with_sizes(given);
        match recipe.read_program() {
            Ok(program) => Ok(Self { program: Arc::new(program), recipe: Arc::new(recipe) }),
            Err(diags) => Err(failure_of(&recipe, diags)),
        }
    }

    /// The program after some passes, which work on numbers in the place of sizes that give its meshes.
    fn run_passes(&self, pipeline: &str, machine: Option<&str>) -> Result<PassResult, Failure> {
        let model = read_model(machine)?;
        let text = NamedText::new("passes", pipeline);
        let parsed = parse_pipeline(pipeline, PASSES).map_err(|diags| Failure::new(&text, diags.items))?;
        let given = GivenSizes {
            devices: parsed.wanted_devices(),
            as_numbers: !parsed.steps.is_empty(),
            ..GivenSizes::default()
        };
        let this = self.for_sizes(given)?;
        let mut program = Program::clone(&this.program);
        let passes = ModelledPipeline { pipeline: parsed, model };
        match run_pipeline(&mut program, &passes.pipeline, &passes.config(), &mut SilentObserver) {
            Ok(report) => {
                let recipe = this.recipe.with_pipeline(passes);
                let made = SourcedProgram { program: Arc::new(program), recipe: Arc::new(recipe) };
                Ok(PassResult { made, notices: report.notices.items })
            }
            Err(failure) => Err(this.pass_failure(&text, passes, *failure)),
        }
    }

    /// The error of a pipeline: about its text if an option is at fault, else about the program's.
    fn pass_failure(&self, text: &NamedText, passes: ModelledPipeline, failure: PipelineFailure) -> Failure {
        if !failure.faults.is_empty() {
            let located = failure.faults.iter().map(|fault| passes.pipeline.locate_fault(failure.step, fault));
            return Failure::new(text, located.collect());
        }
        let mut diags = failure.errors.items;
        self.recipe.with_pipeline(passes).add_fixes(&mut diags, Judged::Passes);
        Failure::new(&self.recipe.source, diags)
    }
}

/// A program.
#[pyclass(frozen, name = "NativeProgram", module = "hostir._native")]
pub(crate) struct NativeProgram {
    pub(crate) inner: SourcedProgram,
}

#[pymethods]
impl NativeProgram {
    /// The name of the text, for messages.
    #[getter]
    fn name(&self) -> String {
        self.inner.recipe.source.name.clone()
    }

    /// The text that the program was read from.
    #[getter]
    fn source(&self) -> String {
        self.inner.recipe.source.decoded_text().into_owned()
    }

    /// Whether that text is in `hir 2`.
    #[getter]
    fn is_hir2(&self) -> bool {
        self.inner.program.is_hir2()
    }

    /// The names of the tensor inputs.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        tensor_names(&self.inner.program, self.inner.program.inputs())
    }

    /// The names of the tensor outputs.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        tensor_names(&self.inner.program, self.inner.program.outputs())
    }

    /// The names of the inputs that the program writes.
    #[getter]
    fn written_inputs(&self) -> Vec<String> {
        let written = written_inputs(&self.inner.program).into_iter().map(Value::Tensor).collect::<Vec<_>>();
        tensor_names(&self.inner.program, &written)
    }

    /// The names of sizes and scalar inputs that a caller may set.
    #[getter]
    fn sizes(&self) -> Vec<String> {
        let names = hostir::lower::io_names::settable_names(&self.inner.program);
        names.into_iter().map(str::to_owned).collect()
    }

    /// The names of scalar inputs that are no extent of a tensor.
    #[getter]
    fn untold_scalars(&self) -> Vec<String> {
        let names = hostir::lower::io_names::untold_scalars(&self.inner.program);
        names.into_iter().map(str::to_owned).collect()
    }

    /// The position of an input or output by name or number.
    fn position(&self, name: &str, output: bool) -> Option<usize> {
        let program = &self.inner.program;
        let tensors = tensor_ids(if output { program.outputs() } else { program.inputs() });
        hostir::lower::io_names::find_named_tensor(program, &tensors, name)
    }

    /// The printed form; `short` writes each tensor in full only once.
    fn to_printed(&self, py: Python<'_>, short: bool) -> PyResult<String> {
        let form = if short { PrintForm::Short } else { PrintForm::Full };
        let given = GivenSizes { as_numbers: true, ..self.inner.recipe.given.clone() };
        let program = self.inner.for_sizes(given).map_err(|failure| failure.into_exception(py))?.program;
        // Texts are as deep as programs are, and the caller's stack may be small.
        run_detached(py, move || {
            let mut out = String::new();
            let options = PrintOptions { form, ..PrintOptions::default() };
            hostir::print::print_into(&program, options, &mut out);
            out
        })
    }

    /// The text in `hir 2`.
    fn to_hir2(&self, py: Python<'_>) -> PyResult<String> {
        let program = self.inner.program.clone();
        run_detached(py, move || hostir::hir2::write::write_file(&mut [Program::clone(&program)]))
    }

    /// Verifies the program, and gives the warnings as JSON.
    fn verify(&self, py: Python<'_>) -> PyResult<String> {
        let inner = self.inner.clone();
        let result = run_detached(py, move || {
            let warnings = inner.verify().map_err(|diags| inner.to_failure(diags, Judged::Text))?;
            Ok::<_, Failure>(diags_as_json(&inner.recipe.source, &warnings))
        })?;
        result.map_err(|failure| failure.into_exception(py))
    }

    /// The program after some passes, and their warnings as JSON. Passes that choose do so for a machine.
    fn run_passes(
        &self,
        py: Python<'_>,
        pipeline: String,
        machine: Option<String>,
    ) -> PyResult<(NativeProgram, String)> {
        let inner = self.inner.clone();
        let result = run_detached(py, move || inner.run_passes(&pipeline, machine.as_deref()))?;
        let PassResult { made, notices } = result.map_err(|failure| failure.into_exception(py))?;
        let notices = diags_as_json(&made.recipe.source, &notices);
        Ok((NativeProgram { inner: made }, notices))
    }
}

fn tensor_names(program: &Program, values: &[Value]) -> Vec<String> {
    tensor_ids(values).into_iter().map(|tensor| program.tensor_name(tensor)).collect()
}

/// Reads the programs of a text: all, or the one of this number (from 1) or name.
#[pyfunction]
#[pyo3(name = "parse")]
pub(crate) fn parse_text(
    py: Python<'_>,
    text: String,
    name: String,
    which: Option<String>,
) -> PyResult<Vec<NativeProgram>> {
    let result = run_detached(py, move || read_programs(text, name, which.as_deref()))?;
    let programs = result.map_err(|failure| failure.into_exception(py))?;
    Ok(programs.into_iter().map(|inner| NativeProgram { inner }).collect())
}

fn read_programs(text: String, name: String, which: Option<&str>) -> Result<Vec<SourcedProgram>, Failure> {
    let source = NamedText::new(name, text).link_beside_file();
    let (names, syntax) = {
        let (file, diags) = ParsedFile::parse(&source.decoded_text());
        (file.program_names(), diags)
    };
    if syntax.has_errors() {
        // Reading a program reports them with everything else.
        let recipe = TextRecipe::new(source, 0);
        let diags = recipe.read_program().err().unwrap_or(syntax.items);
        return Err(failure_of(&recipe, diags));
    }
    let chosen = choose_programs(&source.name, &names, which)?;
    let read = chosen.into_iter().map(|container| {
        let recipe = TextRecipe::new(source.clone(), container);
        match recipe.read_program() {
            Ok(program) => Ok(SourcedProgram { program: Arc::new(program), recipe: Arc::new(recipe) }),
            Err(diags) => Err(failure_of(&recipe, diags)),
        }
    });
    read.collect()
}

fn failure_of(recipe: &TextRecipe, mut diags: Vec<Diag>) -> Failure {
    recipe.add_fixes(&mut diags, Judged::Text);
    Failure::new(&recipe.source, diags)
}

/// The numbers of the requested programs: all, or the one of this number (from 1) or name.
fn choose_programs(name: &str, names: &[Option<String>], which: Option<&str>) -> Result<Vec<usize>, Diag> {
    let Some(which) = which else { return Ok((0..names.len()).collect()) };
    let named = names.iter().position(|known| known.as_deref() == Some(which));
    let numbered =
        which.parse().ok().filter(|number| (1..=names.len()).contains(number)).map(|number: usize| number - 1);
    if let Some(found) = named.or(numbered) {
        return Ok(vec![found]);
    }
    let message = format!("`{name}` has no program `{which}`");
    let known: Vec<String> = names.iter().flatten().map(|name| format!("`{name}`")).collect();
    let note = match known.is_empty() {
        true => format!("it has {}; choose one by number, from 1", names.len()),
        false => format!("it has {}", known.join(", ")),
    };
    Err(Diag::global_error(errors::CONTAINER, message).with_note(note))
}

/// The reader's code of a file that is no text.
const NOT_UTF8: &str = "H0019";

/// Raises an error with one of the codes that Python's side has a use for.
#[pyfunction]
pub(crate) fn raise_error(py: Python<'_>, code: &str, message: String, note: Option<String>) -> PyResult<()> {
    let known = [
        errors::CONTAINER,
        errors::TENSOR,
        errors::DIFFERS,
        errors::CONFLICT,
        errors::REFERENCE,
        codes::SESSION,
        codes::SYMMETRIC_MEMORY,
        NOT_UTF8,
    ];
    let code = known.into_iter().find(|known| *known == code).unwrap_or(errors::VALUE);
    let diag = Diag::global_error(code, message);
    let diag = match note {
        Some(note) => diag.with_note(note),
        None => diag,
    };
    Err(Failure::from(diag).into_exception(py))
}
