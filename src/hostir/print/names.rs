//! Names that users gave, in texts that begin with `hir 1`: `{name=G}` at the first place.

use super::{ProgramPrinter, VersionLine};
use crate::ir::{Expr, MeshId, Op, Program, Symbol, TensorId, Value};
use rustc_hash::FxHashSet;

/// The names that no place has shown yet.
#[derive(Default)]
pub(super) struct UnprintedNames {
    tensors: FxHashSet<TensorId>,
    meshes: FxHashSet<MeshId>,
    handles: FxHashSet<u32>,
    streams: FxHashSet<u64>,
}

impl UnprintedNames {
    /// All names of a program.
    pub(super) fn of_program(program: &Program) -> Self {
        let named = program.tensors().iter().filter(|(_, tensor)| tensor.name.is_some());
        let given = program.given_names();
        Self {
            tensors: named.map(|(id, _)| id).collect(),
            // The text has one name for meshes with the same devices, also where sizes give them.
            meshes: given.meshes.keys().copied().filter(|&id| is_first_of_devices(program, id)).collect(),
            handles: given.handles.keys().copied().collect(),
            streams: given.streams.keys().copied().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.tensors.is_empty() && self.meshes.is_empty() && self.handles.is_empty() && self.streams.is_empty()
    }
}

/// Returns true if no mesh before this one has its devices.
fn is_first_of_devices(program: &Program, id: MeshId) -> bool {
    program.meshes().iter().take_while(|(other, _)| *other < id).all(|(_, other)| other != program.mesh(id))
}

impl ProgramPrinter<'_> {
    /// `hir 1 {sizes={m=64}, streams=3}`.
    pub(super) fn print_version(&mut self) {
        let program = self.program;
        let is_named = match program.frame().version {
            Some(1) => true,
            Some(_) => program.has_names(),
            None => false,
        };
        match self.version {
            VersionLine::Never => return,
            VersionLine::AsRead if !is_named => return,
            VersionLine::AsRead | VersionLine::Always => {}
        }
        self.push("hir 1");
        let hints = program.run_hints();
        let mut separator = " {";
        // The meshes are for certain values of sizes, whatever the text proposes.
        let of_meshes = &program.given_names().sized.sizes;
        let value_of = |name: Symbol| of_meshes.iter().find(|size| size.name == name).map(|size| size.value);
        let mut sizes: Vec<(Symbol, i64)> =
            hints.sizes.iter().map(|&(name, value)| (name, value_of(name).unwrap_or(value))).collect();
        for size in of_meshes {
            if sizes.iter().all(|(name, _)| *name != size.name) {
                sizes.push((size.name, size.value));
            }
        }
        let sizes: Vec<String> =
            sizes.into_iter().map(|(name, value)| format!("{}={value}", program.name(name))).collect();
        if !sizes.is_empty() {
            self.push(separator);
            self.push(&format!("sizes={{{}}}", sizes.join(", ")));
            separator = ", ";
        }
        if let Some(streams) = hints.streams {
            self.push(separator);
            self.push(&format!("streams={streams}"));
            separator = ", ";
        }
        self.push(if separator == ", " { "}\n" } else { "\n" });
    }

    /// ` {name=G}`, if there is a name.
    pub(super) fn print_name_tag(&mut self, name: Option<Symbol>) {
        let program = self.program;
        if let Some(name) = name {
            self.push(" {name=");
            self.push(program.name(name));
            self.push("}");
        }
    }

    /// The names of a tensor and its mesh after their first full text, in the braces of its attributes.
    pub(super) fn print_tensor_names(&mut self, id: TensorId) {
        if self.unnamed.is_empty() {
            return;
        }
        let program = self.program;
        let tensor = program.tensor(id);
        let own = tensor.name.filter(|_| self.unnamed.tensors.remove(&id));
        let mesh = tensor.mesh.filter(|mesh| self.unnamed.meshes.remove(mesh));
        let mesh = mesh.and_then(|mesh| program.given_names().meshes.get(&mesh));
        let names = [("name=", own), ("mesh=", mesh.copied())];
        let mut is_open = self.out.ends_with("}}");
        for (word, name) in names {
            let Some(name) = name else { continue };
            if is_open {
                self.out.pop();
                self.push(", ");
            } else {
                self.push(" {");
            }
            self.push(word);
            self.push(program.name(name));
            self.push("}");
            is_open = true;
        }
    }

    /// The name of a communication, a group or a stream after the statement that makes it.
    pub(super) fn print_statement_name(&mut self, op: &Op) {
        if self.unnamed.is_empty() {
            return;
        }
        let program = self.program;
        let given = program.given_names();
        if let Some(number) = op.number().filter(|number| self.unnamed.handles.remove(number)) {
            return self.print_name_tag(given.handles.get(&number).copied());
        }
        for result in &op.results {
            let Value::Stream(stream) = result else { continue };
            let Expr::Hex(address) = program.expr(*stream) else { continue };
            if self.unnamed.streams.remove(address) {
                self.print_name_tag(given.streams.get(address).copied());
            }
        }
    }
}
