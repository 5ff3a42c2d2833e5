//! From a text, sizes and options to a session.

use crate::backend::Cuda;
use crate::runtime::io_binding::Side;
use crate::session::error::Source;
use crate::session::{DeviceTensor, Error, Key, Options, Program, Session, names};
use hostir::diag::codes;
use hostir::diag::{Diag, Diags};
use hostir::ir::TensorId;
use hostir::lower::{Sizes, prepare};
use hostir::plan::axes::AxesTable;
use hostir::{ir, verify};
use std::sync::Arc;

/// What a session is made from. Sizes that no call here fixes and the program does not follow from others
/// are an error of [`Builder::build`] that names them.
#[derive(Debug)]
pub struct Builder {
    name: String,
    text: String,
    program: Option<ir::Program>,
    container: Option<usize>,
    sizes: Sizes,
    inputs: Vec<(Name, Option<u32>, DeviceTensor)>,
    options: Given,
}

/// A key that is kept.
#[derive(Clone, Debug)]
enum Name {
    Text(String),
    Position(usize),
}

impl From<Key<'_>> for Name {
    fn from(key: Key<'_>) -> Self {
        match key {
            Key::Name(name) => Name::Text(name.to_owned()),
            Key::Position(position) => Name::Position(position),
        }
    }
}

impl Name {
    fn key(&self) -> Key<'_> {
        match self {
            Name::Text(name) => Key::Name(name),
            Name::Position(position) => Key::Position(*position),
        }
    }
}

/// The options, which have no text of their own.
#[derive(Clone, Default)]
struct Given(Options);

impl std::fmt::Debug for Given {
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
            container: None,
            // What fits is for the devices to say.
            sizes: Sizes { memory_limit: u64::MAX, ..Sizes::default() },
            inputs: Vec::new(),
            options: Given::default(),
        }
    }

    /// What messages call the text, such as the name of its file.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// A program that was already read, and changed perhaps, in the place of the text's. The text is what
    /// messages quote; without one (`""`) they give no places.
    pub fn program(mut self, program: ir::Program) -> Self {
        self.program = Some(program);
        self
    }

    /// Which program of a text that holds several, from 1.
    pub fn container(mut self, number: usize) -> Self {
        self.container = Some(number);
        self
    }

    /// Fixes an extent or a scalar input, `i0`.
    pub fn set(mut self, name: &str, value: i64) -> Self {
        self.sizes.set.insert(name.to_owned(), value);
        self
    }

    /// Fixes a scalar input that is no integer.
    pub fn set_real(mut self, name: &str, value: f64) -> Self {
        self.sizes.reals.insert(name.to_owned(), value);
        self
    }

    /// Fixes the shape of a whole tensor, `T0`.
    pub fn shape(mut self, tensor: &str, shape: &[usize]) -> Self {
        self.sizes.shapes.insert(tensor.to_owned(), shape.to_vec());
        self
    }

    /// Number of ranks; as many as the program's meshes need if this is not called.
    pub fn ranks(mut self, count: u32) -> Self {
        self.sizes.devices = Some(count);
        self
    }

    /// What `numberOfStreams` is; 4 if this is not called.
    pub fn streams(mut self, count: u32) -> Self {
        self.sizes.streams = count;
        self
    }

    /// An input of this process's only rank. Its shape fixes sizes, and it is bound when the session is built.
    ///
    /// # Safety
    /// If the session is built: as of [`Input::bind`](crate::session::Input::bind), from then on.
    ///
    /// ```compile_fail,E0133
    /// # use hostir_cuda::session::{Builder, DeviceTensor};
    /// fn input(builder: Builder, anything: &DeviceTensor) -> Builder {
    ///     builder.input("T0", anything)
    /// }
    /// ```
    #[allow(unsafe_code, reason = "binding is a promise about memory")]
    pub unsafe fn input<'k>(mut self, key: impl Into<Key<'k>>, tensor: &DeviceTensor) -> Self {
        self.inputs.push((key.into().into(), None, tensor.clone()));
        self
    }

    /// A rank's part of an input, as [`Builder::input`].
    ///
    /// # Safety
    /// As of [`Builder::input`].
    #[allow(unsafe_code, reason = "binding is a promise about memory")]
    pub unsafe fn input_on<'k>(
        mut self,
        rank: u32,
        key: impl Into<Key<'k>>,
        tensor: &DeviceTensor,
    ) -> Self {
        self.inputs.push((key.into().into(), Some(rank), tensor.clone()));
        self
    }

    /// How the program runs, and on which devices.
    pub fn options(mut self, options: Options) -> Self {
        self.options = Given(options);
        self
    }

    /// Verifies and plans the program, and prepares the devices: memory, kernels, communicators.
    pub fn build(mut self) -> Result<Session, Error> {
        let given = self.program.is_none() || !self.text.is_empty();
        let source =
            Arc::new(Source { name: self.name.clone(), text: given.then(|| self.text.clone()) });
        let fail = |diags: Vec<Diag>| Error::new(&source, diags);
        let (program, warnings) = self.read().map_err(fail)?;
        let sizes = self.sizes(&program).map_err(|diag| fail(vec![diag]))?;
        let prepared = prepare(&program, &sizes).map_err(|diags| fail(diags.items))?;
        let cuda = Cuda { options: self.options.0.clone() };
        let program = Program::try_new(prepared, |prepared| cuda.load_unbound(prepared));
        let program = program.map_err(fail)?;
        let mut session = Session { program, source, warnings };
        for (name, rank, tensor) in &self.inputs {
            let input = session.input(name.key());
            let input = match rank {
                Some(rank) => input.on(*rank),
                None => input,
            };
            // SAFETY: whoever gave the tensor to this builder promised it for when the session is built.
            #[allow(unsafe_code, reason = "binding is a promise about memory")]
            unsafe { input.bind(tensor) }?;
        }
        Ok(session)
    }

    /// The verified program, and warnings about it.
    fn read(&mut self) -> Result<(ir::Program, Vec<Diag>), Vec<Diag>> {
        let mut diags = Diags::default();
        let program = match self.program.take() {
            Some(program) => program,
            None => {
                let (programs, found) = hostir::load(&self.text);
                if found.has_errors() {
                    return Err(found.items);
                }
                diags = found;
                self.choose(programs).map_err(|diag| vec![diag])?
            }
        };
        verify::verify(&program, &mut diags);
        diags.sort();
        if diags.has_errors() { Err(diags.items) } else { Ok((program, diags.items)) }
    }

    fn choose(&self, mut programs: Vec<ir::Program>) -> Result<ir::Program, Diag> {
        let count = programs.len();
        let wanted = self.container.unwrap_or(1);
        let clear = count == 1 || self.container.is_some();
        if clear && (1..=count).contains(&wanted) {
            return Ok(programs.swap_remove(wanted - 1));
        }
        let name = &self.name;
        let message = match self.container {
            Some(wanted) => format!("`{name}` holds {count} programs, none is number {wanted}"),
            None => format!("`{name}` holds {count} programs"),
        };
        let note = format!("`container` picks one, from 1 to {count}");
        Err(Diag::global(codes::SESSION, message).note(note))
    }

    /// The sizes, with those that follow from the inputs' shapes.
    fn sizes(&self, program: &ir::Program) -> Result<Sizes, Diag> {
        let mut sizes = self.sizes.clone();
        let tensors: Vec<TensorId> =
            program.inputs().iter().filter_map(|value| value.tensor()).collect();
        let known: Vec<String> =
            tensors.iter().map(|&tensor| program.tensor_name(tensor)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let axes = AxesTable::new(program, hostir::ir::OpKind::View);
        for (name, _, tensor) in &self.inputs {
            let position = names::find(Side::Input, &known, name.key())?;
            if let Some(whole) = whole(program, &axes, tensors[position], &tensor.shape) {
                sizes.shapes.entry(known[position].to_owned()).or_insert(whole);
            }
        }
        Ok(sizes)
    }
}

/// The shape of a whole tensor from that of a part: axes spread over devices have the mesh's extents.
/// `None` if the ranks differ, which binding reports.
fn whole(
    program: &ir::Program,
    axes: &AxesTable,
    tensor: TensorId,
    part: &[usize],
) -> Option<Vec<usize>> {
    let mesh = program.tensor_mesh(tensor);
    let extent = |(axis, &extent): (&hostir::axes::Axis, &usize)| {
        let devices = mesh.filter(|_| axis.is_sharded())?.extent(axis.parallel)?;
        Some(devices as usize).or(Some(extent))
    };
    let stored = axes.stored(tensor).count();
    let pairs = axes.stored(tensor).zip(part);
    (stored == part.len()).then(|| pairs.map(|pair| extent(pair).unwrap_or(*pair.1)).collect())
}
