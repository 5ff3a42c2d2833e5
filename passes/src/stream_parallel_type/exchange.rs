//! A sharded axis that becomes the stream axis: what other devices hold is moved in the loop.

use super::Config;
use super::body::{self, Sliced, Slices};
use crate::build::{Build, domain_id};
use crate::codes;
use hostir::analysis::logical_axes;
use hostir::diag::Diag;
use hostir::ir::{OpId, ParallelType, Program, TensorId};
use hostir::ops::OpKind;

/// In iteration i every rank exchanges its part with rank i; rank i copies its own.
pub(super) fn pairwise(
    build: &mut Build<'_, '_>,
    config: &Config,
    id: OpId,
    (input, axis): (TensorId, Sliced),
    slices: &mut Slices,
    out: &mut Vec<OpId>,
) -> Result<(), Diag> {
    let output = check(build.program(), id, input, axis)?;
    let stream = first_axis(build.program(), output);
    let part = body::slice(build, output, stream, slices, out);
    let (index, rank, zero) = (build.stream_index(), build.name("rank"), build.int(0));
    let own = body::new_slice(build, input, axis);
    let own_domain = domain_id(build.program(), input, axis.printed);
    let copy = vec![build.select(own, input, own_domain, zero), build.set(part, own)];
    let start = build.start_coalescing();
    let (receive, _) = build.p2p(true, part, index, &config.backend);
    let (send, _) = build.p2p(false, input, index, &config.backend);
    let (end, group) = build.end_coalescing();
    let exchange = vec![start, receive, send, end, build.wait(group)];
    out.push(build.if_equal((index, rank), copy, exchange));
    Ok(())
}

fn first_axis(program: &Program, tensor: TensorId) -> Sliced {
    let printed = logical_axes(program, tensor).axes.first().map_or(0, |axis| axis.printed);
    Sliced { axis: 0, printed }
}

/// The op is a Set from `[device, ..]` to `[stream, ..]` on devices 0 to D-1; gives its result.
fn check(program: &Program, id: OpId, input: TensorId, axis: Sliced) -> Result<TensorId, Diag> {
    let op = program.op(id);
    let error = |message: String, note: &str| {
        Err(Diag::error(codes::STREAM_EXCHANGE, program.op_span(id), message).note(note))
    };
    let name = program.tensor_name(input);
    if op.kind != OpKind::Set {
        let message = format!(
            "`{}` needs the parts of {name} that other devices hold; only a `Set` can fetch them",
            op.kind.spec().name
        );
        return error(
            message,
            "insert a `Set` to a stream-parallel tensor before it: --pass=insert-reshardings",
        );
    }
    if axis.axis != 0 {
        let message =
            format!("the sharded axis of {name} is axis {}; it has to be the first", axis.axis);
        return error(message, "permute the tensor so that the sharded axis comes first");
    }
    let Some(output) = op.output_tensors().next() else {
        return error("the `Set` has no tensor as result".to_owned(), "write its result");
    };
    let first = logical_axes(program, output).axes.first().map(|axis| axis.parallel);
    if first != Some(ParallelType::Stream) {
        let message = format!(
            "the first axis of {} has to be the stream-parallel one",
            program.tensor_name(output)
        );
        return error(message, "permute the result so that the stream-parallel axis comes first");
    }
    let mesh = program.tensor_mesh(input);
    if mesh.is_none_or(|mesh| mesh.devices.iter().zip(0..).any(|(&device, k)| device != k)) {
        let message = format!(
            "the devices of {name} are not 0, 1, 2, ...: the iteration's number is the peer's rank"
        );
        return error(message, "use a mesh that starts at device 0 and leaves none out");
    }
    Ok(output)
}
