//! Options that name tensors and scalars, bound to the program.

use super::cli::{InputContent, KeyedValues, Options, ScalarNumber};
use super::data_files::DataFile;
use super::failure::RunFailure;
use hostir::diag::message;
use hostir::diag::{Diag, nearest_candidate};
use hostir::ir::{Program, TensorId};
use hostir::lower::io_names::{describe_settable, find_named_tensor, scalar_names, tensor_ids, tensor_number};
use hostir::lower::{SizeSettings, stream_count};
use hostir::plan::PlanLimits;
use hostir_tool_support::errors;
use std::collections::BTreeMap;

/// The options of each tensor input and output.
#[derive(Debug)]
pub(super) struct BoundOptions<'a> {
    /// By input.
    pub(super) inputs: Vec<Option<&'a InputContent>>,
    /// By output, then by kept tensor.
    pub(super) outputs: Vec<Option<&'a DataFile>>,
    /// By output, then by kept tensor.
    pub(super) expects: Vec<Option<&'a DataFile>>,
    /// Tensors that are no outputs and that `--output` or `--expect` names.
    pub(super) kept: Vec<TensorId>,
    /// By name, or `T0`.
    shapes: BTreeMap<String, Vec<usize>>,
}

impl BoundOptions<'_> {
    /// The sizes that flags fix.
    pub(super) fn fixed_sizes(&self, options: &Options, program: &Program) -> SizeSettings {
        SizeSettings {
            set: whole_numbers(&options.set),
            reals: real_values(&options.set),
            every: options.every,
            shapes: self.shapes.clone(),
            devices: options.devices,
            processes: options.launch.world.is_some(),
            streams: stream_count(program, options.streams),
            random_seed: options.seed,
            limits: PlanLimits { bytes: options.plan_memory.unwrap_or(PlanLimits::BYTES), time: None },
            ..SizeSettings::default()
        }
    }
    /// By output and kept tensor: true if each of its files has one rank's shard.
    pub(super) fn outputs_in_parts(&self) -> Vec<bool> {
        let files = self.outputs.iter().zip(&self.expects);
        files.map(|(out, expect)| out.iter().chain(expect).all(|file| file.per_rank())).collect()
    }
}

/// Binds all options to the program, or reports the errors in any of them.
///
/// # Errors
/// All options that name nothing of the program or one thing twice.
pub(super) fn bind_options<'a>(program: &Program, options: &'a Options) -> Result<BoundOptions<'a>, RunFailure> {
    let inputs = NamedTensors { program, tensors: tensor_ids(program.inputs()), word: "input" };
    let mut outputs = NamedTensors { program, tensors: tensor_ids(program.outputs()), word: "output" };
    let mut diags = Vec::new();
    let shapes = inputs.bind_values("shape", &options.shapes, &outputs, &mut diags);
    let shapes = inputs.tensors.iter().zip(shapes).filter_map(|(tensor, shape)| Some((*tensor, shape?.clone())));
    let generated = inputs.bind_values("input", &options.inputs, &outputs, &mut diags);
    let results = outputs.tensors.len();
    let named = options.outputs.iter().chain(&options.expects);
    outputs.add_others(named.map(|(key, _)| key.as_str()));
    let bound = BoundOptions {
        inputs: generated,
        kept: outputs.tensors[results..].to_vec(),
        outputs: outputs.bind_values("output", &options.outputs, &inputs, &mut diags),
        expects: outputs.bind_values("expect", &options.expects, &inputs, &mut diags),
        shapes: shapes.map(|(tensor, shape)| (program.tensor_name(tensor), shape)).collect(),
    };
    check_scalars(program, &options.set, &mut diags);
    if diags.is_empty() { Ok(bound) } else { Err(diags.into()) }
}

/// The integers among the given scalars.
pub(super) fn whole_numbers(set: &KeyedValues<ScalarNumber>) -> BTreeMap<String, i64> {
    set.iter()
        .filter_map(|(name, value): &(String, ScalarNumber)| match value {
            ScalarNumber::Int(value) => Some((name.clone(), *value)),
            ScalarNumber::Real(_) => None,
        })
        .collect()
}

/// The others.
pub(super) fn real_values(set: &KeyedValues<ScalarNumber>) -> BTreeMap<String, f64> {
    set.iter()
        .filter_map(|(name, value): &(String, ScalarNumber)| match value {
            ScalarNumber::Real(value) => Some((name.clone(), *value)),
            ScalarNumber::Int(_) => None,
        })
        .collect()
}

/// The inputs, or the outputs.
struct NamedTensors<'a> {
    program: &'a Program,
    tensors: Vec<TensorId>,
    word: &'static str,
}

impl NamedTensors<'_> {
    /// The option of each tensor.
    fn bind_values<'o, T>(
        &self,
        flag: &str,
        keyed: &'o KeyedValues<T>,
        other: &NamedTensors<'_>,
        diags: &mut Vec<Diag>,
    ) -> Vec<Option<&'o T>> {
        let mut bound: Vec<Option<&'o T>> = self.tensors.iter().map(|_| None).collect();
        for (key, value) in keyed {
            match self.find_tensor(key) {
                Some(index) if bound[index].is_some() => {
                    let name = self.program.quoted_tensor(self.tensors[index]);
                    diags.push(Diag::global_error(errors::TWICE, message!("`--{}` is given twice for {}", flag, name)));
                }
                Some(index) => bound[index] = Some(value),
                None => diags.push(self.unknown_name(flag, key, other)),
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
                    tensor.unit.is_none() && (tensor_number(self.program, *id) == key || name == key)
                })
                .map(|(id, _)| id);
            self.tensors.extend(found.filter(|id| !self.tensors.contains(id)));
        }
    }
    /// The tensor of a number, name or position.
    fn find_tensor(&self, key: &str) -> Option<usize> {
        find_named_tensor(self.program, &self.tensors, key)
    }
    fn unknown_name(&self, flag: &str, key: &str, other: &NamedTensors<'_>) -> Diag {
        let names: Vec<String> = self.tensors.iter().map(|tensor| self.program.tensor_name(*tensor)).collect();
        let what = match other.find_tensor(key).filter(|_| key.parse::<usize>().is_err()) {
            Some(_) => {
                format!("`--{flag} {key}`: {key} is an {}, not an {}", other.word, self.word)
            }
            None => format!("`--{flag} {key}`: the program has no {} `{key}`", self.word),
        };
        let diag = Diag::global_error(errors::TENSOR, what);
        // A wrong number is no reason to guess another tensor.
        let near = nearest_candidate(key, names.iter().map(String::as_str)).filter(|near| !is_number(near));
        diag.with_note(match near {
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

/// The indices of `--set` values that the program has a scalar for.
pub(super) fn known_scalars(program: &Program, set: &KeyedValues<ScalarNumber>) -> Vec<usize> {
    let names = scalar_names(program);
    (0..set.len()).filter(|&index| names.contains(&set[index].0.as_str())).collect()
}

/// Reports `--set` of names that the program does not have, or twice for one.
fn check_scalars(program: &Program, set: &KeyedValues<ScalarNumber>, diags: &mut Vec<Diag>) {
    let names = scalar_names(program);
    for (index, (name, value)) in set.iter().enumerate() {
        if set[..index].iter().any(|(other, _)| other == name) {
            diags.push(Diag::global_error(errors::TWICE, message!("`--set` is given twice for {}", name)));
        }
        if names.contains(&name.as_str()) {
            continue;
        }
        let message = message!("`--set {}={}`: the program has no scalar `{}`", name, value.to_string(), name);
        let diag = Diag::global_error(errors::SCALAR, message);
        diags.push(match nearest_candidate(name, names.iter().copied()) {
            _ if ["streams", "numberOfStreams"].contains(&name.as_str()) => {
                diag.with_note(message!("write `--streams {}`: it is the number of streams", value.to_string()))
            }
            Some(near) => diag.with_note(message!("did you mean `{}`?", near)),
            None => diag.with_note(describe_settable(program)),
        });
    }
}
