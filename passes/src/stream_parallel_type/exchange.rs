//! A sharded axis that becomes the stream axis: what other devices hold is moved in the loop.

use super::config::{Allgather, Config, Messages};
use super::loop_body::LoopBody;
use crate::support::builder::{Build, domain_id};
use hostir::analysis::MappedAxis;
use hostir::axes::logical_axes;
use hostir::diag::Diag;
use hostir::ir::OpKind;
use hostir::ir::{BinaryOp, DomainId, ExprId, OpId, ParallelType, Program, TensorId};

/// stream-parallel-type: a sharded axis that cannot become the stream axis.
const STREAM_EXCHANGE: &str = "H0329";
/// stream-parallel-type: a backend that cannot carry the messages of a loop.
const STREAM_BACKEND: &str = "H0332";

/// Gathers one part in each iteration, of an input whose axis lies across devices.
pub(super) fn gather(
    body: &mut LoopBody<'_, '_, '_>,
    id: OpId,
    input: TensorId,
    axis: MappedAxis,
) -> Result<(), Diag> {
    let config = body.config;
    let output = check(body.program(), id, input, axis)?;
    if config.allgather != Allgather::Broadcast {
        check_messages(body.program(), config, id)?;
    }
    let stream = first_axis(body.program(), output);
    let part = body.slice(output, stream);
    let (index, rank) = (body.build.stream_index(), body.build.name("rank"));
    let [from, to, own] = match config.allgather {
        Allgather::Broadcast => {
            body.collective("Broadcast", input, input, part);
            chain_streams(body);
            return Ok(());
        }
        Allgather::Pairwise => [index, index, body.build.binary(BinaryOp::Eq, index, rank)],
        Allgather::Ring => {
            let domain = domain_id(body.program(), output, stream.printed);
            let to = opposite(body.build, config, domain);
            [body.index, to, body.build.binary(BinaryOp::Eq, to, rank)]
        }
    };
    let zero = body.build.int(0);
    let mine = body.new_slice(input, axis);
    let domain = domain_id(body.program(), input, axis.printed);
    let copy = vec![body.build.select(mine, input, domain, zero), body.build.set(part, mine)];
    messages(body, &Swap { received: part, sent: input, from, to, own }, copy);
    chain_streams(body);
    Ok(())
}

/// One message that a rank receives in an iteration, and one that it sends.
pub(super) struct Swap {
    pub(super) received: TensorId,
    pub(super) sent: TensorId,
    /// The rank that sends to this one.
    pub(super) from: ExprId,
    /// The rank that receives from this one.
    pub(super) to: ExprId,
    /// True where the rank works on its own part, and copies instead.
    pub(super) own: ExprId,
}

/// Appends both messages, or the ops of `copy` where the rank works on its own part.
pub(super) fn messages(body: &mut LoopBody<'_, '_, '_>, swap: &Swap, copy: Vec<OpId>) {
    let (build, config) = (&mut *body.build, body.config);
    if !matches!(config.messages, Messages::CudaGet | Messages::CudaPut) {
        // One group: else two ranks could each wait for the other to receive first.
        let start = build.start_coalescing();
        let (receive, _) = build.p2p(true, swap.received, swap.from, &config.backend);
        let (send, _) = build.p2p(false, swap.sent, swap.to, &config.backend);
        let (end, group) = build.end_coalescing();
        let messages = vec![start, receive, send, end, build.wait(group)];
        return body.ops.push(build.branch(swap.own, copy, messages));
    }
    let (receive, received) = build.p2p(true, swap.received, swap.from, &config.backend);
    let (send, sent) = build.p2p(false, swap.sent, swap.to, &config.backend);
    // Both are on one stream: the side that copies comes second, else each rank waits for its peer.
    let mut order = [send, receive];
    if config.messages == Messages::CudaPut {
        order = [receive, send];
        for post in order {
            build.put(post);
        }
    }
    let [offer, copies] = order;
    let mut messages = vec![build.share_mem_handles(&[receive, send]), offer];
    if config.copy_stream {
        messages.extend(on_copy_stream(build, copies));
    } else {
        messages.push(copies);
    }
    messages.push(build.wait(received));
    body.ops.push(build.branch(swap.own, copy, messages));
    // Nothing in the iteration needs what was sent to be gone.
    let wait = build.wait(sent);
    body.epilogue.push(build.branch(swap.own, Vec::new(), vec![wait]));
}

/// Posts an op on the stream behind those of the iterations, which waits for what this iteration has done so far.
fn on_copy_stream(build: &mut Build<'_, '_>, post: OpId) -> [OpId; 4] {
    let (worker, streams) = (build.worker_stream(), build.name("numberOfStreams"));
    let there = build.set_current_stream(streams);
    let behind = build.synchronize(worker);
    [there, behind, post, build.set_current_stream(worker)]
}

/// Makes the next iteration's stream wait for this one's, if the options say so: `IF ( ( StreamIdx + 1 ) < numberOfStreams )`. nvFuser
/// does not go round from the last stream to the first.
fn chain_streams(body: &mut LoopBody<'_, '_, '_>) {
    if !body.config.inter_stream_synchronization {
        return;
    }
    let build = &mut *body.build;
    let (index, one, streams) = (build.stream_index(), build.int(1), build.name("numberOfStreams"));
    let next = build.binary(BinaryOp::Add, index, one);
    let worker = build.worker_stream();
    let then = vec![
        build.set_current_stream(next),
        build.synchronize(worker),
        build.set_current_stream(worker),
    ];
    let condition = build.binary(BinaryOp::Lt, next, streams);
    body.ops.push(build.branch(condition, then, Vec::new()));
}

/// `( ( ( i0 + rank ) - StreamIdx ) % i0 )`: the rank that works on the own part when this one works on part
/// `( ( rank + StreamIdx ) % i0 )`. If the own part comes last, both are one further.
pub(super) fn opposite(build: &mut Build<'_, '_>, config: &Config, domain: DomainId) -> ExprId {
    let (index, rank) = (build.stream_index(), build.name("rank"));
    let stop = build.program().domain(domain).extent;
    let sum = build.binary(BinaryOp::Add, stop, rank);
    let mut difference = build.binary(BinaryOp::Sub, sum, index);
    if config.own_last {
        let one = build.int(1);
        difference = build.binary(BinaryOp::Sub, difference, one);
    }
    build.binary(BinaryOp::Mod, difference, stop)
}

fn first_axis(program: &Program, tensor: TensorId) -> MappedAxis {
    let printed = logical_axes(program, tensor).axes.first().map_or(0, |axis| axis.printed);
    MappedAxis { axis: 0, printed }
}

/// The device types of the axes from `first` on.
pub(super) fn shards(
    program: &Program,
    tensor: TensorId,
    first: usize,
) -> Vec<Option<ParallelType>> {
    let axes = logical_axes(program, tensor).axes;
    axes.iter().skip(first).filter(|axis| !axis.is_reduction()).map(|axis| axis.device()).collect()
}

/// The op is a Set from `[device, ..]` to `[stream, ..]` on devices 0 to D-1; gives its result.
fn check(program: &Program, id: OpId, input: TensorId, axis: MappedAxis) -> Result<TensorId, Diag> {
    let op = program.op(id);
    let name = program.tensor_name(input);
    if op.kind != OpKind::Set {
        let message = format!(
            "`{}` needs the parts of {name} that other devices hold; only a `Set` can fetch them",
            op.kind.name()
        );
        return refuse(
            program,
            id,
            message,
            "insert a `Set` to a stream-parallel tensor before it: --pass=insert-reshardings",
        );
    }
    if axis.axis != 0 {
        let message =
            format!("the sharded axis of {name} is axis {}; it has to be the first", axis.axis);
        return refuse(
            program,
            id,
            message,
            "permute the tensor so that the sharded axis comes first",
        );
    }
    let Some(output) = op.output_tensors().next() else {
        return refuse(
            program,
            id,
            "the `Set` has no tensor as result".to_owned(),
            "write its result",
        );
    };
    let first = logical_axes(program, output).axes.first().map(|axis| axis.parallel);
    if first != Some(ParallelType::Stream) {
        let message = format!(
            "the first axis of {} has to be the stream-parallel one",
            program.tensor_name(output)
        );
        return refuse(
            program,
            id,
            message,
            "permute the result so that the stream-parallel axis comes first",
        );
    }
    if shards(program, input, 1) != shards(program, output, 1) {
        let message = format!(
            "{name} and {} are sharded differently behind their first axes",
            program.tensor_name(output)
        );
        return refuse(program, id, message, different_shards(program, input, output));
    }
    check_devices(program, id, input, output)?;
    Ok(output)
}

/// The error for an op that a loop cannot exchange parts for.
fn refuse<T>(program: &Program, id: OpId, message: String, note: &str) -> Result<T, Diag> {
    Err(Diag::error(STREAM_EXCHANGE, program.op_span(id), message).note(note))
}

/// The repair where two tensors are sharded differently behind their first axes.
fn different_shards(program: &Program, input: TensorId, output: TensorId) -> &'static str {
    let (from, to) = (logical_axes(program, input).axes, logical_axes(program, output).axes);
    let turns = from.get(1).is_some_and(|axis| axis.parallel == ParallelType::Stream)
        && to.get(1).is_some_and(|axis| axis.is_sharded());
    if turns {
        "`matmul_reduce_scatter=p2p` takes a `Set` that turns a device and a stream axis round"
    } else {
        "change one sharding at a time: insert a `Set` that only gathers before it"
    }
}

/// Both tensors lie on devices 0 to D-1.
pub(super) fn check_devices(
    program: &Program,
    id: OpId,
    input: TensorId,
    output: TensorId,
) -> Result<(), Diag> {
    let name = program.tensor_name(input);
    if program.tensor(input).mesh != program.tensor(output).mesh {
        let message =
            format!("{name} and {} lie on different devices", program.tensor_name(output));
        return refuse(
            program,
            id,
            message,
            "insert a `Set` that moves the tensor before the one that needs other devices' parts",
        );
    }
    if !program.tensor_mesh(input).is_some_and(|mesh| {
        mesh.shape.len() == 1 && mesh.devices.iter().zip(0..).all(|(&device, k)| device == k)
    }) {
        let message = format!(
            "the devices of {name} are not a row 0, 1, 2, ...: the iteration's number is the peer's rank"
        );
        return refuse(
            program,
            id,
            message,
            "use a mesh of one axis that starts at device 0 and leaves none out",
        );
    }
    Ok(())
}

/// The backend can carry messages between two ranks.
pub(super) fn check_messages(program: &Program, config: &Config, id: OpId) -> Result<(), Diag> {
    if config.messages != Messages::None {
        return Ok(());
    }
    let message = format!(
        "`{}` needs a send and a receive that start together, which UCC does not have",
        hostir::ir::name_of(program, id)
    );
    let note = "use `communicator_backend=NCCL` or `CUDA`, or collectives: `allgather=broadcast`, `matmul_reduce_scatter=reduce`";
    Err(Diag::error(STREAM_BACKEND, program.op_span(id), message).note(note))
}
