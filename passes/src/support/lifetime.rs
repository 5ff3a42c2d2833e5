//! The last uses of tensors, after which their memory can be freed.
//!
//! Lifetimes are those of storage classes: memory lives as long as any view of it is used, and until waits for the
//! communications that access it. In a loop it also lives as long as a later iteration may use it
//! ([`LifetimeScan::drop_carried_releases`]).

use crate::support::builder::OpBuilder;
use crate::support::carried::{PendingClasses, carried_classes};
use hostir::analysis::storage::{StorageClasses, described_tensors, interface_tensors, visit_accesses};
use hostir::ir::OpEffect;
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::loop_index;
use hostir::ir::{BlockId, Id, Op, OpId, Program, TensorId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The depth at which a Deallocate may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseDepth {
    /// In the body of the program only.
    Top,
    /// In the innermost block that holds all uses.
    Innermost,
}

/// A place for a Deallocate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleasePoint {
    /// The block, and its op that the release follows.
    pub(crate) place: (BlockId, OpId),
    pub(crate) tensor: TensorId,
}

/// The statements that contain an op, from the outside in.
type OpPath = Vec<(BlockId, OpId)>;

/// The places at which tensors that the program defines are released, by tensor. Tensors that the caller sees, views,
/// and tensors that the program frees itself are left out. So are those defined in another block than the one of the
/// release, which may have no memory there, and those that one iteration of a loop leaves for the next.
pub(crate) fn release_points(program: &Program, depth: ReleaseDepth) -> Vec<ReleasePoint> {
    let mut scan = LifetimeScan::new(program, depth);
    scan.note_posts(program.body());
    scan.scan_block(program.body(), &mut Vec::new(), false);
    let kept: Vec<usize> = interface_tensors(program)
        .chain(described_tensors(program))
        .map(|tensor| scan.storage.class_of(tensor))
        .collect();
    for class in kept {
        scan.last[class].clear();
    }
    let mut found = Vec::new();
    for tensor in program.tensors().ids() {
        let class = scan.storage.class_of(tensor);
        let Some(&place) = scan.last[class].last() else { continue };
        let made = &scan.made[tensor.index()];
        if !made.elsewhere && made.blocks.contains(&place.0) {
            found.push(ReleasePoint { place, tensor });
        }
    }
    scan.drop_carried_releases(&mut found);
    keep_or_release_unit_results(program, &scan, &mut found);
    found.sort_by_key(|release| program.tensor(release.tensor).number);
    found
}

/// Keeps the results of a HostUnit together: if it is posted in a loop, all have memory at the next post, or none has.
/// If one is not released, or gets memory elsewhere than the others, none is released.
fn keep_or_release_unit_results(program: &Program, scan: &LifetimeScan<'_>, found: &mut Vec<ReleasePoint>) {
    let posts: Vec<&Op> = scan.posts.iter().map(|&post| program.op(post)).collect();
    loop {
        let places: FxHashMap<TensorId, BlockId> =
            found.iter().map(|release| (release.tensor, release.place.0)).collect();
        let mut kept = FxHashSet::default();
        for post in &posts {
            let mut ends =
                post.output_tensors().map(|tensor| Some((places.get(&tensor)?, &scan.made[tensor.index()].blocks)));
            let first = ends.next().flatten();
            if first.is_none() || ends.any(|end| end != first) {
                kept.extend(post.output_tensors());
            }
        }
        let before = found.len();
        found.retain(|release| !kept.contains(&release.tensor));
        if found.len() == before {
            return;
        }
    }
}

/// Puts a Deallocate at each place, in the order given. Returns how many.
pub(crate) fn insert(edit: &mut Edit<'_>, releases: &[ReleasePoint]) -> u64 {
    let mut after: FxHashMap<OpId, Vec<TensorId>> = FxHashMap::default();
    let mut blocks: Vec<BlockId> = Vec::new();
    for release in releases {
        after.entry(release.place.1).or_default().push(release.tensor);
        blocks.push(release.place.0);
    }
    blocks.sort_unstable();
    blocks.dedup();
    let mut build = OpBuilder::new(edit);
    for block in blocks {
        let ops = build.program().block(block).ops.clone();
        let mut out = Vec::with_capacity(ops.len() * 2);
        for op in ops {
            out.push(op);
            build.origin = op;
            let freed = after.get(&op).map(Vec::as_slice).unwrap_or_default();
            out.extend(freed.iter().map(|&tensor| build.build_deallocate(tensor)));
        }
        build.edit.set_block(block, out);
    }
    releases.len() as u64
}

/// The places that give a tensor its memory.
#[derive(Clone, Default)]
struct AllocationSite {
    /// Blocks of the ops that make it.
    blocks: Vec<BlockId>,
    /// True if it is a view, or freed by the program.
    elsewhere: bool,
}

struct LifetimeScan<'a> {
    program: &'a Program,
    depth: ReleaseDepth,
    storage: StorageClasses,
    /// By storage class: the innermost statement that contains all uses, or the last of them.
    last: Vec<OpPath>,
    made: Vec<AllocationSite>,
    /// Classes that a communication touches.
    pending: PendingClasses,
    /// Classes of the sends and receives of the group that is open.
    group: Vec<usize>,
    /// Blocks inside of loops: they run several times.
    looped: FxHashSet<BlockId>,
    /// Posts of HostUnits in them.
    posts: Vec<OpId>,
}

impl<'a> LifetimeScan<'a> {
    fn new(program: &'a Program, depth: ReleaseDepth) -> Self {
        let tensors = program.tensors().len();
        Self {
            program,
            depth,
            storage: StorageClasses::from_program(program),
            last: vec![Vec::new(); tensors],
            made: vec![AllocationSite::default(); tensors],
            pending: PendingClasses::default(),
            group: Vec::new(),
            looped: FxHashSet::default(),
            posts: Vec::new(),
        }
    }

    /// Records the tensors that each communication and each group accesses, before the first query: in a loop the Wait
    /// may precede the post.
    fn note_posts(&mut self, block: BlockId) {
        let program = self.program;
        program.walk(block, &mut |id| {
            if program.op(id).kind.is_communication() {
                self.note_communication(id);
            }
        });
    }

    /// Removes from the releases the tensors that a later iteration needs.
    fn drop_carried_releases(&mut self, found: &mut Vec<ReleasePoint>) {
        let mut known: FxHashMap<BlockId, FxHashSet<usize>> = FxHashMap::default();
        found.retain(|release| {
            let block = release.place.0;
            if !self.looped.contains(&block) {
                return true;
            }
            let (storage, pending) = (&mut self.storage, &self.pending);
            let needed = known.entry(block).or_insert_with(|| {
                carried_classes(self.program, storage, pending, &|tensor| self.made[tensor.index()].elsewhere, block)
            });
            !needed.contains(&storage.class_of(release.tensor))
        });
    }

    fn scan_block(&mut self, block: BlockId, path: &mut OpPath, looped: bool) {
        let program = self.program;
        if looped {
            self.looped.insert(block);
        }
        for &op in &program.block(block).ops {
            path.push((block, op));
            self.scan_op(op, block, path);
            let looped = looped || loop_index(program, program.op(op)).is_some();
            for &inner in &program.op(op).blocks {
                self.scan_block(inner, path, looped);
            }
            path.pop();
        }
    }

    fn scan_op(&mut self, id: OpId, block: BlockId, path: &OpPath) {
        let op = self.program.op(id);
        let effect = op.kind.effect();
        let mut touched = Vec::new();
        visit_accesses(self.program, id, &mut |tensor, _| touched.push(tensor));
        let classes: Vec<usize> = touched.iter().map(|&tensor| self.storage.class_of(tensor)).collect();
        for &class in &classes {
            self.note_use(class, path);
        }
        if op.posted_number().is_some() && self.looped.contains(&block) {
            self.posts.push(id);
        }
        match effect {
            OpEffect::Free => {
                for tensor in touched {
                    self.made[tensor.index()].elsewhere = true;
                }
            }
            OpEffect::Communicate(_) => self.note_wait(id, path),
            OpEffect::Pure | OpEffect::Alias | OpEffect::Allocate | OpEffect::Opaque => {
                for tensor in op.output_tensors() {
                    let made = &mut self.made[tensor.index()];
                    made.elsewhere |= effect == OpEffect::Alias;
                    made.blocks.push(block);
                }
            }
            OpEffect::Stream(_) | OpEffect::Control(_) | OpEffect::Observe => {}
        }
    }

    /// Records the tensors that a communication accesses, or the group that it ends.
    fn note_communication(&mut self, id: OpId) {
        let op = self.program.op(id);
        let mut classes = Vec::new();
        visit_accesses(self.program, id, &mut |tensor, _| classes.push(tensor));
        let classes: Vec<usize> = classes.iter().map(|&t| self.storage.class_of(t)).collect();
        self.group.extend_from_slice(&classes);
        if let Some(number) = op.number() {
            let ends_group = classes.is_empty();
            let waited = if ends_group { std::mem::take(&mut self.group) } else { classes };
            self.pending.entry(number).or_default().extend(waited);
        }
    }

    /// Keeps the tensors that a communication accesses in use until the Wait for it, or for its group.
    fn note_wait(&mut self, id: OpId, path: &OpPath) {
        for value in &self.program.op(id).operands {
            if let Value::Handle(number) = value {
                for class in self.pending.get(number).cloned().unwrap_or_default() {
                    self.note_use(class, path);
                }
            }
        }
    }

    fn note_use(&mut self, class: usize, path: &OpPath) {
        let path = if self.depth == ReleaseDepth::Top { &path[..1] } else { path.as_slice() };
        let last = &mut self.last[class];
        if last.is_empty() {
            *last = path.to_vec();
            return;
        }
        let same = last.iter().zip(path).take_while(|(a, b)| a == b).count();
        let same_block = last.get(same).zip(path.get(same)).is_some_and(|(a, b)| a.0 == b.0);
        last.truncate(same);
        if same_block {
            last.push(path[same]);
        }
    }
}
