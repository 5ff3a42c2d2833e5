//! The places of comments in the program.

use super::file_scope::{MeshComment, ProgramPlace};
use super::program::{ProgramReader, StatementOps};
use crate::ir::{CommentPlace, OpId, SourceComment};
use hostir_grammar::ast::{CommentPlaceSyntax, CommentSyntax, Symbol};
use hostir_grammar::hir2::ast::{FileSyntax, ItemSyntax, StmtForm, StmtId};
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
        let is_behind = matches!(comment.place, CommentPlaceSyntax::Header(_)) && comment.span.start >= mesh.span.end;
        let (rank, owner) = match uses.get(&(&mesh.shape, &mesh.devices)) {
            // The item may be a kernel of the program.
            Some(&FirstMeshUse { rank, item }) => (rank, programs.partition_point(|program| program.item < item)),
            None => (usize::MAX, programs.partition_point(|program| program.start <= comment.span.start)),
        };
        let Some(owner) = programs.get(owner).or(programs.last()) else { continue };
        found.push(MeshComment { comment: *comment, mesh: mesh.name.name, is_behind, rank, owner: owner.item });
    }
    found.sort_by_key(|comment| (comment.rank, comment.is_behind));
    found
}

/// Shape and devices of a mesh.
type MeshGrid<'f> = (&'f Vec<u32>, &'f Vec<u32>);

/// The first use of a mesh.
struct FirstMeshUse {
    /// The number of the mesh in the order of these uses.
    rank: usize,
    /// The number of the kernel or program among the items.
    item: usize,
}

fn first_mesh_uses(file: &FileSyntax) -> FxHashMap<MeshGrid<'_>, FirstMeshUse> {
    let meshes = file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some((mesh.name.name, (&mesh.shape, &mesh.devices))),
        ItemSyntax::Kernel(_) | ItemSyntax::Program(_) => None,
    });
    let meshes: FxHashMap<Symbol, MeshGrid<'_>> = meshes.collect();
    let mut uses = FxHashMap::default();
    for (item, mesh) in super::mesh_uses(file) {
        let Some(mesh) = meshes.get(&mesh) else { continue };
        let rank = uses.len();
        uses.entry(*mesh).or_insert(FirstMeshUse { rank, item });
    }
    uses
}

impl<'a> ProgramReader<'a> {
    /// Places the comments of the program with this number among the items, and those of its kernels.
    pub(super) fn place_comments(&mut self, kernels: &[usize], number: usize) {
        let comments = self.near_comments(number);
        for comment in comments {
            let Some(place) = self.comment_place(comment, kernels, number) else { continue };
            let text = self.source.get(comment.span.as_usize_range()).unwrap_or_default();
            self.program.source.comments.push(SourceComment { place, text: text.into() });
        }
        let of_meshes = self.shared.mesh_comments.iter().filter(|comment| comment.owner == number);
        let placed = of_meshes.map(|comment| self.place_mesh_comment(comment));
        let (of_file, of_meshes): (Vec<_>, Vec<_>) = placed.partition(|one| one.place == CommentPlace::File);
        self.program.source.comments.extend(of_file);
        self.program.source.comments.extend(of_meshes);
    }

    /// Places a comment at the mesh if the program has it, else at the top of the file.
    fn place_mesh_comment(&self, found: &MeshComment) -> SourceComment {
        let named = self.shared.meshes.get(&found.mesh);
        let id = named.and_then(|named| self.program.mesh_ids.get(&named.mesh).copied());
        let place = match (id, found.is_behind) {
            (Some(id), true) => CommentPlace::BehindMesh(id),
            (Some(id), false) => CommentPlace::AboveMesh(id),
            (None, _) => CommentPlace::File,
        };
        let text = self.source.get(found.comment.span.as_usize_range()).unwrap_or_default();
        SourceComment { place, text: text.into() }
    }

    /// The comments after the start of the program before this one and before the start of the next one.
    fn near_comments(&self, number: usize) -> &'a [CommentSyntax] {
        let file = self.file;
        let (all, programs) = (&file.comments[..], &self.shared.programs[..]);
        if !self.tables.has_sorted_comments {
            return all;
        }
        let at = programs.partition_point(|program| program.item < number);
        let start = at.checked_sub(1).map_or(0, |before| programs[before].start);
        let first = all.partition_point(|comment| comment.span.start < start);
        let end = programs
            .get(at + 1)
            .map_or(all.len(), |next| all.partition_point(|comment| comment.span.start < next.start));
        &all[first..end]
    }

    /// Returns true if the file has comments or blank lines that are kept: only then the reader records the places of
    /// statements.
    pub(super) fn has_comments(&self) -> bool {
        !self.file.comments.is_empty()
    }

    /// Records the first and the last op of a statement.
    pub(super) fn note_statement(&mut self, stmt: StmtId, first: OpId, last: OpId) {
        self.tables.note_statement(stmt, (first, last));
    }

    /// The first and the last op of a statement.
    fn ops_of_statement(&self, stmt: StmtId) -> Option<StatementOps> {
        self.tables.statements.get(stmt.index()).copied().flatten()
    }

    fn comment_place(&self, comment: &CommentSyntax, kernels: &[usize], number: usize) -> Option<CommentPlace> {
        match comment.place {
            CommentPlaceSyntax::Above(stmt) => self.place_above(stmt, number),
            CommentPlaceSyntax::Trailing(stmt) => match self.ops_of_statement(stmt) {
                Some((_, last)) => Some(CommentPlace::Trailing(last)),
                None => self.place_above(stmt, number),
            },
            CommentPlaceSyntax::StartOf(block) => match self.groups.get(&block) {
                Some(&(start, _)) => Some(CommentPlace::Trailing(start)),
                None => self.blocks.get(&block).copied().map(CommentPlace::StartOf),
            },
            CommentPlaceSyntax::EndOf(block) => match self.groups.get(&block) {
                Some(&(_, end)) => Some(CommentPlace::Above(end)),
                None => match self.stream_ends.get(&block) {
                    Some(&back) => Some(CommentPlace::Above(back)),
                    None => self.blocks.get(&block).copied().map(CommentPlace::EndOf),
                },
            },
            CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item)
                if kernels.contains(&(item as usize)) =>
            {
                Some(self.kernel_comment_place(kernels, item as usize))
            }
            CommentPlaceSyntax::Container(item) | CommentPlaceSyntax::Header(item) if self.is_mesh(item) => None,
            CommentPlaceSyntax::Container(item) => (item as usize == number).then_some(CommentPlace::Container),
            CommentPlaceSyntax::Header(item) => (item as usize == number).then_some(CommentPlace::Header),
            CommentPlaceSyntax::File => {
                (self.owner_of_file_comment(comment) == Some(number)).then_some(CommentPlace::File)
            }
            CommentPlaceSyntax::EndOfFile => {
                let last = self.file.items.iter().rposition(|item| matches!(item, ItemSyntax::Program(_)));
                (last == Some(number)).then_some(CommentPlace::End)
            }
        }
    }

    /// Above the header of a kernel, or at its end.
    fn kernel_comment_place(&self, kernels: &[usize], item: usize) -> CommentPlace {
        let number = kernels.iter().position(|kernel| *kernel == item);
        let unit = number.and_then(|number| self.program.units.iter().nth(number));
        unit.map_or(CommentPlace::File, |(_, unit)| CommentPlace::StartOf(unit.body))
    }

    /// Returns true for an item of the file that is a mesh.
    fn is_mesh(&self, item: u32) -> bool {
        matches!(self.file.items.get(item as usize), Some(ItemSyntax::Mesh(_)))
    }

    /// The program that follows a comment outside of all of them.
    fn owner_of_file_comment(&self, comment: &CommentSyntax) -> Option<usize> {
        let programs = &self.shared.programs;
        let next = programs.partition_point(|program| program.start <= comment.span.start);
        programs.get(next).map(|program| program.item)
    }

    /// The place above a statement of the program with this number. A statement without ops, such as a declaration,
    /// stands for the next one; without a next one, as after `alias`, the place is the end of the program. Statements
    /// of `define:` stand for the first definition.
    fn place_above(&self, stmt: StmtId, number: usize) -> Option<CommentPlace> {
        let own = self.ops_of_statement(stmt).or_else(|| self.ops_of_statement(self.first_definition(stmt)?));
        let next = own.map(|(first, _)| first).or_else(|| self.silent.get(&stmt).copied());
        next.map(CommentPlace::Above).or_else(|| {
            let Some(ItemSyntax::Program(program)) = self.file.items.get(number) else { return None };
            let start = self.file.stmts.get(stmt.index())?.span.start;
            let is_own = program.span.start <= start && start < program.span.end;
            let body = self.blocks.get(&program.body).copied();
            body.filter(|_| is_own).map(CommentPlace::EndOf)
        })
    }

    /// The first statement below `define:`.
    fn first_definition(&self, stmt: StmtId) -> Option<StmtId> {
        let StmtForm::Define(block) = self.file.stmts.get(stmt.index())?.form else { return None };
        self.file.blocks[block.index()].stmts.first().copied()
    }

    /// Records, for the statements of a block without ops, the first op of the next statement that has one.
    pub(super) fn note_silent_statements(&mut self, stmts: &[StmtId]) {
        let mut next = None;
        for stmt in stmts.iter().rev() {
            match (self.ops_of_statement(*stmt), next) {
                (Some((first, _)), _) => next = Some(first),
                (None, Some(next)) => {
                    self.silent.insert(*stmt, next);
                }
                (None, None) => {}
            }
        }
    }
}
