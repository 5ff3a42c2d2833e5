//! Sizes, ranks and streams that a caller fixes.

use crate::failure::Failure;
use hostir::diag::{Diag, codes, nearest_candidate};
use hostir::ir::{GivenSizes, Program};
use hostir::lower::io_names::{describe_settable, find_named_tensor, scalar_names, tensor_ids};
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program, stream_count};
use hostir::plan::PlanLimits;
use hostir::plan::cost::CostModel;
use hostir_tool_support::errors;
use hostir_tool_support::machines::{MissingMachine, find_machine_here};
use pyo3::prelude::*;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

/// The value of a size or scalar input.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) enum Scalar {
    /// An extent, or an integer scalar.
    #[pyo3(transparent)]
    Int(i64),
    /// A real scalar.
    #[pyo3(transparent)]
    Real(f64),
}

/// The settings that Python's functions take beside the program.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    /// Number of ranks; `None` for as many as the meshes need.
    devices: Option<u32>,
    /// By name; `*` for all that is left open.
    sizes: BTreeMap<String, Scalar>,
    /// Shapes of whole tensors, by name, `T0` or position.
    shapes: BTreeMap<String, Vec<usize>>,
    /// Number of streams.
    streams: Option<u32>,
    /// Warnings are errors.
    pub(crate) strict: bool,
    /// Seconds for planning and for a run.
    timeout: Option<f64>,
    /// True if nothing is allocated, so that the memory of this machine is no limit.
    pub(crate) unlimited: bool,
    /// The keys of `shapes` that are those of arrays.
    #[pyo3(default)]
    arrays: BTreeSet<String>,
    /// The seed of random numbers for which the program has none.
    #[pyo3(default)]
    random_seed: u64,
    /// The machine for which times are modelled: the name of a built-in one, or a file.
    #[pyo3(default)]
    machine: Option<String>,
}

impl Settings {
    /// The model of the machine.
    ///
    /// # Errors
    /// A name that no machine has, a file that cannot be read or is not a machine.
    pub(crate) fn read_model(&self) -> Result<CostModel, Failure> {
        read_model(self.machine.as_deref())
    }

    /// The same for plans that are not run.
    pub(crate) fn without_limit(&self) -> Self {
        Self { unlimited: true, ..self.clone() }
    }

    /// The same with another seed of random numbers.
    pub(crate) fn with_random_seed(self, random_seed: u64) -> Self {
        Self { random_seed, ..self }
    }

    /// The same with the shapes of the caller's tensors; given shapes stay.
    pub(crate) fn with_shapes(&self, shapes: impl Iterator<Item = (String, Vec<usize>)>) -> Self {
        let mut wider = self.clone();
        for (name, shape) in shapes {
            if let Entry::Vacant(entry) = wider.shapes.entry(name) {
                wider.arrays.insert(entry.key().clone());
                entry.insert(shape);
            }
        }
        wider
    }

    /// The same with the sizes of the caller's tensors; given sizes stay.
    pub(crate) fn with_sizes(mut self, sizes: BTreeMap<String, i64>) -> Self {
        for (name, value) in sizes {
            self.sizes.entry(name).or_insert(Scalar::Int(value));
        }
        self
    }

    /// The values of the sizes that give meshes.
    pub(crate) fn given_sizes(&self) -> GivenSizes {
        let integers = self.sizes.iter().filter_map(|(name, value)| match value {
            Scalar::Int(value) => Some((name.clone(), *value)),
            Scalar::Real(_) => None,
        });
        let mut set: BTreeMap<String, i64> = integers.collect();
        let every = set.remove("*");
        GivenSizes { set, devices: self.devices, every, as_numbers: false }
    }

    /// The same without the sizes that give a program's meshes, for the program with numbers in their place.
    pub(crate) fn without_mesh_sizes(mut self, program: &Program) -> Self {
        for size in &program.given_names().sized.sizes {
            self.sizes.remove(program.name(size.name));
        }
        self
    }

    /// Binds the sizes and plans all ranks.
    ///
    /// # Errors
    /// Names that the program does not have, and errors of planning.
    pub(crate) fn prepare(&self, program: &Program) -> Result<PreparedProgram, Vec<Diag>> {
        let mut sizes = self.bind(program)?;
        // The value for all open extents comes after the sizes that the text proposes, as in `hir-run`.
        let every = sizes.every.take();
        let planned = match prepare_program(program, &sizes) {
            Err(diags) if every.is_some() && diags.items.iter().all(|diag| diag.code != codes::TIMEOUT) => {
                sizes.every = every;
                prepare_program(program, &sizes)
            }
            planned => planned,
        };
        planned.map_err(|mut diags| {
            diags.sort_by_place();
            diags.items
        })
    }

    fn bind(&self, program: &Program) -> Result<SizeSettings, Vec<Diag>> {
        let mut diags = Vec::new();
        let mut sizes = SizeSettings {
            devices: self.devices,
            streams: stream_count(program, self.streams),
            random_seed: self.random_seed,
            ..SizeSettings::default()
        };
        self.bind_shapes(program, &mut sizes, &mut diags);
        let time = self.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        sizes.limits = PlanLimits { time, ..PlanLimits::default() };
        if self.unlimited {
            sizes.memory_limit = u64::MAX;
        }
        self.bind_scalars(program, &mut sizes, &mut diags);
        if diags.is_empty() { Ok(sizes) } else { Err(diags) }
    }

    fn bind_shapes(&self, program: &Program, sizes: &mut SizeSettings, diags: &mut Vec<Diag>) {
        let inputs = tensor_ids(program.inputs());
        for (key, shape) in &self.shapes {
            let Some(at) = find_named_tensor(program, &inputs, key) else {
                diags.push(unknown_input(program, "shapes", key));
                continue;
            };
            let name = program.tensor_name(inputs[at]);
            if self.arrays.contains(key) {
                sizes.files.insert(name.clone(), format!("inputs[\"{key}\"]"));
            }
            sizes.shapes.insert(name, shape.clone());
        }
    }

    fn bind_scalars(&self, program: &Program, sizes: &mut SizeSettings, diags: &mut Vec<Diag>) {
        let names = scalar_names(program);
        for (name, value) in &self.sizes {
            match value {
                Scalar::Int(value @ 0..) if name == "*" => sizes.every = Some(*value),
                Scalar::Int(value) if name == "*" => diags.push(no_extent(value)),
                Scalar::Real(value) if name == "*" => diags.push(no_extent(value)),
                _ if !names.contains(&name.as_str()) => diags.push(unknown_scalar(program, name, &names)),
                Scalar::Int(value) => _ = sizes.set.insert(name.clone(), *value),
                Scalar::Real(value) => _ = sizes.reals.insert(name.clone(), *value),
            }
        }
    }
}

/// The model of a machine: the built-in one of a name, or that of a file; the default one without either.
///
/// # Errors
/// A name that no machine has, a file that cannot be read or is not a machine.
pub(crate) fn read_model(machine: Option<&str>) -> Result<CostModel, Failure> {
    let Some(word) = machine else { return Ok(CostModel::of_default_machine()) };
    match find_machine_here(word) {
        Ok(found) => Ok(CostModel::of_machine(found)),
        Err(missing) => {
            let MissingMachine { source, error } = *missing;
            Err(Failure::new(&source, vec![error]))
        }
    }
}

/// The error for an invalid value of all open extents.
fn no_extent(value: &dyn Debug) -> Diag {
    let message = format!("`sizes[\"*\"]` is {value:?}, but an extent is an integer that is not negative");
    Diag::global_error(errors::VALUE, message).with_note("write `sizes={\"*\": 8}`")
}

fn unknown_scalar(program: &Program, name: &str, names: &[&str]) -> Diag {
    let diag = Diag::global_error(errors::SCALAR, format!("sizes: the program has no scalar `{name}`"));
    match nearest_candidate(name, names.iter().copied()) {
        Some(near) => diag.with_note(format!("did you mean `{near}`?")),
        None => diag.with_note(describe_settable(program)),
    }
}

/// The error of an argument that names no input.
pub(crate) fn unknown_input(program: &Program, argument: &str, key: &str) -> Diag {
    let inputs = tensor_ids(program.inputs());
    let names: Vec<String> = inputs.into_iter().map(|tensor| program.tensor_name(tensor)).collect();
    let diag = Diag::global_error(errors::TENSOR, format!("{argument}: the program has no input `{key}`"));
    match names.is_empty() {
        true => diag.with_note("it has no tensor inputs"),
        false => diag.with_note(format!("its inputs are {}", names.join(", "))),
    }
}
