//! The scope that the programs of a file share.

use crate::ir::{DeviceMesh, Style};
use crate::ops::OpRegistry;
use hostir_grammar::ast::{CommentSyntax, Symbol};
use rustc_hash::{FxHashMap, FxHashSet};

/// A mesh that a file declares.
pub(super) struct NamedMesh {
    pub(super) mesh: DeviceMesh,
    /// True if it has the name that a writer gives to a mesh without one.
    pub(super) is_default: bool,
    /// True if its declaration has an error, so that its uses are not reported.
    pub(super) is_poisoned: bool,
}

/// The scope that the programs of a file share.
pub(super) struct FileScope {
    pub(super) ops: OpRegistry,
    pub(super) meshes: FxHashMap<Symbol, NamedMesh>,
    pub(super) style: Style,
    /// Names of the line `names`.
    pub(super) given_names: FxHashSet<Symbol>,
    /// The programs in order.
    pub(super) programs: Vec<ProgramPlace>,
    /// The comments at lines of meshes.
    pub(super) mesh_comments: Vec<MeshComment>,
}

/// A comment above a mesh, inside of it or at the end of its line.
#[derive(Clone, Copy)]
pub(super) struct MeshComment {
    pub(super) comment: CommentSyntax,
    /// The name of the mesh.
    pub(super) mesh: Symbol,
    /// True at the end of the line.
    pub(super) is_after: bool,
    /// The number of the mesh in the order of first use.
    pub(super) rank: usize,
    /// The number among the items of the program that keeps it: the first one with tensors on the mesh.
    pub(super) owner: usize,
}

/// The items of a program.
#[derive(Clone, Copy)]
pub(super) struct ProgramPlace {
    /// The first item after the program before it.
    pub(super) first: usize,
    /// The program itself.
    pub(super) item: usize,
    /// The offset of the program in the text.
    pub(super) start: u32,
}

/// The place of a program in its file.
#[derive(Clone, Copy, Default)]
pub(super) struct FilePlace {
    /// Its number among all items.
    pub(super) number: usize,
    /// Its number among the programs.
    pub(super) position: usize,
}
