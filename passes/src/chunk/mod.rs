//! chunk: splits an axis into chunks, so that a program can be distributed over streams.
//!
//! [`class`] finds all axes that correspond to the named one and checks that every op can work on chunks of it;
//! [`rewrite`] adds a leading axis that counts chunks to their tensors.

mod class;
mod rewrite;

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use class::{ChunkOptions, ChunkedAxes};
use hostir::analysis::storage::is_tensor_name;
use hostir::diag::{Diag, Diags, Message};
use hostir::ir::edit::Edit;
use hostir::ir::{OpId, Program, TensorId};
use rewrite::ChunkRewriter;

/// chunk: an option that names an unknown axis.
const CHUNK_AXIS: &str = "H0386";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "chunk",
    summary: "Split an axis into chunks, and merge the chunks in the outputs",
    description: "\
`axis=T0.1` names axis 1 of T0 (a position among the stored axes, from 0). That axis, and every axis that ops
link to it, becomes two: a first axis that counts `factor` chunks, and in its old place the axis within a
chunk. Inputs and outputs keep their types: a view and, where the axis is not the first, a permutation split
inputs before their first use and merge outputs at the end.

With `parallel=stream` the chunk axis of every possible result is stream-parallel, and `stream-parallel-type`
turns the program into a loop over chunks. The chunk axis comes first, so that chunks are contiguous in memory
and a gathered axis right after it is the outermost of a chunk.

- Copies, permutations, pointwise ops, reductions, broadcasts, slices, pads and joins of other axes, and views
  that leave the axis whole, work on chunks without changes; operands without the axis get a broadcast one.
- A matmul is split along M, N or a batch axis, and becomes a batched one. Split along K it becomes `factor`
  partial GEMMs and a reduction that sums them: results may differ in the last bits.
- A `linear` is split along the leading axes of its first operand.
- A reduction of the axis reduces both axes.

The pass rejects axes that are sharded over devices, broadcasts, extents that `factor` does not divide (for a
named extent the run reports it), tensors of which two axes correspond to the named one, and programs that are
already lowered.

The example is `chunk{axis=T0.0,factor=4,parallel=stream}`.",
    example: Some(PassExample {
        options: "{axis=T0.0,factor=4,parallel=stream}",
        before: EXAMPLE_BEFORE,
        after: EXAMPLE_AFTER,
    }),
    options: &[
        OptionSpec {
            name: "axis",
            ty: OptionType::Word,
            default: None,
            help: "Axis to split: a tensor and a position among its axes, `T0.1`",
        },
        OptionSpec {
            name: "factor",
            ty: OptionType::Int { min: 1, max: 1 << 32 },
            default: None,
            help: "The number of chunks",
        },
        OptionSpec {
            name: "parallel",
            ty: OptionType::Choice(&["serial", "stream"]),
            default: Some("serial"),
            help: "The parallel type of the chunk axis of results",
        },
    ],
    statistics: &[
        StatisticSpec { name: "tensors-chunked", help: "tensors with a chunk axis" },
        StatisticSpec { name: "ops-chunked", help: "ops that process chunks" },
    ],
    action: PassAction::Rewrite(run_chunk),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{8}, iS1{i1}], T1_g_float[iS2{i1}, iS3{i3}]) -> (T2_g_float[iS4{8}, iS5{i3}, rS6{i1}]) :
  T2
     = matmul(T0, T1)
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{8}, iS1{i1}], T1_g_float[iS2{i1}, iS3{i3}]) -> (T2_g_float[iS4{8}, iS5{i3}, rS6{i1}]) :
  T3_l_float[iS7{4}, iS8{2}, iS9{i1}] = view( T0 )
  T4_l_float[iStreamIdx10{4}, iS11{2}, iS12{i3}, rS13{i1}]
     = matmul(T3, T1)
  T2 = view( T4 )
} // %HostIrContainer
";

fn run_chunk(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let options = cx.options();
    let config =
        ChunkOptions { factor: options.int_value("factor"), stream: options.word_value("parallel") == "stream" };
    let (tensor, axis) = match named_axis(edit.program(), options.word_value("axis")) {
        Ok(named) => named,
        Err(diag) => {
            cx.reject_options(&["axis"], *diag);
            return Err(Diags::default());
        }
    };
    let class = ChunkedAxes::new(edit.program(), tensor, axis, config)?;
    let body = edit.program().body();
    let ops: Vec<OpId> = edit.program().block(body).ops.clone();
    let mut build = OpBuilder::new(edit);
    let mut rewriter = ChunkRewriter::new(&mut build, &class, config);
    for &op in &ops {
        rewriter.rewrite_op(op);
    }
    let done = rewriter.finish();
    edit.set_block(body, done.ops);
    done.moved.apply_to_ops(edit);
    cx.add_count("tensors-chunked", done.tensors);
    cx.add_count("ops-chunked", done.changed);
    Ok(())
}

/// The tensor and the logical position of `T0.1`.
fn named_axis(program: &Program, text: &str) -> Result<(TensorId, u32), Box<Diag>> {
    let parts = text.rsplit_once('.');
    let parts = parts.and_then(|(tensor, at)| Some((tensor, at.parse::<usize>().ok()?)));
    let Some((name, at)) = parts else {
        let note = "write a tensor and a position among its axes, such as `axis=T0.1`".to_owned();
        return Err(chunk_axis_error(format!("`{text}` is not an axis"), note));
    };
    let Some(tensor) = class::host_tensors(program).find(|&t| is_tensor_name(program, t, name)) else {
        let note = "use an input, an output, or a result of an op of the host program".to_owned();
        return Err(chunk_axis_error(format!("the program has no tensor `{name}`"), note));
    };
    let stored = hostir::axes::logical_axes(program, tensor).stored_positions();
    match stored.get(at) {
        Some(&axis) => Ok((tensor, axis)),
        None => {
            let note = match stored.len() {
                0 => "use a tensor with axes".to_owned(),
                count => format!("valid axes are 0 to {}", count - 1),
            };
            Err(chunk_axis_error(format!("{name} has no axis {at}"), note))
        }
    }
}

fn chunk_axis_error(message: impl Into<Message>, note: String) -> Box<Diag> {
    Box::new(Diag::global_error(CHUNK_AXIS, message).with_note(note))
}
