//! The scope that the programs of a file share.

use super::imports::ImportTable;
use super::sized_meshes::{FileSizes, FormPiece};
use crate::ir::{DeviceMesh, Style};
use crate::ops::OpRegistry;
use hostir_grammar::ast::{CommentSyntax, Symbol};
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax};
use rustc_hash::{FxHashMap, FxHashSet};

/// A mesh that a file declares.
pub(super) struct NamedMesh {
    pub(super) mesh: DeviceMesh,
    /// True if it has the name that a writer gives to a mesh without one.
    pub(super) is_default: bool,
    /// True if its declaration has an error, so that its uses are not reported.
    pub(super) is_poisoned: bool,
    /// The text of a mesh that is given by sizes.
    pub(super) sized: Option<Vec<FormPiece>>,
    /// `p` of a mesh `0..p`.
    pub(super) rank_count: Option<Symbol>,
}

/// The scope that the programs of a file share.
pub(super) struct FileScope {
    pub(super) ops: OpRegistry,
    pub(super) imports: ImportTable,
    pub(super) meshes: FxHashMap<Symbol, NamedMesh>,
    /// The sizes of those that are given by sizes.
    pub(super) sizes: FileSizes,
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

/// The names of the meshes of tensors, each with the number of the kernel or program among the items; program by
/// program, inputs and outputs first.
pub(super) fn mesh_uses(file: &FileSyntax) -> impl Iterator<Item = (usize, Symbol)> + '_ {
    let programs = file.items.iter().enumerate().filter_map(|(number, item)| match item {
        ItemSyntax::Kernel(program) | ItemSyntax::Program(program) => Some((number, program)),
        ItemSyntax::Mesh(_) | ItemSyntax::Import(_) => None,
    });
    // Types are nearly always in the order of the text.
    let is_sorted = file.types.is_sorted_by_key(|ty| ty.span.start);
    programs.flat_map(move |(number, program)| {
        let parameters = program.inputs.iter().chain(&program.outputs);
        let own = parameters.filter_map(|parameter| {
            let given = parameter.ty.and_then(|ty| file.types[ty.index()].mesh);
            given.or(program.mesh)
        });
        let types = match is_sorted {
            true => &file.types[file.types.partition_point(|ty| ty.span.start < program.span.start)..],
            false => &file.types[..],
        };
        let inside = types
            .iter()
            .take_while(move |ty| !is_sorted || ty.span.start < program.span.end)
            .filter(|ty| program.span.start <= ty.span.start && ty.span.start < program.span.end);
        own.chain(inside.filter_map(|ty| ty.mesh)).map(move |name| (number, name.name))
    })
}
