//! A sharded axis that becomes the stream axis: the loop moves the data of other devices.

use super::config::{AllgatherMethod, Config, MessageTransport};
use super::loop_body::LoopBody;
use crate::support::builder::{OpBuilder, printed_domain};
use hostir::analysis::MappedAxis;
use hostir::axes::logical_axes;
use hostir::diag::message;
use hostir::diag::{Diag, Message};
use hostir::ir::{
    BinaryOp, DomainId, ExprId, MessageDirection, OpId, ParallelType, Program, TensorId, Transfer, quoted_head,
    quoted_op,
};
use hostir::plan::CollectiveKind;

/// stream-parallel-type: a sharded axis that cannot become the stream axis.
const STREAM_EXCHANGE: &str = "H0329";
/// stream-parallel-type: a backend that does not support the messages of a loop.
const STREAM_BACKEND: &str = "H0332";

/// Gathers one part in each iteration, of an input whose axis is sharded over devices.
pub(super) fn emit_gather(
    body: &mut LoopBody<'_, '_, '_>,
    id: OpId,
    input: TensorId,
    axis: MappedAxis,
) -> Result<(), Diag> {
    let config = body.config;
    let output = check_exchange(body.program(), id, input, axis)?;
    if config.allgather != AllgatherMethod::Broadcast {
        check_messages(body.program(), config, id)?;
    }
    let stream = first_axis(body.program(), output);
    let part = body.slice(output, stream);
    let (index, rank) = (body.build.stream_index_expr(), body.build.name_expr("rank"));
    let [from, to, own] = match config.allgather {
        AllgatherMethod::Broadcast => {
            body.collective(CollectiveKind::Broadcast, input, input, part);
            chain_streams(body);
            return Ok(());
        }
        AllgatherMethod::Pairwise => [index, index, body.build.binary_expr(BinaryOp::Eq, index, rank)],
        AllgatherMethod::Ring => {
            let domain = printed_domain(body.program(), output, stream.printed);
            let to = opposite_rank(body.build, config, domain);
            [body.index, to, body.build.binary_expr(BinaryOp::Eq, to, rank)]
        }
    };
    let zero = body.build.int_expr(0);
    let mine = body.new_slice(input, axis);
    let domain = printed_domain(body.program(), input, axis.printed);
    let copy = vec![body.build.build_select(mine, input, domain, zero), body.build.build_set(part, mine)];
    emit_messages(body, &Swap { received: part, sent: input, from, to, own }, copy);
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
    /// True if the rank works on its own part, and copies instead.
    pub(super) own: ExprId,
}

/// Appends both messages, or the ops of `copy` if the rank works on its own part.
pub(super) fn emit_messages(body: &mut LoopBody<'_, '_, '_>, swap: &Swap, copy: Vec<OpId>) {
    let (build, config) = (&mut *body.build, body.config);
    if !matches!(config.messages, MessageTransport::CudaGet | MessageTransport::CudaPut) {
        // One group: else two ranks could each wait for the other to receive first.
        let start = build.build_start_coalescing();
        let (receive, _) = build.build_p2p(MessageDirection::Recv, swap.received, swap.from, config.backend);
        let (send, _) = build.build_p2p(MessageDirection::Send, swap.sent, swap.to, config.backend);
        let (end, group) = build.build_end_coalescing();
        let messages = vec![start, receive, send, end, build.build_wait(group)];
        return body.ops.push(build.build_branch(swap.own, copy, messages));
    }
    let (receive, received) = build.build_p2p(MessageDirection::Recv, swap.received, swap.from, config.backend);
    let (send, sent) = build.build_p2p(MessageDirection::Send, swap.sent, swap.to, config.backend);
    // Both are on one stream: the initiator's side comes second, else each rank waits for its peer.
    let mut order = [send, receive];
    if config.messages == MessageTransport::CudaPut {
        order = [receive, send];
        for post in order {
            build.set_put_protocol(post);
        }
    }
    let [offer, copies] = order;
    let mut messages = vec![build.build_share_mem_handles(&[receive, send]), offer];
    if config.copy_stream {
        messages.extend(post_on_copy_stream(build, copies));
    } else {
        messages.push(copies);
    }
    messages.push(build.build_wait(received));
    body.ops.push(build.build_branch(swap.own, copy, messages));
    // Nothing in the iteration waits for the end of the send.
    let wait = build.build_wait(sent);
    body.epilogue.push(build.build_branch(swap.own, Vec::new(), vec![wait]));
}

/// Issues an op on the stream that follows the iterations, which waits for this iteration's earlier work.
fn post_on_copy_stream(build: &mut OpBuilder<'_, '_>, post: OpId) -> [OpId; 4] {
    let (worker, streams) = (build.worker_stream_expr(), build.name_expr("numberOfStreams"));
    let there = build.build_set_current_stream(streams);
    let after = build.build_synchronize(worker);
    [there, after, post, build.build_set_current_stream(worker)]
}

/// Makes the next iteration's stream wait for this one's, if the options say so:
/// `IF ( ( StreamIdx + 1 ) < numberOfStreams )`. nvFuser does not wrap around from the last stream to the first.
fn chain_streams(body: &mut LoopBody<'_, '_, '_>) {
    if !body.config.inter_stream_synchronization {
        return;
    }
    let build = &mut *body.build;
    let (index, one, streams) = (build.stream_index_expr(), build.int_expr(1), build.name_expr("numberOfStreams"));
    let next = build.binary_expr(BinaryOp::Add, index, one);
    let worker = build.worker_stream_expr();
    let then = vec![
        build.build_set_current_stream(next),
        build.build_synchronize(worker),
        build.build_set_current_stream(worker),
    ];
    let condition = build.binary_expr(BinaryOp::Lt, next, streams);
    body.ops.push(build.build_branch(condition, then, Vec::new()));
}

/// `( ( ( i0 + rank ) - StreamIdx ) % i0 )`: the rank that works on the own part when this one works on part
/// `( ( rank + StreamIdx ) % i0 )`. If the own part comes last, both are one higher.
pub(super) fn opposite_rank(build: &mut OpBuilder<'_, '_>, config: &Config, domain: DomainId) -> ExprId {
    let (index, rank) = (build.stream_index_expr(), build.name_expr("rank"));
    let stop = build.program().domain(domain).extent;
    let sum = build.binary_expr(BinaryOp::Add, stop, rank);
    let mut difference = build.binary_expr(BinaryOp::Sub, sum, index);
    if config.own_last {
        let one = build.int_expr(1);
        difference = build.binary_expr(BinaryOp::Sub, difference, one);
    }
    build.binary_expr(BinaryOp::Mod, difference, stop)
}

fn first_axis(program: &Program, tensor: TensorId) -> MappedAxis {
    let printed = logical_axes(program, tensor).axes.first().map_or(0, |axis| axis.printed);
    MappedAxis { axis: 0, printed }
}

/// The device types of the axes from `first` on.
pub(super) fn device_shards(program: &Program, tensor: TensorId, first: usize) -> Vec<Option<ParallelType>> {
    let axes = logical_axes(program, tensor).axes;
    axes.iter().skip(first).filter(|axis| !axis.is_reduction()).map(|axis| axis.device_type()).collect()
}

/// Checks that the op is a Set from `[device, ..]` to `[stream, ..]` on devices 0 to D-1; returns its result.
fn check_exchange(program: &Program, id: OpId, input: TensorId, axis: MappedAxis) -> Result<TensorId, Diag> {
    let op = program.op(id);
    let name = program.quoted_tensor(input);
    if op.kind.transfer() != Some(Transfer::Copy) {
        let message = message!(
            "`{}` needs the shards of {} on other devices, but only a `Set` can fetch them",
            quoted_head(op.kind.name()),
            name
        );
        return refuse(
            program,
            id,
            message,
            "insert a `Set` to a stream-parallel tensor before it: --pass=insert-reshardings",
        );
    }
    if axis.axis != 0 {
        let message = message!("the sharded axis of {} is axis {}, but must be the first", name, axis.axis);
        return refuse(program, id, message, "permute the tensor so that the sharded axis is the first");
    }
    let Some(output) = op.output_tensors().next() else {
        return refuse(program, id, "the `Set` has no result tensor".to_owned(), "write its result");
    };
    let first = logical_axes(program, output).axes.first().map(|axis| axis.parallel);
    if first != Some(ParallelType::Stream) {
        let message = message!("the first axis of {} must be stream-parallel", program.quoted_tensor(output));
        return refuse(program, id, message, "permute the result so that the stream-parallel axis is the first");
    }
    if device_shards(program, input, 1) != device_shards(program, output, 1) {
        let message =
            message!("{} and {} are sharded differently after their first axes", name, program.quoted_tensor(output));
        return refuse(program, id, message, shard_difference_note(program, input, output));
    }
    check_devices(program, id, input, output)?;
    Ok(output)
}

/// The error for an op whose parts a loop cannot exchange.
fn refuse<T>(program: &Program, id: OpId, message: impl Into<Message>, note: &str) -> Result<T, Diag> {
    Err(Diag::error(STREAM_EXCHANGE, program.op_span(id), message).with_note(note))
}

/// The repair if two tensors are sharded differently after their first axes.
fn shard_difference_note(program: &Program, input: TensorId, output: TensorId) -> &'static str {
    let (from, to) = (logical_axes(program, input).axes, logical_axes(program, output).axes);
    let turns = from.get(1).is_some_and(|axis| axis.parallel == ParallelType::Stream)
        && to.get(1).is_some_and(|axis| axis.is_sharded());
    if turns {
        "`matmul_reduce_scatter=p2p` needs a `Set` that swaps a device axis and a stream axis"
    } else {
        "change one sharding at a time: insert a `Set` that only gathers before it"
    }
}

/// Both tensors are on devices 0 to D-1.
pub(super) fn check_devices(program: &Program, id: OpId, input: TensorId, output: TensorId) -> Result<(), Diag> {
    let name = program.quoted_tensor(input);
    if program.tensor(input).mesh != program.tensor(output).mesh {
        let message = message!("{} and {} are on different devices", name, program.quoted_tensor(output));
        return refuse(
            program,
            id,
            message,
            "insert a `Set` that moves the tensor before the one that needs the shards of other devices",
        );
    }
    if !program
        .tensor_mesh(input)
        .is_some_and(|mesh| mesh.shape.len() == 1 && mesh.devices.iter().zip(0..).all(|(&device, k)| device == k))
    {
        let message = message!(
            "the devices of {} are not 0, 1, 2, ..., but each iteration uses its number as the rank of its peer",
            name
        );
        return refuse(program, id, message, "use a one-dimensional mesh of consecutive devices from 0");
    }
    Ok(())
}

/// Checks that the backend can carry messages between two ranks.
pub(super) fn check_messages(program: &Program, config: &Config, id: OpId) -> Result<(), Diag> {
    if config.messages != MessageTransport::None {
        return Ok(());
    }
    let message = message!(
        "`{}` needs a send and a receive that start together, which UCC does not support",
        quoted_op(program, id)
    );
    let note = "use `communicator_backend=NCCL` or `CUDA`, or collectives: `allgather=broadcast`, `matmul_reduce_scatter=reduce`";
    Err(Diag::error(STREAM_BACKEND, program.op_span(id), message).with_note(note))
}
