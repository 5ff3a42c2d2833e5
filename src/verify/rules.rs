//! The functions of the op table: for each row its axis links and its checks.

use super::{comms, index, memory, scalars, shapes, units};
use crate::analysis::{comm_links, gemm_links, index_links, links};

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $module:ident::$relate:ident $(, $checks:ident::$check:ident)*;)*) => {
        $($(#[$doc])* pub mod $name {
            use crate::diag::Diags;
            use crate::ir::{OpId, Program};
            use crate::ops::AxisLink;

            /// Appends the axis links.
            pub fn axes(program: &Program, op: OpId, links: &mut Vec<AxisLink>) {
                // What cannot match is not linked; the verifier says so.
                let _ = super::$module::$relate(program, op, links);
            }
            /// Reports what is wrong.
            pub fn verify(program: &Program, op: OpId, diags: &mut Diags) {
                super::shapes::related(program, op, diags, super::$module::$relate);
                $(super::$checks::$check(program, op, diags);)*
            }
        })*
    };
}

rules! {
    /// Set, SegmenterSet, SymmetricContiguousView, expand, repeat's kin: same axes, same type.
    copy: links::copy, shapes::one_dtype;
    /// Set.Permute, SegmenterSet.Permute.
    permute: links::permute, shapes::one_dtype;
    /// Pointwise ops.
    pointwise: links::pointwise, shapes::pointwise, shapes::integers;
    /// reduction.
    reduction: links::reduction, shapes::one_dtype;
    /// broadcast.
    broadcast: links::broadcast, shapes::one_dtype;
    /// squeeze.
    squeeze: links::squeeze, shapes::one_dtype;
    /// expand.
    expand: links::expand, shapes::one_dtype;
    /// repeat.
    repeat: links::repeat, shapes::one_dtype;
    /// view.
    view: links::view, shapes::one_dtype;
    /// slice.
    slice: links::slice, shapes::one_dtype, shapes::slice_ranges;
    /// pad.
    pad: links::pad, shapes::one_dtype;
    /// cat.
    cat: links::cat, shapes::one_dtype, shapes::cat_dim;
    /// HirAliasSelect, select.
    select: links::select, shapes::one_dtype, shapes::select_index;
    /// ShardByStream.
    shard_by_stream: links::shard_by_stream, shapes::one_dtype;
    /// matmul.
    matmul: gemm_links::matmul, shapes::product_dtypes;
    /// linear.
    linear: gemm_links::linear, shapes::product_dtypes;
    /// indexSelect.
    index_select: index_links::select, index::gather;
    /// takeAlongAxis.
    take_along_axis: index_links::take_along, index::gather;
    /// torchGather.
    torch_gather: index_links::gather, index::fits;
    /// indexPutAccumulate.
    index_put: index_links::put, index::put;
    /// Communication.
    communication: comm_links::communication, shapes::one_dtype, comms::communication;
    /// CollectivePermute.
    collective_permute: comm_links::permute, shapes::one_dtype, comms::permute;
    /// P2PCommunication.
    p2p: links::none, comms::p2p;
    /// PostOnStream.
    post: links::post, units::post;
    /// ALLOCATE.
    allocate: links::none, memory::allocate;
    /// FOR.
    loops: links::none, scalars::loop_bounds, scalars::empty_block;
    /// IF.
    branch: links::none, scalars::empty_block;
}
