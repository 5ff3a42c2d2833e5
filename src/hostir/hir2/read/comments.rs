//! The places of comments in the program.

use super::file_scope::{FileScope, MeshComment, ProgramPlace, mesh_uses};
use super::statement_index::StatementIndex;
use crate::ir::{CommentPlace, MeshId, Program, SourceComment};
use hostir_grammar::ast::{CommentPlaceSyntax, CommentSyntax, Symbol};
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, MeshItem, StmtForm, StmtId};
use rustc_hash::FxHashMap;

/// The comments at lines of meshes, each with the program that keeps it, since programs share meshes. They are in the
/// order of the first uses of their meshes, as a writer writes them.
pub(super) fn find_mesh_comments(file: &FileSyntax, programs: &[ProgramPlace]) -> Vec<MeshComment> {
    let mut found: Vec<MeshComment> = Vec::new();
    let mut uses = None;
    for comment in &file.comments {
        let (CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item)) = comment.place else { continue };
        let Some(ItemSyntax::Mesh(mesh)) = file.items.get(item as usize) else { continue };
        let uses = uses.get_or_insert_with(|| first_mesh_uses(file));
        // One inside of the lists stands above them.
        let is_after = matches!(comment.place, CommentPlaceSyntax::Header(_)) && comment.span.start >= mesh.span.end;
        let (rank, owner) = match uses.get(&mesh_grid(mesh)) {
            // The item may be a kernel of the program.
            Some(&FirstMeshUse { rank, item }) => (rank, programs.partition_point(|program| program.item < item)),
            None => (usize::MAX, programs.partition_point(|program| program.start <= comment.span.start)),
        };
        let Some(owner) = programs.get(owner).or(programs.last()) else { continue };
        found.push(MeshComment { comment: *comment, mesh: mesh.name.name, is_after, rank, owner: owner.item });
    }
    found.sort_by_key(|comment| (comment.rank, comment.is_after));
    found
}

/// Shape and devices of a mesh; the name of one that is given by sizes, which differs from all others.
type MeshGrid<'f> = (&'f Vec<u32>, &'f Vec<u32>, Option<Symbol>);

fn mesh_grid(mesh: &MeshItem) -> MeshGrid<'_> {
    (&mesh.shape, &mesh.devices, mesh.sized.map(|_| mesh.name.name))
}

/// The first use of a mesh.
struct FirstMeshUse {
    /// The number of the mesh in the order of these uses.
    rank: usize,
    /// The number of the kernel or program among the items.
    item: usize,
}

fn first_mesh_uses(file: &FileSyntax) -> FxHashMap<MeshGrid<'_>, FirstMeshUse> {
    let meshes = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some((mesh.name.name, mesh_grid(mesh))),
        ItemSyntax::Import(_) | ItemSyntax::Kernel(_) | ItemSyntax::Program(_) => None,
    });
    let meshes: FxHashMap<Symbol, MeshGrid<'_>> = meshes.collect();
    let mut uses = FxHashMap::default();
    for (item, mesh) in mesh_uses(file) {
        let Some(mesh) = meshes.get(&mesh) else { continue };
        let rank = uses.len();
        uses.entry(*mesh).or_insert(FirstMeshUse { rank, item });
    }
    uses
}

/// Finds the places of a program's comments, and of those of its kernels.
pub(super) struct CommentPlacer<'r> {
    pub(super) file: &'r FileSyntax,
    pub(super) source: &'r str,
    pub(super) shared: &'r FileScope,
    pub(super) program: &'r Program,
    pub(super) sized_meshes: &'r FxHashMap<Symbol, MeshId>,
    pub(super) statements: &'r StatementIndex,
    /// True if the comments of the file are in the order of the text.
    pub(super) is_sorted: bool,
    /// The numbers of the kernels among the items of the file; `None` for imported ones.
    pub(super) kernels: &'r [Option<usize>],
    /// The number of the program among them.
    pub(super) number: usize,
}

impl<'r> CommentPlacer<'r> {
    /// The comments with their places in the program.
    pub(super) fn place_comments(&self) -> Vec<SourceComment> {
        let near = self.near_comments().iter();
        let mut all: Vec<SourceComment> =
            near.filter_map(|comment| Some(self.placed_comment(self.comment_place(comment)?, comment))).collect();
        let of_meshes = self.shared.mesh_comments.iter().filter(|comment| comment.owner == self.number);
        let placed = of_meshes.map(|comment| self.placed_comment(self.mesh_comment_place(comment), &comment.comment));
        let (of_file, of_meshes): (Vec<_>, Vec<_>) = placed.partition(|one| one.place == CommentPlace::File);
        all.extend(of_file);
        all.extend(self.import_comments());
        all.extend(of_meshes);
        all
    }

    /// The comments at lines of imports, which the first program keeps.
    fn import_comments(&self) -> Vec<SourceComment> {
        let is_first = self.shared.programs.first().is_some_and(|program| program.item == self.number);
        if !is_first || self.shared.imports.lines.is_empty() {
            return Vec::new();
        }
        let file = self.file;
        let of_imports = file.comments.iter().filter_map(|comment| {
            let (CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item)) = comment.place else {
                return None;
            };
            let Some(ItemSyntax::Import(import)) = file.items.get(item as usize) else { return None };
            let before = &file.items[..item as usize];
            let number = before.iter().filter(|item| matches!(item, ItemSyntax::Import(_))).count() as u32;
            let is_after = comment.span.start >= import.span.end;
            let place = if is_after { CommentPlace::AfterImport(number) } else { CommentPlace::AboveImport(number) };
            Some(self.placed_comment(place, comment))
        });
        of_imports.collect()
    }

    fn placed_comment(&self, place: CommentPlace, comment: &CommentSyntax) -> SourceComment {
        let text = self.source.get(comment.span.as_usize_range()).unwrap_or_default();
        SourceComment { place, text: text.into() }
    }

    /// Places a comment at the mesh if the program has it, else at the top of the file.
    fn mesh_comment_place(&self, found: &MeshComment) -> CommentPlace {
        let named = self.shared.meshes.get(&found.mesh);
        let listed = named.filter(|named| named.sized.is_none());
        let id = listed.and_then(|named| self.program.mesh_ids.get(&named.mesh));
        let id = id.or_else(|| self.sized_meshes.get(&found.mesh)).copied();
        match (id, found.is_after) {
            (Some(id), true) => CommentPlace::AfterMesh(id),
            (Some(id), false) => CommentPlace::AboveMesh(id),
            (None, _) => CommentPlace::File,
        }
    }

    /// The comments after the start of the program before this one and before the start of the next one.
    fn near_comments(&self) -> &'r [CommentSyntax] {
        let file = self.file;
        let (all, programs) = (&file.comments[..], &self.shared.programs[..]);
        if !self.is_sorted {
            return all;
        }
        let at = programs.partition_point(|program| program.item < self.number);
        let start = at.checked_sub(1).map_or(0, |before| programs[before].start);
        let first = all.partition_point(|comment| comment.span.start < start);
        let end = programs
            .get(at + 1)
            .map_or(all.len(), |next| all.partition_point(|comment| comment.span.start < next.start));
        &all[first..end]
    }

    fn comment_place(&self, comment: &CommentSyntax) -> Option<CommentPlace> {
        match comment.place {
            CommentPlaceSyntax::Above(stmt) => self.place_above(stmt),
            CommentPlaceSyntax::Trailing(stmt) => match self.statements.ops_of_statement(stmt) {
                Some((_, last)) => Some(CommentPlace::Trailing(last)),
                None => self.place_above(stmt),
            },
            CommentPlaceSyntax::StartOf(block) => self.statements.start_of_block(block),
            CommentPlaceSyntax::EndOf(block) => self.statements.end_of_block(block),
            CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item)
                if self.kernels.contains(&Some(item as usize)) =>
            {
                Some(self.kernel_comment_place(item as usize))
            }
            CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item) if self.is_of_head(item) => None,
            CommentPlaceSyntax::Container(item) => (item as usize == self.number).then_some(CommentPlace::Container),
            CommentPlaceSyntax::Header(item) => (item as usize == self.number).then_some(CommentPlace::Header),
            CommentPlaceSyntax::File => {
                (self.owner_of_file_comment(comment) == Some(self.number)).then_some(CommentPlace::File)
            }
            CommentPlaceSyntax::EndOfFile => {
                let last = self.file.items.iter().rposition(|item| matches!(item, ItemSyntax::Program(_)));
                (last == Some(self.number)).then_some(CommentPlace::End)
            }
        }
    }

    /// Above the header of a kernel, or at its end.
    fn kernel_comment_place(&self, item: usize) -> CommentPlace {
        let number = self.kernels.iter().position(|kernel| *kernel == Some(item));
        let unit = number.and_then(|number| self.program.units.iter().nth(number));
        unit.map_or(CommentPlace::File, |(_, unit)| CommentPlace::StartOf(unit.body))
    }

    /// Returns true for an item of the file that is a mesh or an import.
    fn is_of_head(&self, item: u32) -> bool {
        matches!(self.file.items.get(item as usize), Some(ItemSyntax::Mesh(_) | ItemSyntax::Import(_)))
    }

    /// The program that follows a comment outside of all of them.
    fn owner_of_file_comment(&self, comment: &CommentSyntax) -> Option<usize> {
        let programs = &self.shared.programs;
        let next = programs.partition_point(|program| program.start <= comment.span.start);
        programs.get(next).map(|program| program.item)
    }

    /// Above a statement of the program; above the next one if it has no ops, as a declaration; and at the
    /// end of the program if there is none, as after `alias`. Those of `define:` are the first definition's.
    fn place_above(&self, stmt: StmtId) -> Option<CommentPlace> {
        let statements = self.statements;
        let own = statements.ops_of_statement(stmt);
        let own = own.or_else(|| statements.ops_of_statement(self.first_definition(stmt)?));
        let next = own.map(|(first, _)| first).or_else(|| statements.op_after_silent(stmt));
        next.map(CommentPlace::Above).or_else(|| {
            let Some(ItemSyntax::Program(program)) = self.file.items.get(self.number) else { return None };
            let start = self.file.stmts.get(stmt.index())?.span.start;
            let is_own = program.span.start <= start && start < program.span.end;
            statements.end_of_body(program.body).filter(|_| is_own)
        })
    }

    /// The first statement below `define:`.
    fn first_definition(&self, stmt: StmtId) -> Option<StmtId> {
        let StmtForm::Define(block) = self.file.stmts.get(stmt.index())?.form else { return None };
        self.file.blocks[block.index()].stmts.first().copied()
    }
}
