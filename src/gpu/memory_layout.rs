//! The layout of a plan's buffers in the one device allocation of their rank.
//!
//! The layout is decided before the run, which allocates nothing. Buffers that only one stream uses share memory with
//! the other such buffers of that stream, since the work of a stream is serialized. All other buffers (inputs, outputs,
//! buffers of communications or of several streams) have memory of their own.

use crate::fused_inst::FusedInst;
use hostir::plan::{BufferId, BufferKind, BufferView, Inst, InstKind, Plan, StreamSlot, WorkSlot};
use smallvec::SmallVec;

/// Buffers start at multiples of this.
pub const ALIGNMENT: usize = 256;

/// Offsets of a rank's buffers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLayout {
    /// Offset by buffer; `None` for a buffer that nothing uses.
    pub offsets: Vec<Option<usize>>,
    /// Bytes of the allocation, scratch memory included.
    pub bytes: usize,
    /// Offset of each stream's scratch memory.
    pub scratch: Vec<usize>,
}

/// The use of a buffer: the stream, and the first and last position in issue order.
#[derive(Clone, Copy, Debug)]
struct BufferUse {
    stream: StreamSlot,
    first: usize,
    last: usize,
    shared: bool,
}

/// The layout of a plan that runs as `items`, whose streams need `scratch` bytes each, after `flags` bytes of
/// semaphores. Buffers that are `external` (by number; may be empty) have other memory.
pub fn assign_offsets(
    plan: &Plan,
    items: &[FusedInst],
    scratch: &[usize],
    flags: usize,
    external: &[bool],
) -> MemoryLayout {
    let mut uses = buffer_uses(plan, items);
    uses.iter_mut().zip(external).filter(|(_, is)| **is).for_each(|(one, _)| *one = None);
    let mut layout = MemoryLayout { offsets: vec![None; uses.len()], bytes: align_up(flags), scratch: Vec::new() };
    for (index, found) in uses.iter().enumerate() {
        if found.is_some_and(|one| one.shared) {
            layout.offsets[index] = Some(layout.bytes);
            layout.bytes += padded_size(plan, index);
        }
    }
    for stream in 0..plan.streams {
        let start = layout.bytes;
        let mut region = StreamRegion::default();
        for (index, one) in uses_in_order(&uses, StreamSlot(stream)) {
            let offset = region.place_buffer(padded_size(plan, index), one.first, one.last);
            layout.offsets[index] = Some(start + offset);
        }
        layout.bytes += region.height;
    }
    for &bytes in scratch {
        layout.scratch.push(layout.bytes);
        layout.bytes += align_up(bytes);
    }
    layout
}

fn uses_in_order(uses: &[Option<BufferUse>], stream: StreamSlot) -> Vec<(usize, BufferUse)> {
    let mut own: Vec<(usize, BufferUse)> = uses
        .iter()
        .enumerate()
        .filter_map(|(index, one)| Some((index, (*one)?)))
        .filter(|(_, one)| !one.shared && one.stream == stream)
        .collect();
    own.sort_by_key(|(index, one)| (one.first, *index));
    own
}

fn align_up(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Bytes of a buffer with the padding up to the next one.
pub fn padded_size(plan: &Plan, buffer: usize) -> usize {
    let buffer = &plan.buffers[BufferId(buffer as u32)];
    align_up((buffer.elements * buffer.dtype.byte_size()).max(1))
}

/// Memory for buffers that live one after the other on one stream.
#[derive(Default)]
struct StreamRegion {
    /// Offset, size and last use of what is alive.
    alive: Vec<(usize, usize, usize)>,
    height: usize,
}

impl StreamRegion {
    /// The lowest gap that is large enough.
    fn place_buffer(&mut self, size: usize, first: usize, last: usize) -> usize {
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

/// Returns the numbers of the buffers that an item with position `inst` reads and writes.
fn accessed_buffers(inst: &Inst, item: &FusedInst) -> SmallVec<[usize; 4]> {
    let views: SmallVec<[&BufferView; 4]> = match item {
        FusedInst::Inst(_) => inst.kind.read_views().into_iter().chain(inst.kind.written_views()).collect(),
        FusedInst::Gemm { gemm, .. } => [&gemm.a, &gemm.b, &gemm.out].into_iter().chain(&gemm.bias).collect(),
        FusedInst::DirectGemm { gemm, .. } => [&gemm.a, &gemm.b].into_iter().chain(&gemm.bias).collect(),
        FusedInst::StoreGemms(parts) => {
            let own = parts.iter().filter(|part| part.send.is_none()).map(|part| &part.gemm.out);
            parts.iter().flat_map(|part| [&part.gemm.a, &part.gemm.b]).chain(own).collect()
        }
        FusedInst::Kernel { kernel, .. } => kernel.inputs.iter().chain([&kernel.output]).collect(),
        FusedInst::Reduce { kernel, output, .. } => kernel.inputs.iter().chain([output]).collect(),
    };
    views.into_iter().map(|view| view.buffer.0 as usize).collect()
}

/// Collects the uses of a plan's buffers, by the numbers of items.
fn buffer_uses(plan: &Plan, items: &[FusedInst]) -> Vec<Option<BufferUse>> {
    let mut found = vec![None; plan.buffers.len()];
    for (index, (_, buffer)) in plan.buffers.iter().enumerate() {
        if matches!(buffer.kind, BufferKind::Input(_)) {
            record_use(&mut found, index, StreamSlot(0), 0, true);
        }
    }
    let waits = first_waits(plan, items);
    for (at, item) in items.iter().enumerate() {
        let inst = plan.inst(item.plan_position());
        let (stream, buffers) = (inst.stream, accessed_buffers(&inst, item).into_iter());
        match inst.kind.issued_work() {
            // Its stream continues when the communication has ended, which is one more use of that stream.
            Some(work) => match waits[work.0 as usize].filter(|(_, waiting)| *waiting == stream) {
                Some((end, _)) => buffers.for_each(|buffer| {
                    record_use(&mut found, buffer, stream, at, false);
                    record_use(&mut found, buffer, stream, end, false);
                }),
                None => buffers.for_each(|buffer| record_use(&mut found, buffer, stream, at, true)),
            },
            None => buffers.for_each(|buffer| record_use(&mut found, buffer, stream, at, false)),
        }
    }
    for output in plan.outputs.iter().flatten() {
        record_use(&mut found, output.buffer.0 as usize, StreamSlot(0), items.len(), true);
    }
    found
}

/// For each communication handle: the position and the stream of its first wait. Handles within a group are waited
/// for by the group's own handle.
fn first_waits(plan: &Plan, items: &[FusedInst]) -> Vec<Option<(usize, StreamSlot)>> {
    let mut waits = vec![None; plan.works as usize];
    let mut groups: Vec<(Vec<WorkSlot>, WorkSlot)> = Vec::new();
    let mut open: Option<Vec<WorkSlot>> = None;
    for (at, item) in items.iter().enumerate() {
        let inst = plan.inst(item.plan_position());
        match &inst.kind {
            InstKind::GroupBegin => open = Some(Vec::new()),
            InstKind::GroupEnd { work, .. } => groups.extend(open.take().map(|all| (all, *work))),
            InstKind::WaitWork { work } => {
                waits[work.0 as usize].get_or_insert((at, inst.stream));
            }
            kind => {
                if let (Some(open), Some(work)) = (&mut open, kind.issued_work()) {
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

fn record_use(found: &mut [Option<BufferUse>], buffer: usize, stream: StreamSlot, at: usize, shared: bool) {
    match &mut found[buffer] {
        Some(one) => {
            one.shared |= shared || one.stream != stream;
            one.first = one.first.min(at);
            one.last = one.last.max(at);
        }
        none => *none = Some(BufferUse { stream, first: at, last: at, shared }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::lower::{SizeSettings, prepare_program};

    /// Three copies one after the other; `FOR` puts each iteration on a stream of its own.
    fn layout(body: &str) -> (Plan, MemoryLayout) {
        let text = format!(
            "%HostIrContainer {{ (T0_g_float[iS0{{100}}]) -> (T3_g_float[iS3{{100}}]) :\n{body}}} // %HostIrContainer\n"
        );
        let (programs, diags) = hostir::load(&text);
        assert!(diags.is_empty(), "{diags:?}");
        let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
        let plan = prepared.plans[0].clone();
        let items: Vec<FusedInst> = plan.cursor().map(|(id, _)| FusedInst::Inst(id)).collect();
        let layout = assign_offsets(&plan, &items, &[], 0, &[]);
        (plan, layout)
    }

    fn set(to: usize, from: usize) -> String {
        format!("  T{to}_g_float[iS{to}{{100}}] = Set( T{from}_g_float[iS{from}{{100}}], cache_op=Streaming )\n")
    }

    #[test]
    fn one_stream_reuses_memory_and_two_do_not() {
        let chain = |names: [usize; 5]| names.windows(2).map(|pair| set(pair[1], pair[0])).collect::<String>();
        let (_, one) = layout(&chain([0, 1, 2, 4, 3]));
        // 400 bytes take 512. Input and output have places of their own; of the other buffers two live at a time.
        assert_eq!(one.bytes, 4 * 512);
        let two = format!(
            "{}  SetCurrentStream to Stream 1\n{}  SetCurrentStream to Stream 0\n{}{}",
            set(1, 0),
            set(2, 1),
            set(4, 2),
            set(3, 4)
        );
        let (_, two) = layout(&two);
        assert_eq!(two.bytes, 5 * 512);
    }

    /// A buffer that a communication reads stays allocated until the issuing stream has waited for the communication.
    #[test]
    fn a_buffer_outlives_its_communication() {
        let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{64}] (DeviceMesh{0 1})) -> (T4_g_float[iS8{2}, iS9{64}] (DeviceMesh{0 1})) :
  T1_g_float[ideviceIdx.x2{2}, iS3{64}] (DeviceMesh{0 1}) = Set( T0_g_float[ideviceIdx.x0{2}, iS1{64}] (DeviceMesh{0 1}), cache_op=Streaming )
  T4_g_float[iS8{2}, iS9{64}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T4_g_float[iS8{2}, iS9{64}] (DeviceMesh{0 1}), mem_type=global, size=128, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T1_g_float[ideviceIdx.x2{2}, iS3{64}] (DeviceMesh{0 1}), output=T4_g_float[iS8{2}, iS9{64}] (DeviceMesh{0 1}), backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";
        let (programs, diags) = hostir::load(text);
        assert!(diags.is_empty(), "{diags:?}");
        let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
        let plan = &prepared.plans[0];
        let items: Vec<FusedInst> = plan.cursor().map(|(id, _)| FusedInst::Inst(id)).collect();
        let wait = plan.iter().position(|inst| inst.kind.awaited_work().is_some());
        let copied = plan.iter().find_map(|inst| match &inst.kind {
            InstKind::Copy { dst, .. } => Some(dst.buffer.0 as usize),
            _ => None,
        });
        let used = buffer_uses(plan, &items)[copied.unwrap()].unwrap();
        assert_eq!((used.last, used.shared), (wait.unwrap(), false));
    }

    #[test]
    fn a_region_reuses_what_ended() {
        let mut region = StreamRegion::default();
        assert_eq!(region.place_buffer(256, 0, 4), 0);
        assert_eq!(region.place_buffer(512, 2, 9), 256);
        assert_eq!(region.place_buffer(256, 5, 6), 0);
        assert_eq!(region.place_buffer(512, 7, 8), 768);
        assert_eq!(region.height, 1280);
    }
}
