//! The requirements of attention on its tensors beyond paired axes: element types, contracted extents, heads, masks.

use super::attributes::{CAUSAL_NOTE, written_causal};
use crate::axes::logical_axes;
use crate::diag::message;
use crate::diag::{Diag, Diags, codes};
use crate::ir::places::with_declaration;
use crate::ir::{AxisLink, DType, Op, OpId, Program, TensorId, Value, quoted_op, quoted_type};
use crate::ops::tensor_checks::{check_equal_dtypes, check_link_extents};

/// An axis of a tensor, counted from its last stored one, which is 1.
type PlaceFromEnd = (TensorId, usize);

/// `sdpa`.
pub(super) fn check_sdpa(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let (Some([query, key, value]), Some([out, lse, seed, offset])) = (operands(op), results(op)) else { return };
    check_types(program, id, [query, key, value, out], diags);
    require_type(program, id, lse, DType::Float, "the logarithms of", diags);
    for state in [seed, offset] {
        check_state_type(program, id, state, diags);
    }
    let contracted = [((query, 1), (key, 1)), ((key, 2), (value, 2)), ((value, 1), (out, 1))];
    check_extents(program, id, &contracted, diags);
    if written_causal(program, op) != Some(false) {
        check_extents(program, id, &[((query, 2), (out, 2)), ((query, 2), (lse, 1))], diags);
    }
    check_heads(program, id, [query, key, value], diags);
    if has_groups(program, query, key) {
        check_extents(program, id, &[((query, 3), (out, 3)), ((query, 3), (lse, 2))], diags);
    }
    check_triangle(program, id, query, key, diags);
    for (word, term) in ["bias", "mask"].into_iter().filter_map(|word| Some((word, term_operand(op, word)?))) {
        check_term_type(program, id, word, term, query, diags);
        check_term_shape(program, id, word, term, [query, key], diags);
    }
}

/// `sdpa_bwd`.
pub(super) fn check_sdpa_bwd(program: &Program, id: OpId, diags: &mut Diags) {
    let op = program.op(id);
    let (Some([grad, query, key, value, out, lse, seed, offset]), Some([by_query, by_key, by_value])) =
        (operands(op), results(op))
    else {
        return;
    };
    check_types(program, id, [query, key, value, out], diags);
    for other in [grad, by_query, by_key, by_value] {
        check_equal_dtypes(program, id, query, other, diags);
    }
    require_type(program, id, lse, DType::Float, "the logarithms of", diags);
    for state in [seed, offset] {
        check_state_type(program, id, state, diags);
    }
    let contracted = [((query, 1), (key, 1)), ((key, 2), (value, 2)), ((value, 1), (out, 1)), ((out, 1), (grad, 1))];
    check_extents(program, id, &contracted, diags);
    let rows = [((query, 2), (out, 2)), ((query, 2), (grad, 2)), ((query, 2), (lse, 1))];
    check_extents(program, id, &rows, diags);
    check_heads(program, id, [query, key, value], diags);
    for (factor, gradient) in [(query, by_query), (key, by_key), (value, by_value)] {
        let places = 1..=if has_groups(program, query, key) { 3 } else { 2 };
        let axes: Vec<_> = places.map(|place| ((factor, place), (gradient, place))).collect();
        check_extents(program, id, &axes, diags);
    }
    check_triangle(program, id, query, key, diags);
}

/// The first tensor operands; `None` if there are fewer.
fn operands<const N: usize>(op: &Op) -> Option<[TensorId; N]> {
    let tensors: Vec<TensorId> = op.input_tensors().take(N).collect();
    tensors.try_into().ok()
}

/// The first tensor results; `None` if there are fewer.
fn results<const N: usize>(op: &Op) -> Option<[TensorId; N]> {
    let tensors: Vec<TensorId> = op.output_tensors().take(N).collect();
    tensors.try_into().ok()
}

/// The bias or the mask, if the op has it.
pub(super) fn term_operand(op: &Op, word: &str) -> Option<TensorId> {
    op.kind.spec().named_operand(op, word).and_then(Value::as_tensor)
}

/// Checks that the queries have a type that attention computes with, and the others the same.
fn check_types(program: &Program, id: OpId, [query, others @ ..]: [TensorId; 4], diags: &mut Diags) {
    let found = program.tensor(query).dtype;
    if matches!(found, DType::Double | DType::Float | DType::Half | DType::BFloat16) {
        others.into_iter().for_each(|other| check_equal_dtypes(program, id, query, other, diags));
        return;
    }
    let [double, float, half, bfloat] = [DType::Double, DType::Float, DType::Half, DType::BFloat16].map(quoted_type);
    let message = message!(
        "`{}` computes with {}, {}, {} or {}, but `{}` is {}",
        quoted_op(program, id),
        double,
        float,
        half,
        bfloat,
        program.quoted_tensor(query),
        quoted_type(found)
    );
    let diag = Diag::error(codes::ATTENTION_TYPE, program.op_span(id), message);
    diags.push(with_declaration(diag, program, query, id));
}

/// Checks the element type of a tensor; `role` says what it is to the op.
fn require_type(program: &Program, id: OpId, tensor: TensorId, need: DType, role: &'static str, diags: &mut Diags) {
    let found = program.tensor(tensor).dtype;
    if found == need {
        return;
    }
    let message = message!(
        "`{}`, {} `{}`, must be {}, but is {}",
        program.quoted_tensor(tensor),
        role,
        quoted_op(program, id),
        quoted_type(need),
        quoted_type(found)
    );
    let diag = Diag::error(codes::DTYPE, program.op_span(id), message);
    diags.push(with_declaration(diag, program, tensor, id));
}

/// Checks the element type of a seed or an offset: a word of 64 bits.
fn check_state_type(program: &Program, id: OpId, state: TensorId, diags: &mut Diags) {
    if program.tensor(state).dtype != DType::Int {
        require_type(program, id, state, DType::UInt64, "a state of the random numbers of", diags);
    }
}

fn check_term_type(program: &Program, id: OpId, word: &str, term: TensorId, query: TensorId, diags: &mut Diags) {
    match (word, program.tensor(term).dtype) {
        ("mask", _) => require_type(program, id, term, DType::Bool, "the mask of", diags),
        // PyTorch adds a bias of floats to scores of halves, too.
        (_, DType::Float) => {}
        _ => require_type(program, id, term, program.tensor(query).dtype, "the bias of", diags),
    }
}

/// Checks that pairs of axes have equal extents, if these are constant.
fn check_extents(program: &Program, id: OpId, pairs: &[(PlaceFromEnd, PlaceFromEnd)], diags: &mut Diags) {
    let links = pairs.iter().filter_map(|&(a, b)| {
        let (from, to) = ((a.0, position_from_end(program, a)?), (b.0, position_from_end(program, b)?));
        Some(AxisLink { from, to, broadcast: false })
    });
    let links: Vec<AxisLink> = links.collect();
    check_link_extents(program, id, &links, diags);
}

fn position_from_end(program: &Program, (tensor, place): PlaceFromEnd) -> Option<u32> {
    let axes = logical_axes(program, tensor);
    let stored = axes.stored_positions();
    stored.len().checked_sub(place).filter(|_| !axes.split).map(|at| stored[at])
}

/// The extent of an axis, if it is a constant.
fn constant_extent(program: &Program, place: PlaceFromEnd) -> Option<i64> {
    let axis = position_from_end(program, place)?;
    program.exprs().as_int(logical_axes(program, place.0).axes[axis as usize].extent)
}

/// Returns true if keys have another number of heads than queries.
fn has_groups(program: &Program, query: TensorId, key: TensorId) -> bool {
    constant_extent(program, (query, 3)) != constant_extent(program, (key, 3))
}

/// Checks that each head of keys and values serves equally many heads of queries.
fn check_heads(program: &Program, id: OpId, [query, key, value]: [TensorId; 3], diags: &mut Diags) {
    check_extents(program, id, &[((key, 3), (value, 3))], diags);
    let (Some(heads), Some(served)) = (constant_extent(program, (key, 3)), constant_extent(program, (query, 3))) else {
        return;
    };
    if heads == served || heads > 0 && served % heads == 0 {
        return;
    }
    let message = message!(
        "`{}` needs heads of queries that are a multiple of those of keys, but `{}` has {} and `{}` has {}",
        quoted_op(program, id),
        program.quoted_tensor(query),
        served,
        program.quoted_tensor(key),
        heads
    );
    let diag = Diag::error(codes::ATTENTION_HEADS, program.op_span(id), message);
    diags.push(with_declaration(with_declaration(diag, program, query, id), program, key, id));
}

/// Checks that a causal mask is a square: PyTorch's functions disagree about the keys that others let a query see.
fn check_triangle(program: &Program, id: OpId, query: TensorId, key: TensorId, diags: &mut Diags) {
    let causal = written_causal(program, program.op(id)) == Some(true);
    let (Some(rows), Some(columns)) = (constant_extent(program, (query, 2)), constant_extent(program, (key, 2))) else {
        return;
    };
    if !causal || rows == columns {
        return;
    }
    let message = message!(
        "a causal `{}` needs as many keys as queries, but `{}` has {} queries and `{}` has {} keys",
        quoted_op(program, id),
        program.quoted_tensor(query),
        rows,
        program.quoted_tensor(key),
        columns
    );
    let diag = Diag::error(codes::CAUSAL_SHAPE, program.op_span(id), message);
    let diag = with_declaration(with_declaration(diag, program, query, id), program, key, id);
    diags.push(diag.with_note(CAUSAL_NOTE));
}

/// Checks that a bias or a mask has, along each axis, the extent of the scores, or one element for all.
fn check_term_shape(
    program: &Program,
    id: OpId,
    word: &'static str,
    term: TensorId,
    [query, key]: [TensorId; 2],
    diags: &mut Diags,
) {
    let rank = logical_axes(program, query).stored_positions().len();
    for place in (1..=rank).rev() {
        let scores = constant_extent(program, if place == 1 { (key, 2) } else { (query, place) });
        let found = constant_extent(program, (term, place));
        let (Some(scores), Some(found)) = (scores, found) else { continue };
        if found == scores || found == 1 {
            continue;
        }
        let message = message!(
            "axis {} of `{}`, the {} of `{}`, has extent {}, but the scores of `{}` and `{}` have {} there",
            rank - place,
            program.quoted_tensor(term),
            word,
            quoted_op(program, id),
            found,
            program.quoted_tensor(query),
            program.quoted_tensor(key),
            scores
        );
        let diag = Diag::error(codes::ATTENTION_TERM, program.op_span(id), message);
        diags.push(with_declaration(diag, program, term, id).with_note(message!("the extent must be {} or 1", scores)));
    }
}
