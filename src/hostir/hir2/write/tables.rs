//! Tables about a program that are computed before it is written.

use super::names::ProgramNames;
use super::uses::OccurrenceTable;
use crate::hir2::defaults::default_memories;
use crate::ir::{CommentPlace, ExprId, IdVec, MemoryType, OpId, Program, TensorId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Programs of fewer ops are written by one thread: starting others takes longer.
pub(super) const PARALLEL: usize = 4096;

/// Names, counts, memories, comments and slices of a program.
pub(super) struct WriteTables<'p> {
    pub(super) program: &'p Program,
    pub(super) names: ProgramNames,
    pub(super) occurring: OccurrenceTable,
    memories: Vec<MemoryType>,
    /// Allocations of the usual size.
    pub(super) usual_sizes: IdVec<OpId, bool>,
    comments: FxHashMap<CommentPlace, SmallVec<[u32; 2]>>,
    /// For each op: true if a comment is above or after it. Empty if there are no comments.
    commented: Vec<bool>,
    /// True if some expression has `getMetaData`.
    pub(super) has_metadata: bool,
    /// For each op: true if it is a select that a statement contains.
    pub(super) hidden: Vec<bool>,
    /// For each tensor: the hidden select that makes it.
    pub(super) hidden_slices: Vec<Option<OpId>>,
}

fn find_names(program: &Program) -> (ProgramNames, OccurrenceTable) {
    let occurring = OccurrenceTable::new(program);
    (ProgramNames::new(program, &occurring), occurring)
}

impl<'p> WriteTables<'p> {
    pub(super) fn new(program: &'p Program, usual_sizes: IdVec<OpId, bool>) -> Self {
        let (memories, (names, occurring)) = match program.ops().len() < PARALLEL {
            true => (default_memories(program), find_names(program)),
            false => rayon::join(|| default_memories(program), || find_names(program)),
        };
        let mut comments: FxHashMap<CommentPlace, SmallVec<[u32; 2]>> = FxHashMap::default();
        let all = &program.source().comments;
        let mut commented = vec![false; if all.is_empty() { 0 } else { program.ops().len() }];
        for (index, comment) in all.iter().enumerate() {
            comments.entry(comment.place).or_default().push(index as u32);
            if let CommentPlace::Above(op) | CommentPlace::Trailing(op) = comment.place {
                commented[op.0 as usize] = true;
            }
        }
        let mut exprs = (0..program.exprs().len()).map(|at| program.expr(ExprId(at as u32)));
        let mut tables = Self {
            program,
            names,
            occurring,
            memories,
            usual_sizes,
            comments,
            commented,
            has_metadata: exprs.any(|expr| expr.named_tensor().is_some()),
            hidden: vec![false; program.ops().len()],
            hidden_slices: vec![None; program.tensors().len()],
        };
        let bodies = program.units().iter().map(|(_, unit)| unit.body).chain([program.body()]);
        bodies.chain(program.index_definitions()).for_each(|block| tables.plan_slices(block));
        tables
    }

    /// The memory of a type that names none.
    pub(super) fn default_memory(&self, id: TensorId) -> MemoryType {
        self.memories.get(id.0 as usize).copied().unwrap_or(MemoryType::Local)
    }

    /// Returns true if a place has comments or a blank line.
    pub(super) fn has_comments(&self, place: CommentPlace) -> bool {
        let possible = match place {
            CommentPlace::Above(op) | CommentPlace::Trailing(op) => {
                self.commented.get(op.0 as usize).copied().unwrap_or(false)
            }
            _ => !self.comments.is_empty(),
        };
        possible && self.comments.contains_key(&place)
    }

    /// The comments of a place, as numbers of the program's comments.
    pub(super) fn comments_at(&self, place: CommentPlace) -> SmallVec<[u32; 2]> {
        if !self.has_comments(place) {
            return SmallVec::new();
        }
        self.comments.get(&place).cloned().unwrap_or_default()
    }
}
