//! The session builder: a text, sizes and options make a session.

use crate::runtime::io_binding::IoSide;
use crate::session::error::DiagSource;
use crate::session::{DeviceTensor, Error, IoKey, Options, Session, names};
use hostir::diag::message;
use hostir::diag::{Diag, Diags, codes};
use hostir::ir::TensorId;
use hostir::lower::{SizeSettings, prepare_program};
use hostir::ops::OpRegistry;
use hostir::plan::axes::AxesTable;
use hostir::plan_checks::prove_program;
use hostir::{ReadOptions, ir, verify};
use std::sync::Arc;

/// The inputs from which a session is built. [`Builder::build`] fails, and names the size, if no call here fixes it and
/// the program does not derive it from others.
#[derive(Debug)]
pub struct Builder {
    name: String,
    text: String,
    program: Option<ir::Program>,
    ops: OpRegistry,
    container: Option<usize>,
    sizes: SizeSettings,
    inputs: Vec<(OwnedKey, Option<u32>, DeviceTensor)>,
    options: GivenOptions,
    proved: bool,
}

/// A key that is kept.
#[derive(Clone, Debug)]
enum OwnedKey {
    Text(String),
    Position(usize),
}

impl From<IoKey<'_>> for OwnedKey {
    fn from(key: IoKey<'_>) -> Self {
        match key {
            IoKey::Name(name) => OwnedKey::Text(name.to_owned()),
            IoKey::Position(position) => OwnedKey::Position(position),
        }
    }
}

impl OwnedKey {
    fn as_key(&self) -> IoKey<'_> {
        match self {
            OwnedKey::Text(name) => IoKey::Name(name),
            OwnedKey::Position(position) => IoKey::Position(*position),
        }
    }
}

/// The options, whose debug form is left out.
#[derive(Clone, Default)]
struct GivenOptions(Options);

impl std::fmt::Debug for GivenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

impl Builder {
    pub(super) fn new(text: &str) -> Self {
        Self {
            name: "program".to_owned(),
            text: text.to_owned(),
            program: None,
            ops: OpRegistry::OURS,
            container: None,
            // The devices decide how much memory fits.
            sizes: SizeSettings { memory_limit: u64::MAX, ..SizeSettings::default() },
            inputs: Vec::new(),
            options: GivenOptions::default(),
            proved: true,
        }
    }

    /// Sets the name of the text in messages, for example its file name.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// Sets the program, in place of the one in the text, for example one that was read and changed before. Diagnostics
    /// quote the text; with an empty one (`""`) they have no source locations.
    pub fn program(mut self, program: ir::Program) -> Self {
        self.program = Some(program);
        self
    }

    /// Sets the ops that the text may name: those of a caller beside those of the table.
    pub fn ops(mut self, ops: OpRegistry) -> Self {
        self.ops = ops;
        self
    }

    /// Selects a program by its number, from 1, in a text with several.
    pub fn container(mut self, number: usize) -> Self {
        self.container = Some(number);
        self
    }

    /// Fixes an extent or a scalar input, `i0`.
    pub fn set(mut self, name: &str, value: i64) -> Self {
        self.sizes.set.insert(name.to_owned(), value);
        self
    }

    /// Fixes a scalar input that is not an integer.
    pub fn set_real(mut self, name: &str, value: f64) -> Self {
        self.sizes.reals.insert(name.to_owned(), value);
        self
    }

    /// Fixes the shape of a whole tensor, `T0`.
    pub fn shape(mut self, tensor: &str, shape: &[usize]) -> Self {
        self.sizes.shapes.insert(tensor.to_owned(), shape.to_vec());
        self
    }

    /// Sets the number of ranks; the default is as many as the program's meshes need.
    pub fn ranks(mut self, count: u32) -> Self {
        self.sizes.devices = Some(count);
        self
    }

    /// Sets `numberOfStreams`; the default is 4.
    pub fn streams(mut self, count: u32) -> Self {
        self.sizes.streams = count;
        self
    }

    /// Binds an input of this process's only rank. Its shape fixes sizes, and it is bound when the session is built.
    ///
    /// # Safety
    /// If the session is built: as of [`Input::bind`](crate::session::InputHandle::bind), from then on.
    ///
    /// ```compile_fail,E0133
    /// # use hostir_cuda::session::{Builder, DeviceTensor};
    /// fn input(builder: Builder, anything: &DeviceTensor) -> Builder {
    ///     builder.input("T0", anything)
    /// }
    /// ```
    #[allow(unsafe_code, reason = "binding is a promise about memory")]
    pub unsafe fn input<'k>(mut self, key: impl Into<IoKey<'k>>, tensor: &DeviceTensor) -> Self {
        self.inputs.push((key.into().into(), None, tensor.clone()));
        self
    }

    /// Binds a rank's shard of an input, as [`Builder::input`] does.
    ///
    /// # Safety
    /// As of [`Builder::input`].
    #[allow(unsafe_code, reason = "binding is a promise about memory")]
    pub unsafe fn input_on<'k>(mut self, rank: u32, key: impl Into<IoKey<'k>>, tensor: &DeviceTensor) -> Self {
        self.inputs.push((key.into().into(), Some(rank), tensor.clone()));
        self
    }

    /// Sets the options of the run and its devices.
    pub fn options(mut self, options: Options) -> Self {
        self.options = GivenOptions(options);
        self
    }

    /// Leaves out the proof that the program has no race and no misuse of memory; deadlocks are still checked.
    pub fn without_proof(mut self) -> Self {
        self.proved = false;
        self
    }

    /// Verifies, plans and proves the program, and prepares the devices: memory, kernels, communicators.
    ///
    /// # Errors
    /// If the text has no valid program, sizes are open or contradict each other, the program cannot be planned, it
    /// has a race or misuses memory, a binding does not fit, or the devices cannot be prepared.
    pub fn build(mut self) -> Result<Session, Error> {
        let given = self.program.is_none() || !self.text.is_empty();
        let source = Arc::new(DiagSource { name: self.name.clone(), text: given.then(|| self.text.clone()) });
        let fail = |diags: Vec<Diag>| Error::new(&source, diags);
        let (program, warnings) = self.read_program().map_err(fail)?;
        let sizes = self.resolve_sizes(&program).map_err(|diag| fail(vec![diag]))?;
        let prepared = prepare_program(&program, &sizes).map_err(|diags| fail(diags.items))?;
        if self.proved {
            prove_program(&prepared).into_result().map_err(fail)?;
        }
        let mut session = Session::load_prepared(prepared, source.clone(), self.options.0.clone())?;
        session.warnings = warnings;
        for (name, rank, tensor) in &self.inputs {
            let input = session.input(name.as_key());
            let input = match rank {
                Some(rank) => input.on(*rank),
                None => input,
            };
            // SAFETY: whoever gave the tensor to this builder promised it for when the session is built.
            #[allow(unsafe_code, reason = "binding is a promise about memory")]
            unsafe { input.bind(tensor) }?;
        }
        session.with_bound(|bound| bound.check_overlaps())?;
        Ok(session)
    }

    /// Reads the program: the verified program, and warnings about it.
    fn read_program(&mut self) -> Result<(ir::Program, Vec<Diag>), Vec<Diag>> {
        let mut diags = Diags::default();
        let program = match self.program.take() {
            Some(program) => program,
            None => {
                let options = ReadOptions { ops: self.ops, given: self.sizes.given_sizes() };
                let (programs, found) = hostir::load_with_options(&self.text, &options);
                if found.has_errors() {
                    return Err(found.items);
                }
                diags = found;
                self.choose_program(programs).map_err(|diag| vec![diag])?
            }
        };
        verify::verify(&program, &mut diags);
        diags.sort_by_place();
        if diags.has_errors() { Err(diags.items) } else { Ok((program, diags.items)) }
    }

    fn choose_program(&self, mut programs: Vec<ir::Program>) -> Result<ir::Program, Diag> {
        let count = programs.len();
        let wanted = self.container.unwrap_or(1);
        let clear = count == 1 || self.container.is_some();
        if clear && (1..=count).contains(&wanted) {
            return Ok(programs.swap_remove(wanted - 1));
        }
        let name = &self.name;
        let message = match self.container {
            Some(wanted) => format!("`{name}` contains {count} programs, so there is no number {wanted}"),
            None => format!("`{name}` contains {count} programs, and none is selected"),
        };
        let note = message!("select one with `container`, from 1 to {}", count);
        Err(Diag::global_error(codes::SESSION, message).with_note(note))
    }

    /// Resolves the sizes, also those that follow from the inputs' shapes.
    fn resolve_sizes(&self, program: &ir::Program) -> Result<SizeSettings, Diag> {
        let mut sizes = self.sizes.clone();
        let tensors: Vec<TensorId> = program.inputs().iter().filter_map(|value| value.as_tensor()).collect();
        let known: Vec<String> = tensors.iter().map(|&tensor| program.tensor_name(tensor)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let axes = AxesTable::new(program);
        for (name, _, tensor) in &self.inputs {
            let position = names::find_position(IoSide::Input, &known, name.as_key())?;
            if let Some(whole) = whole_shape(program, &axes, tensors[position], &tensor.shape) {
                sizes.shapes.entry(known[position].to_owned()).or_insert(whole);
            }
        }
        Ok(sizes)
    }
}

/// The shape of a whole tensor from that of a shard: sharded axes have the mesh's extents. `None` if the ranks differ,
/// which binding reports.
fn whole_shape(program: &ir::Program, axes: &AxesTable, tensor: TensorId, part: &[usize]) -> Option<Vec<usize>> {
    let mesh = program.tensor_mesh(tensor);
    let stored = axes.stored_axes(tensor).count();
    let pairs = axes.stored_axes(tensor).zip(part);
    let extents = pairs.map(|(axis, &extent)| {
        let sharding = mesh.filter(|_| axis.is_sharded());
        let devices = sharding.and_then(|mesh| mesh.axis_extent(axis.parallel)).map(|devices| devices as usize);
        match devices {
            Some(devices) if axis.is_device_index() => devices,
            Some(devices) => extent * devices,
            None => extent,
        }
    });
    (stored == part.len()).then(|| extents.collect())
}
