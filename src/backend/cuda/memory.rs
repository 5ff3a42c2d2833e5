//! Where a plan's buffers lie in the one allocation of their rank.
//!
//! Decided before the run: nothing is allocated while it goes on. A buffer that only one stream uses
//! shares memory with the other such buffers of that stream, since a stream does one thing after the
//! other. All others (inputs, outputs, what a communication touches or several streams do) have a
//! place of their own.

use crate::plan::{BufferId, BufferKind, InstKind, Plan, StreamSlot, View, WorkSlot};

/// Buffers start at multiples of this.
pub(super) const ALIGNMENT: usize = 256;

/// Offsets of a rank's buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Offset by buffer; `None` for a buffer that nothing uses.
    pub(super) offsets: Vec<Option<usize>>,
    /// Bytes of the allocation, scratch memory included.
    pub(super) bytes: usize,
    /// Offset of each stream's scratch memory.
    pub(super) scratch: Vec<usize>,
}

/// Who uses a buffer, and from where to where in the order of issue.
#[derive(Clone, Copy, Debug)]
struct Use {
    stream: StreamSlot,
    first: usize,
    last: usize,
    shared: bool,
}

/// The layout of a plan whose streams need `scratch` bytes each.
pub(super) fn assign(plan: &Plan, scratch: &[usize]) -> Layout {
    let uses = uses(plan);
    let mut layout = Layout { offsets: vec![None; uses.len()], bytes: 0, scratch: Vec::new() };
    for (index, found) in uses.iter().enumerate() {
        if found.is_some_and(|one| one.shared) {
            layout.offsets[index] = Some(layout.bytes);
            layout.bytes += size(plan, index);
        }
    }
    for stream in 0..plan.streams {
        let start = layout.bytes;
        let mut region = Region::default();
        for (index, one) in in_order(&uses, StreamSlot(stream)) {
            let offset = region.place(size(plan, index), one.first, one.last);
            layout.offsets[index] = Some(start + offset);
        }
        layout.bytes += region.height;
    }
    for &bytes in scratch {
        layout.scratch.push(layout.bytes);
        layout.bytes += rounded(bytes);
    }
    layout
}

fn in_order(uses: &[Option<Use>], stream: StreamSlot) -> Vec<(usize, Use)> {
    let mut own: Vec<(usize, Use)> = uses
        .iter()
        .enumerate()
        .filter_map(|(index, one)| Some((index, (*one)?)))
        .filter(|(_, one)| !one.shared && one.stream == stream)
        .collect();
    own.sort_by_key(|(index, one)| (one.first, *index));
    own
}

fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

fn size(plan: &Plan, buffer: usize) -> usize {
    let buffer = &plan.buffers[BufferId(buffer as u32)];
    rounded((buffer.elements * buffer.dtype.size()).max(1))
}

/// Places for buffers that live one after the other on one stream.
#[derive(Default)]
struct Region {
    /// Offset, size and last use of what is alive.
    alive: Vec<(usize, usize, usize)>,
    height: usize,
}

impl Region {
    /// The lowest gap that is large enough.
    fn place(&mut self, size: usize, first: usize, last: usize) -> usize {
        self.alive.retain(|&(_, _, end)| end >= first);
        self.alive.sort_unstable();
        let mut at = 0;
        for &(offset, length, _) in &self.alive {
            if offset >= at + size {
                break;
            }
            at = at.max(offset + length);
        }
        self.alive.push((at, size, last));
        self.height = self.height.max(at + size);
        at
    }
}

/// Collects the uses of a plan's buffers.
fn uses(plan: &Plan) -> Vec<Option<Use>> {
    let mut found = vec![None; plan.buffers.len()];
    for (index, (_, buffer)) in plan.buffers.iter().enumerate() {
        if matches!(buffer.kind, BufferKind::Input(_)) {
            touch(&mut found, index, StreamSlot(0), 0, true);
        }
    }
    let waits = waits(plan);
    for (at, inst) in plan.iter().enumerate() {
        let views = inst.kind.reads().into_iter().chain(inst.kind.writes());
        let buffers = views.map(|view: &View| view.buffer.0 as usize);
        match posted(&inst.kind) {
            // Its stream goes on when the communication is over: it is one more use of that stream.
            Some(work)
                if waits[work.0 as usize].is_some_and(|(_, stream)| stream == inst.stream) =>
            {
                let (end, stream) = waits[work.0 as usize].unwrap_or((at, inst.stream));
                buffers.for_each(|buffer| {
                    touch(&mut found, buffer, stream, at, false);
                    touch(&mut found, buffer, stream, end, false);
                });
            }
            Some(_) => buffers.for_each(|buffer| touch(&mut found, buffer, inst.stream, at, true)),
            None => buffers.for_each(|buffer| touch(&mut found, buffer, inst.stream, at, false)),
        }
    }
    for output in plan.outputs.iter().flatten() {
        touch(&mut found, output.buffer.0 as usize, StreamSlot(0), plan.insts.len(), true);
    }
    found
}

/// The work that a communication outside of groups posts.
fn posted(kind: &InstKind) -> Option<WorkSlot> {
    match kind {
        InstKind::Collective(collective) => Some(collective.work),
        InstKind::Send { work, .. } | InstKind::Recv { work, .. } => Some(*work),
        _ => None,
    }
}

/// Where each work is first waited for, and by which stream. Works of a group are waited for by the
/// work of its end.
fn waits(plan: &Plan) -> Vec<Option<(usize, StreamSlot)>> {
    let mut waits = vec![None; plan.works as usize];
    let mut groups: Vec<(Vec<WorkSlot>, WorkSlot)> = Vec::new();
    let mut open: Option<Vec<WorkSlot>> = None;
    for (at, inst) in plan.iter().enumerate() {
        match &inst.kind {
            InstKind::GroupBegin => open = Some(Vec::new()),
            InstKind::GroupEnd { work, .. } => groups.extend(open.take().map(|all| (all, *work))),
            InstKind::WaitWork { work } => {
                waits[work.0 as usize].get_or_insert((at, inst.stream));
            }
            kind => {
                if let (Some(open), Some(work)) = (&mut open, posted(kind)) {
                    open.push(work);
                }
            }
        }
    }
    for (members, end) in groups {
        for member in members {
            waits[member.0 as usize] = waits[member.0 as usize].or(waits[end.0 as usize]);
        }
    }
    waits
}

fn touch(found: &mut [Option<Use>], buffer: usize, stream: StreamSlot, at: usize, shared: bool) {
    match &mut found[buffer] {
        Some(one) => {
            one.shared |= shared || one.stream != stream;
            one.first = one.first.min(at);
            one.last = one.last.max(at);
        }
        none => *none = Some(Use { stream, first: at, last: at, shared }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_reuses_what_ended() {
        let mut region = Region::default();
        assert_eq!(region.place(256, 0, 4), 0);
        assert_eq!(region.place(512, 2, 9), 256);
        assert_eq!(region.place(256, 5, 6), 0);
        assert_eq!(region.place(512, 7, 8), 768);
        assert_eq!(region.height, 1280);
    }
}
