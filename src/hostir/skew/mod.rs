//! Skewed loops: iterations on streams overlap although communications of theirs share a queue.
//!
//! The host posts all communications of an iteration before those of the next one. If two of them are of one
//! communicator, its queue holds the first one of iteration `i + 1` until the last one of iteration `i` is done, which
//! waits for that iteration's work: nothing overlaps. A skewed loop cuts the work between the two into stages and runs,
//! in its iteration `i`, the first stage of iteration `i` and then the second one of iteration `i - 1`:
//!
//! ```text
//! for i in n on streams:                for i in n + 1:
//!   D: .. = alloc                         if i < n:
//!   wait all_to_all(X[i] -> D)              stream i % streams: wait all_to_all(X[i] -> D[i % 2])
//!   E = ..D..                             if i > 0:
//!   wait all_to_all(E -> Y[i])              stream (i - 1) % streams: ..D[(i - 1) % 2].. -> Y[i - 1]
//! ```
//!
//! `loops` finds loops on streams, `cuts` the places at which their work can be cut, `stages` decides whether
//! stages may change places, and `rewrite` writes the loop.

mod cuts;
mod loops;
mod rewrite;
mod stages;

use crate::ir::edit::Edit;
use crate::ir::{OpId, Program};
use loops::StreamLoop;
use stages::StagedWork;

/// A loop on streams and the stages into which its work is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopSkew {
    /// The loop.
    pub looped: OpId,
    /// The ops of its block with which the second stage and the later ones begin.
    pub stages: Vec<OpId>,
}

/// A way to skew a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SkewCandidate {
    /// The loop and its stages.
    pub skew: LoopSkew,
    /// A communication of an earlier stage.
    pub first: OpId,
    /// One of a later stage in the same queue.
    pub second: OpId,
}

/// The ways to skew the loops of a program: between two communications of one queue, or between all of them. Each
/// keeps what the loop computes, if ops of one stage only meet ops of the same stage and iteration on other ranks.
pub fn list_skews(program: &Program) -> Vec<SkewCandidate> {
    StreamLoop::find_all(program).iter().flat_map(|looped| skews_of_loop(program, looped)).collect()
}

fn skews_of_loop(program: &Program, looped: &StreamLoop) -> Vec<SkewCandidate> {
    let pairs = cuts::list_cuts(program, looped);
    let single = pairs.iter().flat_map(|pair| pair.places.iter().map(move |place| (pair, vec![*place])));
    let mut all: Vec<usize> = pairs.iter().flat_map(|pair| pair.places.first().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let several = pairs.first().filter(|_| all.len() > 1).map(|pair| (pair, all));
    let ways = single.chain(several);
    let found = ways.filter_map(|(pair, places)| {
        let stages: Vec<OpId> = places.iter().map(|&place| looped.work[place]).collect();
        StagedWork::new(program, looped, &stages)?;
        let (first, second) = (pair.first, pair.second);
        Some(SkewCandidate { skew: LoopSkew { looped: looped.looped, stages }, first, second })
    });
    found.collect()
}

/// Skews a loop. Returns false, and leaves the program as it is, if the loop has no such stages.
pub fn skew_loop(edit: &mut Edit<'_>, skew: &LoopSkew) -> bool {
    let program = edit.program();
    let Some(looped) = StreamLoop::find_all(program).into_iter().find(|one| one.looped == skew.looped) else {
        return false;
    };
    let Some(work) = StagedWork::new(program, &looped, &skew.stages) else { return false };
    rewrite::write_skewed(edit, &looped, &work);
    true
}

/// The stage of each op inside of a loop, in text order.
pub fn stages_of_ops(program: &Program, skew: &LoopSkew) -> Vec<(OpId, usize)> {
    let mut found = Vec::new();
    let mut stage = 0;
    for &block in &program.op(skew.looped).blocks {
        for &op in &program.block(block).ops {
            stage += usize::from(skew.stages.contains(&op));
            found.push((op, stage));
            program.walk_inside(op, &mut |inner| found.push((inner, stage)));
        }
    }
    found
}
