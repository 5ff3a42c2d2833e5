//! Sizes of meshes.
//!
//! A program was read for values of the sizes that give its meshes (`mesh d = 0..p`): here they are extents and scalars
//! like others, with a value from the start.

use super::{KnownSize, SizeSolver, SizeSource};
use crate::diag::message;
use crate::diag::{Quoted, RunOption};
use crate::ir::{MeshId, MeshSize, MeshSizeSource, MeshTextPiece};
use crate::lower::mesh_sizes::open_mesh_size;

impl SizeSolver<'_> {
    /// Fixes the sizes for whose values the program was read; reports those without a value.
    pub(super) fn fix_mesh_sizes(&mut self) {
        self.diags.items.extend(open_mesh_size(self.program));
        for size in self.program.given_names().sized.sizes.clone() {
            let known = self.known_mesh_size(size);
            let node = self.sizes.name_node(None, size.name);
            self.sizes.fix_node(node, known);
        }
    }

    /// The source of the extents of a mesh: the text, or whoever gave the sizes that it is made of.
    pub(super) fn source_of_mesh(&self, mesh: MeshId) -> SizeSource {
        let sized = &self.program.given_names().sized;
        let pieces = sized.texts.get(&mesh).map_or(&[][..], Vec::as_slice);
        let names = pieces.iter().filter_map(|piece| match piece {
            MeshTextPiece::Name(name) => Some(*name),
            MeshTextPiece::Text(_) => None,
        });
        let sizes = names.filter_map(|name| sized.sizes.iter().find(|size| size.name == name));
        let mut sources = sizes.map(|size| self.known_mesh_size(*size).source);
        sources.find(|source| *source != SizeSource::Text).unwrap_or(SizeSource::Text)
    }

    fn known_mesh_size(&self, size: MeshSize) -> KnownSize {
        let name = self.program.name(size.name);
        let (why, source) = match size.source {
            MeshSizeSource::Set => (message!("`{}`", Quoted::set_option(name, size.value)), SizeSource::Caller),
            MeshSizeSource::Devices(devices) => {
                let option = Quoted::run_option(RunOption::Devices, format!("--devices {devices}"));
                (message!("`{}`", option), SizeSource::Caller)
            }
            MeshSizeSource::Every => {
                let option = Quoted::run_option(RunOption::Set, format!("--set '*={}'", size.value));
                (message!("`{}`", option), SizeSource::Caller)
            }
            MeshSizeSource::Text => (message!("`sizes {}={}` of the text", name, size.value), SizeSource::Text),
            MeshSizeSource::Assumed => (message!("the mesh"), SizeSource::Derived),
        };
        KnownSize { value: size.value, span: None, why: why.into(), source }
    }
}
