//! The reference of a launch on the CPU, on the memory that its kernel finds.

use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::ir::OpId;
use hostir::lower::PreparedProgram;
use hostir::plan::{
    BufferId, BufferKind, BufferView, Inst, InstKind, InstOrigin, IterationId, LaunchInst, Plan, USER_STREAM, row_major,
};

/// The results of a launch's reference, one for each view that it writes; none without a reference, or if it fails.
/// `memory` has the bytes from the start of a buffer on.
pub(super) fn run_reference<'m>(
    prepared: &PreparedProgram,
    plan: &Plan,
    launch: &LaunchInst,
    memory: impl Fn(BufferId) -> &'m [u8],
) -> Vec<HostTensor> {
    let Some(reference) = &launch.reference else { return Vec::new() };
    let mut own = Plan::default();
    own.streams = 1;
    own.iterations = vec![Default::default()];
    own.buffers = plan.buffers.clone();
    for at in 0..own.buffers.len() {
        own.buffers[BufferId(at as u32)].kind = BufferKind::Temp;
    }
    let mut inputs = Vec::new();
    for view in &launch.reads {
        let buffer = own.buffers[view.buffer].clone();
        if buffer.kind != BufferKind::Temp {
            continue;
        }
        own.buffers[view.buffer].kind = BufferKind::Input(inputs.len() as u32);
        let bytes = &memory(view.buffer)[..buffer.elements * buffer.dtype.byte_size()];
        let Some(tensor) = HostTensor::from_bytes(buffer.dtype, &[buffer.elements], bytes) else { return Vec::new() };
        let dims = row_major(&[buffer.elements]);
        own.inputs.push(Some(BufferView { buffer: view.buffer, offset: 0, dims, dtype: buffer.dtype }));
        inputs.push(tensor);
    }
    let mut written: Vec<BufferId> = launch.writes.iter().map(|view| view.buffer).collect();
    written.sort_unstable();
    written.dedup();
    written.retain(|&buffer| own.buffers[buffer].kind == BufferKind::Temp);
    let origin = InstOrigin { op: OpId(0), iteration: IterationId(0) };
    let allocs = written.into_iter().map(|buffer| InstKind::Alloc { buffer });
    for kind in allocs.chain(reference.iter().cloned()) {
        own.push_inst(Inst { kind, stream: USER_STREAM, origin });
    }
    own.outputs = launch.writes.iter().cloned().map(Some).collect();
    let (empty, plans) = (Vec::new(), vec![own]);
    let alone = PreparedProgram {
        ranks: 1,
        inputs: empty.clone(),
        outputs: empty,
        results: 0,
        plans,
        env: prepared.env.clone(),
        labels: prepared.labels.clone(),
        shards: prepared.shards.clone(),
        time: prepared.time,
        unlowered: false,
        poison: false,
    };
    let outputs = cpu::run_plans(&alone, vec![inputs]).map(|result| result.outputs).unwrap_or_default();
    outputs.into_iter().flatten().flatten().collect()
}
