//! The names that a text uses: of the file's meshes, kernels and programs, and of the tensors, handles and streams of a
//! program.

use super::prepare::scalar_names;
use super::uses::OccurrenceTable;
use crate::hir2::defaults::{
    COMMUNICATION_WORDS, default_mesh_name, default_program_name, dtype_of_word, is_default_name,
};
use crate::ir::functions::find_function;
use crate::ir::order::first_free_number;
use crate::ir::scalar_names::is_kernel_name;
use crate::ir::{
    BlockId, DeviceMesh, Expr, ExprId, ImportLine, MeshId, MeshTextPiece, OpId, Program, Symbol, TensorId, UnitId,
    Value,
};
use crate::ir::{NO_MESH, TensorNumbers, is_given_name as is_user_name, is_identifier};
use crate::ops::OpRegistry;
use rustc_hash::{FxHashMap, FxHashSet};

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is one of the language.
pub(super) fn is_reserved_word(text: &str) -> bool {
    crate::ir::is_reserved_word(text)
}

/// Returns true if a word calls anything but a kernel.
pub(super) fn is_call_word(ops: OpRegistry, text: &str) -> bool {
    let known = ops.find_op(text).is_some() || dtype_of_word(text).is_some();
    let listed = matches!(text, "permute" | "wrap") || COMMUNICATION_WORDS.iter().any(|(word, _)| *word == text);
    known || listed || find_function(text, 1).is_some()
}

/// A mesh of the file.
pub(super) struct MeshName {
    pub(super) mesh: DeviceMesh,
    pub(super) name: String,
    /// The text of a mesh that is given by sizes.
    pub(super) sized: Option<String>,
}

/// The one name space of a file.
#[derive(Default)]
pub(super) struct FileNames {
    /// Imports in the order of the text.
    pub(super) imports: Vec<ImportLine>,
    /// Meshes in the order of the text.
    pub(super) meshes: Vec<MeshName>,
    /// For each program, its name.
    pub(super) programs: Vec<String>,
    /// For each program, the names of its HostUnits.
    pub(super) units: Vec<Vec<String>>,
    /// For each program, the place of each of its meshes in `meshes`.
    pub(super) mesh_places: Vec<FxHashMap<MeshId, usize>>,
    /// Names that the author gave, which a reader would take for default ones.
    pub(super) given_defaults: Vec<String>,
    taken: FxHashSet<String>,
    /// Names that programs and HostUnits have.
    given: FxHashSet<String>,
}

impl FileNames {
    pub(super) fn new(programs: &[Program]) -> Self {
        let mut names = FileNames { given: given_item_names(programs), ..FileNames::default() };
        names.take_imports(programs);
        names.collect_meshes(programs);
        for (at, program) in programs.iter().enumerate() {
            names.name_units(program, at);
            names.name_program(program, at);
        }
        names
    }

    /// The imports of all programs, which are those of one file.
    fn take_imports(&mut self, programs: &[Program]) {
        for line in programs.iter().flat_map(|program| &program.imports().lines) {
            if !self.imports.contains(line) {
                self.imports.push(line.clone());
                self.taken.extend(line.names.iter().map(|name| name.to_string()));
            }
        }
    }

    /// Takes a given name if it is usable, else a default one, which given ones replace.
    fn take_name(&mut self, given: Option<&str>, default: String) -> String {
        let given = given.filter(|name| is_user_name(name) && !self.taken.contains(*name));
        if let Some(given) = given {
            self.taken.insert(given.to_owned());
            return given.to_owned();
        }
        let mut name = default;
        while self.given.contains(&name) || !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    fn is_taken(&self, text: &str) -> bool {
        self.taken.contains(text) || self.given.contains(text)
    }

    /// The meshes of tensors and expressions; those with a name of their own do not count for default names.
    fn collect_meshes(&mut self, programs: &[Program]) {
        let mut found: Vec<FoundMesh> = Vec::new();
        for program in programs {
            let mut places = FxHashMap::default();
            for id in used_meshes(program) {
                let given = program.given_names().meshes.get(&id).map(|name| program.name(*name).to_owned());
                let given = given.filter(|name| is_user_name(name) && name != NO_MESH);
                let mesh = FoundMesh { mesh: program.mesh(id).clone(), given, sized: sized_mesh_text(program, id) };
                let known = found.iter().position(|other| *other == mesh);
                places.insert(id, known.unwrap_or(found.len()));
                if known.is_none() {
                    found.push(mesh);
                }
            }
            self.mesh_places.push(places);
        }
        // A default name yields to a given one.
        let mut names: Vec<Option<String>> = vec![None; found.len()];
        for is_given in [true, false] {
            let named = found.iter().enumerate().filter(|(_, mesh)| mesh.given.is_some() == is_given);
            for (at, mesh) in named {
                names[at] = Some(self.take_name(mesh.given.as_deref(), default_mesh_name(at)));
            }
        }
        let texts: Vec<String> = names.into_iter().flatten().collect();
        for (at, (mesh, text)) in found.iter().zip(&texts).enumerate() {
            let is_taken = |short: &str| self.given.contains(short) || texts.iter().any(|text| text == short);
            if mesh.given.as_deref() == Some(text) && is_default_name(text, &default_mesh_name(at), is_taken) {
                self.given_defaults.push(text.clone());
            }
        }
        let named = found.into_iter().zip(texts);
        self.meshes.extend(named.map(|(mesh, name)| MeshName { mesh: mesh.mesh, name, sized: mesh.sized }));
    }

    fn name_units(&mut self, program: &Program, at: usize) {
        let ops = OpRegistry::of_program(program);
        let mut names = Vec::new();
        for (id, unit) in program.units().iter() {
            if let Some(name) = unit.name.filter(|_| program.imports().units.contains(&id)) {
                names.push(program.name(name).to_owned());
                continue;
            }
            let given = unit.name.map(|name| program.name(name)).filter(|name| !is_call_word(ops, name));
            let suffix = if at == 0 { String::new() } else { format!("_{}", at + 1) };
            names.push(self.take_name(given, format!("HostUnit{}{suffix}", unit.number)));
        }
        self.units.push(names);
    }

    fn name_program(&mut self, program: &Program, at: usize) {
        let given = program.given_names().program.map(|name| program.name(name));
        let default = default_program_name(at);
        let name = self.take_name(given, default.clone());
        if given == Some(name.as_str()) && is_default_name(&name, &default, |short| self.is_taken(short)) {
            self.given_defaults.push(name.clone());
        }
        self.programs.push(name);
    }
}

/// A mesh that is not named yet.
#[derive(PartialEq)]
struct FoundMesh {
    mesh: DeviceMesh,
    given: Option<String>,
    sized: Option<String>,
}

/// `0..p`, of a mesh that is given by sizes.
fn sized_mesh_text(program: &Program, id: MeshId) -> Option<String> {
    let pieces = program.given_names().sized.texts.get(&id)?;
    let texts = pieces.iter().map(|piece| match piece {
        MeshTextPiece::Text(text) => text,
        MeshTextPiece::Name(name) => program.name(*name),
    });
    Some(texts.collect())
}

/// The names that programs and HostUnits have.
fn given_item_names(programs: &[Program]) -> FxHashSet<String> {
    let mut names = FxHashSet::default();
    for program in programs {
        let own = program.given_names().program.into_iter();
        let given = own.chain(program.units().iter().filter_map(|(_, unit)| unit.name)).map(|name| program.name(name));
        names.extend(given.filter(|name| is_user_name(name)).map(str::to_owned));
    }
    names
}

/// The meshes in the text of a program, in order: kernels precede the program.
fn used_meshes(program: &Program) -> Vec<MeshId> {
    let mut walk = MeshWalk { program, used: vec![false; program.meshes().len()], found: Vec::new() };
    for (_, unit) in program.units().iter() {
        walk.visit_values(unit.inputs.iter().chain(&unit.outputs));
        walk.visit_block(unit.body);
    }
    walk.visit_values(program.inputs().iter().chain(program.outputs()));
    walk.visit_block(program.body());
    for &(new, original) in program.aliases().unwrap_or_default() {
        walk.visit_tensor(new);
        walk.visit_tensor(original);
    }
    if let Some(block) = program.index_definitions() {
        walk.visit_block(block);
    }
    for at in 0..program.exprs().len() {
        if let Expr::MeshCoordinate(mesh, _) = program.expr(ExprId(at as u32)) {
            walk.visit_mesh(*mesh);
        }
    }
    walk.found
}

struct MeshWalk<'p> {
    program: &'p Program,
    used: Vec<bool>,
    found: Vec<MeshId>,
}

impl MeshWalk<'_> {
    fn visit_tensor(&mut self, tensor: TensorId) {
        if let Some(mesh) = self.program.tensor(tensor).mesh {
            self.visit_mesh(mesh);
        }
    }

    fn visit_mesh(&mut self, mesh: MeshId) {
        if !std::mem::replace(&mut self.used[mesh.0 as usize], true) {
            self.found.push(mesh);
        }
    }

    fn visit_values<'v>(&mut self, values: impl Iterator<Item = &'v Value>) {
        for value in values {
            match value {
                Value::Tensor(tensor) => self.visit_tensor(*tensor),
                Value::Op(op) => self.visit_op(*op),
                _ => {}
            }
        }
    }

    fn visit_op(&mut self, id: OpId) {
        let op = self.program.op(id);
        self.visit_values(op.results.iter().chain(&op.operands));
        op.attrs.iter().filter_map(|(_, value)| value.tensor()).for_each(|tensor| self.visit_tensor(tensor));
    }

    fn visit_block(&mut self, block: BlockId) {
        let program = self.program;
        // All are known: nothing new can come.
        if self.found.len() == self.used.len() {
            return;
        }
        program.walk(block, &mut |id| self.visit_op(id));
    }
}

/// The text of a tensor's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TensorSpelling {
    /// A name.
    Name(Symbol),
    /// `T7`
    Number(u32),
}

/// The spelling of a scalar name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScalarSpelling {
    /// As it is.
    Plain,
    /// `streams`
    Streams,
    /// In backquotes.
    Verbatim,
}

/// The names of one program.
pub(super) struct ProgramNames {
    tensors: Vec<TensorSpelling>,
    /// For each tensor, the first one of its number in its scope.
    first: Vec<TensorId>,
    scalars: Vec<ScalarSpelling>,
    /// For each symbol: true if it names a scalar or an extent.
    used_by_scalars: Vec<bool>,
    handles: FxHashMap<u32, Symbol>,
    /// Numbers that stand for other ones in names such as `h7`.
    renumbered: FxHashMap<u32, u32>,
    streams: FxHashMap<u64, Symbol>,
}

impl ProgramNames {
    pub(super) fn new(program: &Program, occurring: &OccurrenceTable) -> Self {
        let mut taken = scalar_names(program);
        let mut names = ProgramNames {
            tensors: vec![TensorSpelling::Number(0); program.tensors().len()],
            first: program.tensors().ids().collect(),
            scalars: spell_scalars(program, &taken),
            used_by_scalars: taken.clone(),
            handles: FxHashMap::default(),
            renumbered: FxHashMap::default(),
            streams: FxHashMap::default(),
        };
        names.name_tensors(program, &occurring.order, &mut taken);
        let mut streams: Vec<(u64, Symbol)> =
            program.given_names().streams.iter().map(|(stream, name)| (*stream, *name)).collect();
        streams.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, name) in streams {
            if take_symbol(program, name, &mut taken) {
                names.streams.insert(stream, name);
            }
        }
        names.name_handles(program, occurring, &mut taken);
        names
    }

    fn name_tensors(&mut self, program: &Program, order: &[TensorId], taken: &mut [bool]) {
        let mut owners = TensorNumbers::with_tensors(order.len());
        // A kernel is a name space of its own.
        let scalars = taken.to_vec();
        let mut given = GivenTensorNames { host: vec![false; scalars.len()], units: FxHashSet::default() };
        for &id in order {
            let tensor = program.tensor(id);
            let owner = owners.first_tensor(tensor.unit, tensor.number, id);
            if owner != id {
                self.first[id.0 as usize] = owner;
                self.tensors[id.0 as usize] = self.tensors[owner.0 as usize];
                continue;
            }
            let usable = |name: &Symbol| is_user_name(program.name(*name)) && !scalars[name.0 as usize];
            let name = tensor.name.filter(usable).filter(|name| given.take_name(tensor.unit, *name));
            self.tensors[id.0 as usize] = match name {
                Some(name) => {
                    taken[name.0 as usize] = true;
                    TensorSpelling::Name(name)
                }
                None => TensorSpelling::Number(tensor.number),
            };
        }
    }

    fn name_handles(&mut self, program: &Program, occurring: &OccurrenceTable, taken: &mut [bool]) {
        let mut given: Vec<(u32, Symbol)> =
            program.given_names().handles.iter().map(|(number, name)| (*number, *name)).collect();
        given.sort_unstable_by_key(|(number, _)| *number);
        for (number, name) in given {
            if occurring.handles.contains_key(&number) && take_symbol(program, name, taken) {
                self.handles.insert(number, name);
            }
        }
        // A scalar may be called `h7`.
        let called = (0..taken.len()).filter(|&at| taken[at]).map(|at| program.name(Symbol(at as u32)));
        let mut clashing: Vec<u32> =
            called.filter_map(|name| name.strip_prefix('h').filter(|rest| is_number(rest))?.parse().ok()).collect();
        clashing.sort_unstable();
        let mut next = first_free_number(occurring.handles.keys().chain(&clashing).copied());
        for number in &clashing {
            if !occurring.handles.contains_key(number) {
                continue;
            }
            self.renumbered.insert(*number, next);
            next += 1;
        }
    }

    /// The spelling of a tensor's name.
    pub(super) fn tensor_spelling(&self, tensor: TensorId) -> TensorSpelling {
        self.tensors[tensor.0 as usize]
    }
    /// The first tensor of the same number.
    pub(super) fn first_of_number(&self, tensor: TensorId) -> TensorId {
        self.first[tensor.0 as usize]
    }
    /// The name of a handle, if it has one.
    pub(super) fn handle_name(&self, number: u32) -> Option<Symbol> {
        self.handles.get(&number).copied()
    }
    /// The number in a handle's name `h7`.
    pub(super) fn handle_number(&self, number: u32) -> u32 {
        self.renumbered.get(&number).copied().unwrap_or(number)
    }
    /// The name of a stream.
    pub(super) fn stream_name(&self, stream: u64) -> Option<Symbol> {
        self.streams.get(&stream).copied()
    }
    /// Returns true if a symbol names a scalar or an extent.
    pub(super) fn is_scalar(&self, name: Symbol) -> bool {
        self.used_by_scalars.get(name.0 as usize).copied().unwrap_or(false)
    }

    /// The spelling of a scalar.
    pub(super) fn scalar_spelling(&self, name: Symbol) -> ScalarSpelling {
        self.scalars.get(name.0 as usize).copied().unwrap_or(ScalarSpelling::Plain)
    }
}

/// Names of tensors that are taken.
struct GivenTensorNames {
    /// Those of the host program, by symbol.
    host: Vec<bool>,
    units: FxHashSet<(UnitId, Symbol)>,
}

impl GivenTensorNames {
    /// Takes a name of a scope; returns false if it is taken.
    fn take_name(&mut self, unit: Option<UnitId>, name: Symbol) -> bool {
        match unit {
            None => !std::mem::replace(&mut self.host[name.0 as usize], true),
            Some(unit) => self.units.insert((unit, name)),
        }
    }
}

/// The spelling of each scalar name.
fn spell_scalars(program: &Program, used: &[bool]) -> Vec<ScalarSpelling> {
    let mut spellings = vec![ScalarSpelling::Plain; used.len()];
    for at in (0..used.len()).filter(|&at| used[at]) {
        spellings[at] = scalar_spelling(program.name(Symbol(at as u32)));
    }
    spellings
}

fn scalar_spelling(text: &str) -> ScalarSpelling {
    match text {
        "rank" | "deviceIdx.x" => ScalarSpelling::Plain,
        "numberOfStreams" => ScalarSpelling::Streams,
        _ => {
            let numbered = text.strip_prefix('T').is_some_and(is_number);
            let known = is_reserved_word(text) || is_kernel_name(text);
            let plain = is_identifier(text) && !known && !numbered;
            if plain { ScalarSpelling::Plain } else { ScalarSpelling::Verbatim }
        }
    }
}

/// Takes a given name if it is free.
fn take_symbol(program: &Program, name: Symbol, taken: &mut [bool]) -> bool {
    is_user_name(program.name(name)) && !std::mem::replace(&mut taken[name.0 as usize], true)
}
