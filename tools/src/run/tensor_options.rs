//! Options that name tensors and scalars, bound to the program.

use super::cli::{Content, Keyed, Number, Options};
use super::data_files::DataFile;
use super::failure::Failure;
use hostir::diag::{Diag, nearest};
use hostir::ir::scalar_names::{RUNTIME, parts};
use hostir::ir::{Expr, ExprId, Program, TensorId, Value};
use hostir::lower::Sizes;
use hostir::plan::Limits;
use hostir_tool_support::errors;
use std::collections::BTreeMap;

/// The options of each tensor input and output.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    /// By input.
    pub(super) inputs: Vec<Option<&'a Content>>,
    /// By output, then by kept tensor.
    pub(super) outputs: Vec<Option<&'a DataFile>>,
    /// By output, then by kept tensor.
    pub(super) expects: Vec<Option<&'a DataFile>>,
    /// Tensors that are no outputs and that `--output` or `--expect` names.
    pub(super) kept: Vec<TensorId>,
    /// By `T0`.
    shapes: BTreeMap<String, Vec<usize>>,
}

impl Bound<'_> {
    /// The sizes that flags fix.
    pub(super) fn sizes(&self, options: &Options) -> Sizes {
        Sizes {
            set: whole_numbers(&options.set),
            reals: reals(&options.set),
            every: options.every,
            shapes: self.shapes.clone(),
            devices: options.devices,
            processes: options.launch.world.is_some(),
            streams: options.streams,
            limits: Limits { bytes: options.plan_memory.unwrap_or(Limits::BYTES), time: None },
            ..Sizes::default()
        }
    }
    /// By output and kept tensor: whether all files of it hold one rank's part each.
    pub(super) fn in_parts(&self) -> Vec<bool> {
        let files = self.outputs.iter().zip(&self.expects);
        files.map(|(out, expect)| out.iter().chain(expect).all(|file| file.per_rank())).collect()
    }
}

/// Binds all options to the program, or says what is wrong with any of them.
///
/// # Errors
/// All options that name nothing of the program or one thing twice.
pub(super) fn bind<'a>(program: &Program, options: &'a Options) -> Result<Bound<'a>, Failure> {
    let inputs = Side { program, tensors: tensors(program.inputs()), word: "input" };
    let mut outputs = Side { program, tensors: tensors(program.outputs()), word: "output" };
    let mut diags = Vec::new();
    let shapes = inputs.bind("shape", &options.shapes, &outputs, &mut diags);
    let shapes = inputs
        .tensors
        .iter()
        .zip(shapes)
        .filter_map(|(tensor, shape)| Some((*tensor, shape?.clone())));
    let generated = inputs.bind("input", &options.inputs, &outputs, &mut diags);
    let results = outputs.tensors.len();
    let named = options.outputs.iter().chain(&options.expects);
    outputs.add_others(named.map(|(key, _)| key.as_str()));
    let bound = Bound {
        inputs: generated,
        kept: outputs.tensors[results..].to_vec(),
        outputs: outputs.bind("output", &options.outputs, &inputs, &mut diags),
        expects: outputs.bind("expect", &options.expects, &inputs, &mut diags),
        shapes: shapes.map(|(tensor, shape)| (number(program, tensor), shape)).collect(),
    };
    check_scalars(program, &options.set, &mut diags);
    if diags.is_empty() { Ok(bound) } else { Err(diags.into()) }
}

/// The integers among the scalars that were set.
pub(super) fn whole_numbers(set: &Keyed<Number>) -> BTreeMap<String, i64> {
    set.iter()
        .filter_map(|(name, value): &(String, Number)| match value {
            Number::Int(value) => Some((name.clone(), *value)),
            Number::Real(_) => None,
        })
        .collect()
}

/// The others.
pub(super) fn reals(set: &Keyed<Number>) -> BTreeMap<String, f64> {
    set.iter()
        .filter_map(|(name, value): &(String, Number)| match value {
            Number::Real(value) => Some((name.clone(), *value)),
            Number::Int(_) => None,
        })
        .collect()
}

/// The tensors among inputs or outputs.
pub(super) fn tensors(values: &[Value]) -> Vec<TensorId> {
    values.iter().filter_map(|value| value.tensor()).collect()
}

/// `T0`, whatever name the tensor has.
pub(super) fn number(program: &Program, tensor: TensorId) -> String {
    format!("T{}", program.tensor(tensor).number)
}

/// The inputs, or the outputs.
struct Side<'a> {
    program: &'a Program,
    tensors: Vec<TensorId>,
    word: &'static str,
}

impl Side<'_> {
    /// The option of each tensor.
    fn bind<'o, T>(
        &self,
        flag: &str,
        keyed: &'o Keyed<T>,
        other: &Side<'_>,
        diags: &mut Vec<Diag>,
    ) -> Vec<Option<&'o T>> {
        let mut bound: Vec<Option<&'o T>> = self.tensors.iter().map(|_| None).collect();
        for (key, value) in keyed {
            match self.find(key) {
                Some(index) if bound[index].is_some() => {
                    let name = self.program.tensor_name(self.tensors[index]);
                    diags.push(Diag::global(
                        errors::TWICE,
                        format!("`--{flag}` is given twice for {name}"),
                    ));
                }
                Some(index) => bound[index] = Some(value),
                None => diags.push(self.unknown(flag, key, other)),
            }
        }
        bound
    }
    /// Adds tensors of the host program that are neither named nor counted among these yet.
    fn add_others<'k>(&mut self, keys: impl Iterator<Item = &'k str>) {
        for key in keys.filter(|key| key.parse::<usize>().is_err()) {
            let found = self
                .program
                .tensors()
                .iter()
                .find(|(id, tensor): &(TensorId, &hostir::ir::Tensor)| {
                    let name = self.program.tensor_name(*id);
                    tensor.unit.is_none() && (number(self.program, *id) == key || name == key)
                })
                .map(|(id, _)| id);
            self.tensors.extend(found.filter(|id| !self.tensors.contains(id)));
        }
    }
    /// The tensor of a number, name or position.
    fn find(&self, key: &str) -> Option<usize> {
        self.tensors
            .iter()
            .position(|tensor: &TensorId| {
                number(self.program, *tensor) == key || self.program.tensor_name(*tensor) == key
            })
            .or_else(|| key.parse().ok().filter(|index: &usize| *index < self.tensors.len()))
    }
    fn unknown(&self, flag: &str, key: &str, other: &Side<'_>) -> Diag {
        let names: Vec<String> =
            self.tensors.iter().map(|tensor| self.program.tensor_name(*tensor)).collect();
        let what = match other.find(key).filter(|_| key.parse::<usize>().is_err()) {
            Some(_) => {
                format!("`--{flag} {key}`: {key} is an {}, not an {}", other.word, self.word)
            }
            None => format!("`--{flag} {key}`: the program has no {} `{key}`", self.word),
        };
        let diag = Diag::global(errors::TENSOR, what);
        // A slip in a number is no reason to guess another tensor.
        let near = nearest(key, names.iter().map(String::as_str)).filter(|near| !is_number(near));
        diag.note(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => format!("it has no tensor {}s", self.word),
            None => format!("its {}s are {}", self.word, names.join(", ")),
        })
    }
}

/// Whether a name is `T` and a number.
fn is_number(name: &str) -> bool {
    name.strip_prefix('T').is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// Reports `--set` of names that the program does not have, or twice for one.
fn check_scalars(program: &Program, set: &Keyed<Number>, diags: &mut Vec<Diag>) {
    let names: Vec<&str> = (0..program.exprs().len())
        .filter_map(|index| match program.expr(ExprId(index as u32)) {
            Expr::Name(name) => Some(program.name(*name)),
            _ => None,
        })
        .collect();
    for (index, (name, value)) in set.iter().enumerate() {
        if set[..index].iter().any(|(other, _)| other == name) {
            diags.push(Diag::global(errors::TWICE, format!("`--set` is given twice for {name}")));
        }
        if names.contains(&name.as_str()) {
            continue;
        }
        let message = format!("`--set {name}={value}`: the program has no scalar `{name}`");
        let diag = Diag::global(errors::SCALAR, message);
        diags.push(match nearest(name, names.iter().copied()) {
            Some(near) => diag.note(format!("did you mean `{near}`?")),
            None => diag.note(extents(program)),
        });
    }
}

/// The names that may be set, in words.
fn extents(program: &Program) -> String {
    let mut names = Vec::new();
    for (tensor, _) in program.tensors().iter().filter(|(_, tensor)| tensor.unit.is_none()) {
        program.domains(tensor).iter().for_each(|axis| add_names(program, axis.extent, &mut names));
    }
    let scalars = program.inputs().iter().filter_map(|input| input.scalar());
    scalars.for_each(|scalar| add_names(program, scalar, &mut names));
    match names.len() {
        0 => "it has no sizes that could be set".to_owned(),
        1 => format!("it has only {}", names[0]),
        count @ ..=MOST_NAMES => {
            format!("it has {} and {}", names[..count - 1].join(", "), names[count - 1])
        }
        count => {
            format!("it has {} and {} more", names[..MOST_NAMES].join(", "), count - MOST_NAMES)
        }
    }
}

/// Names that a note lists.
const MOST_NAMES: usize = 8;

/// Adds the names of an expression that callers may set, each once.
fn add_names<'p>(program: &'p Program, expr: ExprId, names: &mut Vec<&'p str>) {
    match program.expr(expr) {
        Expr::Name(name) => {
            let name = program.name(*name);
            if !RUNTIME.contains(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
        other => parts(other).iter().for_each(|&part| add_names(program, part, names)),
    }
}
