//! Ops of scheduled kernels: products of tensor cores, copies between the memories of a block, dependencies of grids.
//!
//! nvFuser prints them, and a program can hold them; no host runs one alone, outside of its kernel.

use super::spec::{ArgKind, ArgSpec, Infer, Lower, OpSpec};
use crate::diag::message;
use crate::diag::{Diag, codes};
use crate::ir::{AttrKey, CallPadding, OpEffect, OpId, OpIdentity, OpLayout, quoted_head};
use crate::plan::PlanBuilder;

/// `mma`.
pub const MMA: OpSpec = OpSpec {
    identity: OpIdentity { name: "mma", layout: OpLayout::Aligned, ..OpIdentity::TENSOR_OP },
    args: &[ArgSpec::operand(ArgKind::Tensor), ArgSpec::operand(ArgKind::Tensor)],
    ..kernel_op("mma", "Multiplies two tiles of matrices in a kernel.")
};

/// `LdMatrix`.
pub const LD_MATRIX: OpSpec = kernel_op("LdMatrix", "Loads tiles of a matrix from shared memory in a kernel.");
/// `LdMatrix.Permute`.
pub const LD_MATRIX_PERMUTE: OpSpec =
    kernel_op("LdMatrix.Permute", "Loads tiles of a matrix from shared memory in a kernel, and permutes axes.");
/// `StMatrix`.
pub const ST_MATRIX: OpSpec = kernel_op("StMatrix", "Stores tiles of a matrix to shared memory in a kernel.");
/// `StMatrix.Permute`.
pub const ST_MATRIX_PERMUTE: OpSpec =
    kernel_op("StMatrix.Permute", "Stores tiles of a matrix to shared memory in a kernel, and permutes axes.");
/// `CpAsync`.
pub const CP_ASYNC: OpSpec = OpSpec {
    args: &[
        ArgSpec::operand(ArgKind::Tensor),
        ArgSpec::tight("cache_op", AttrKey::CacheOp, ArgKind::Word(CACHE_WORDS)).optional(),
    ],
    ..kernel_op("CpAsync", "Copies to shared memory in a kernel, without waiting.")
};
/// `CpAsyncBulk`.
pub const CP_ASYNC_BULK: OpSpec =
    kernel_op("CpAsyncBulk", "Copies a range between shared and global memory in a kernel, without waiting.");
/// `CpAsyncBulkTensorTile`.
pub const CP_ASYNC_BULK_TENSOR_TILE: OpSpec = kernel_op(
    "CpAsyncBulkTensorTile",
    "Copies a tile of a tensor between shared and global memory in a kernel, without waiting.",
);
/// `LdTMem`.
pub const LD_TMEM: OpSpec = kernel_op("LdTMem", "Loads from tensor memory in a kernel.");
/// `StTMem`.
pub const ST_TMEM: OpSpec = kernel_op("StTMem", "Stores to tensor memory in a kernel.");

/// `launchDependentGrid`.
pub const LAUNCH_DEPENDENT_GRID: OpSpec = OpSpec {
    identity: OpIdentity { name: "launchDependentGrid", ..GRID },
    args: GRID_ARGS,
    ..kernel_op("launchDependentGrid", "Lets the next kernel begin, in a kernel.")
};
/// `waitForPriorGrid`.
pub const WAIT_FOR_PRIOR_GRID: OpSpec = OpSpec {
    identity: OpIdentity { name: "waitForPriorGrid", ..GRID },
    args: GRID_ARGS,
    ..kernel_op("waitForPriorGrid", "Waits for the memory of the kernel before, in a kernel.")
};

const ONE_TENSOR: &[ArgSpec] = &[ArgSpec::operand(ArgKind::Tensor)];
/// Words of `cache_op=` of a copy in a kernel.
const CACHE_WORDS: &[&str] = &["AllLevels", "Streaming", "Global"];

/// Ops on grids order kernels: they act on more than their result.
const GRID: OpIdentity =
    OpIdentity { layout: OpLayout::OneLine(CallPadding::Tight), effect: OpEffect::Opaque, ..OpIdentity::TENSOR_OP };
const GRID_ARGS: &[ArgSpec] = &[ArgSpec::operand(ArgKind::Operand).repeated().optional()];

/// The row of an op of one operand.
const fn kernel_op(name: &'static str, summary: &'static str) -> OpSpec {
    OpSpec {
        identity: OpIdentity { name, ..OpIdentity::TENSOR_OP },
        spellings: &[],
        summary,
        args: ONE_TENSOR,
        relate: None,
        infer: Infer::Written,
        checks: &[],
        repair: None,
        lower: Lower::Instructions(refuse_kernel_op),
    }
}

/// The error for an op that only runs inside of its kernel.
fn refuse_kernel_op(cx: &mut PlanBuilder<'_>, id: OpId) -> Result<(), Diag> {
    let name = quoted_head(cx.program.op(id).kind.name());
    let message = message!("`{}` is a part of a kernel: a host program cannot run it alone", name);
    let note = "write the computation of the kernel with ops of tensors, such as `matmul` and `Set`";
    Err(cx.error_here(codes::KERNEL_OP, message).with_note(note))
}
