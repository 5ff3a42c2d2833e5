//! ring-stream-buffers: gives intermediates of a loop over streams a slot for each stream instead of a slice for each
//! iteration.
//!
//! [`buffers`] finds buffers that one loop slices, [`order`] proves that a slot is free when its stream uses it again.

mod buffers;
mod order;

use crate::framework::options::{OptionSpec, OptionType};
use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::builder::OpBuilder;
use buffers::{KeepReason, LoopBuffer, TensorUses};
use hostir::analysis::storage::is_tensor_name;
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{AttrKey, AttrValue, BinaryOp, Expr, ExprId, IterDomain, OpId, Program, TensorId};

/// ring-stream-buffers: an option that names an unknown tensor.
const RING_BUFFER: &str = "H0390";
/// ring-stream-buffers: a buffer that must keep a slice per iteration.
const RING_STAYS: &str = "H0391";

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "ring-stream-buffers",
    summary: "Shorten intermediates of stream loops to one slot for each stream",
    description: "\
`stream-parallel-type` allocates every result of a loop with its whole stream axis. An intermediate that only
the iteration that wrote a slice reads needs no more than `numberOfStreams` slices: the stream axis becomes
`fmin(i0, numberOfStreams)` long, and iteration i uses slot `i % numberOfStreams`. Iterations that share a
slot share a stream, so the next one starts to write after the last one has read.

A buffer is shortened if

- the program allocates it once, before the loop, without clearing it, and it is neither input nor output;
- it is used only by slices in one loop of the body, along one axis and with one index;
- each iteration writes the whole slice, on every path, before anything reads it;
- every use of the slice is on stream `StreamIdx % numberOfStreams`, and every send or receive of it is waited
  for there, in the iteration;
- no other rank can access it (`backend=CUDA` messages, symmetric memory).

Other buffers do not change, and `--remarks` says why. A buffer that `buffers=` names must be shortened;
otherwise it is an error.",
    example: Some(PassExample { options: "", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: &[OptionSpec {
        name: "buffers",
        ty: OptionType::Words,
        default: Some("{}"),
        help: "Shorten these tensors only; an error if one cannot be",
    }],
    statistics: &[StatisticSpec { name: "buffers-shortened", help: "buffers with a slot per stream" }],
    action: PassAction::Rewrite(run_ring_stream_buffers),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i0}, iS3{i1}]) -> () :
  T2_g_float[iStreamIdx4{i0}, iS5{i1}] = ALLOCATE(buffer=T2, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
  FOR StreamIdx in iStreamIdx6{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T3_l_float[iS7{i1}]
       = HirAliasSelect( T0, axis = iS0{i0}, index = StreamIdx )
    T4_l_float[iS8{i1}]
       = HirAliasSelect( T2, axis = iStreamIdx4{i0}, index = StreamIdx )
    T4
       = Set( T3, cache_op=Streaming )
    T5_l_float[iS9{i1}]
       = HirAliasSelect( T1, axis = iS2{i0}, index = StreamIdx )
    T5
       = relu(T4);
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}], T1_g_float[iS2{i0}, iS3{i1}]) -> () :
  T2_g_float[iStreamIdx4{( fmin(i0, numberOfStreams) )}, iS5{i1}] = ALLOCATE(buffer=T2, mem_type=global, size=( ( fmin(i0, numberOfStreams) ) * i1 ), zero_init=false, resets_to_zero=false)
  FOR StreamIdx in iStreamIdx6{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T3_l_float[iS7{i1}]
       = HirAliasSelect( T0, axis = iS0{i0}, index = StreamIdx )
    T4_l_float[iS8{i1}]
       = HirAliasSelect( T2, axis = iStreamIdx4{( fmin(i0, numberOfStreams) )}, index = ( StreamIdx % numberOfStreams ) )
    T4
       = Set( T3, cache_op=Streaming )
    T5_l_float[iS9{i1}]
       = HirAliasSelect( T1, axis = iS2{i0}, index = StreamIdx )
    T5
       = relu(T4);
} // %HostIrContainer
";

fn run_ring_stream_buffers(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let named = named_buffers(edit.program(), cx)?;
    let uses = TensorUses::new(edit.program());
    let (mut buffers, mut refused) = (Vec::new(), Vec::new());
    let program = edit.program();
    let mut seen: Vec<TensorId> = uses.sliced.clone();
    seen.extend(named.iter().filter(|tensor| !uses.sliced.contains(tensor)));
    for &tensor in seen.iter().filter(|t| named.is_empty() || named.contains(t)) {
        match uses.match_buffer(program, tensor) {
            Ok(Some(buffer)) => buffers.push(buffer),
            Ok(None) => {}
            Err(reason) => refused.push((tensor, reason)),
        }
    }
    let mut shortened = Vec::new();
    for (buffer, reason) in order::check_buffers(program, &uses, buffers) {
        match reason {
            None => shortened.push(buffer),
            Some(reason) => refused.push((buffer.tensor, reason)),
        }
    }
    let mut diags = Diags::default();
    for (tensor, reason) in refused {
        match named.is_empty() {
            true => cx.add_remark(|| unchanged_remark(program, tensor, &reason)),
            false => diags.push(unchanged_remark(program, tensor, &reason)),
        }
    }
    diags.or_value(())?;
    cx.add_count("buffers-shortened", shortened.len() as u64);
    shortened.iter().for_each(|buffer| shorten_buffer(edit, buffer));
    Ok(())
}

/// The tensors that the option names.
fn named_buffers(program: &Program, cx: &mut PassCx<'_>) -> Result<Vec<TensorId>, Diags> {
    let mut found = Vec::new();
    let mut failed = false;
    for text in cx.options().word_list("buffers") {
        let mut tensors = program.tensors().ids();
        match tensors.find(|&id| program.tensor(id).unit.is_none() && is_tensor_name(program, id, text)) {
            Some(tensor) => found.push(tensor),
            None => {
                let message = message!("the program has no tensor `{}`", text);
                let note = "`buffers=` must list tensors that the program allocates";
                failed = true;
                cx.reject_options(&["buffers"], Diag::global_error(RING_BUFFER, message).with_note(note));
            }
        }
    }
    if failed { Err(Diags::default()) } else { Ok(found) }
}

fn unchanged_remark(program: &Program, tensor: TensorId, (op, why): &KeepReason) -> Diag {
    let name = program.quoted_tensor(tensor);
    let message = message!("{} keeps a slice per iteration: {}", name, why);
    Diag::error(RING_STAYS, program.op_span(*op), message)
        .with_note("one slot per stream suffices only if each iteration writes and reads its slice on its own stream")
}

fn shorten_buffer(edit: &mut Edit<'_>, buffer: &LoopBuffer) {
    let mut build = OpBuilder::new(edit);
    let Some(index) = build.program().op(buffer.looped).expr_attr(AttrKey::Index) else { return };
    let streams = build.name_expr("numberOfStreams");
    let slot = build.binary_expr(BinaryOp::Mod, index, streams);
    let domain = *build.program().domain(buffer.axis);
    let min = build.edit.intern_name("min");
    let extent = build.edit.intern_expr(Expr::Call(min, [domain.extent, streams].into_iter().collect()));
    build.edit.set_domain(buffer.axis, IterDomain { extent, ..domain });
    for &select in &buffer.selects {
        set_expr(&mut build, select, AttrKey::Index, slot);
    }
    if build.program().op(buffer.allocate).attr(AttrKey::Size).is_some() {
        let size = build.element_count_expr(buffer.tensor);
        set_expr(&mut build, buffer.allocate, AttrKey::Size, size);
    }
}

fn set_expr(build: &mut OpBuilder<'_, '_>, id: OpId, key: AttrKey, expr: ExprId) {
    let mut op = build.program().op(id).clone();
    op.set_attr(key, &AttrValue::Expr(expr));
    build.edit.set_op(id, op);
}
