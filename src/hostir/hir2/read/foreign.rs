//! Names and spellings of other languages, and their equivalents here.

use crate::diag::{Cause, Message, PartKind, message};
use crate::hir2::defaults::is_callable;
use crate::ir::functions::function_names;
use crate::ops::OpRegistry;

/// The operation here for `W.T` and `W.mT` of other languages.
pub(super) fn transpose_of(text: &str, rank: Option<usize>) -> Option<String> {
    let (operand, reverses) = match text.strip_suffix(".mT").or_else(|| text.strip_suffix(".mH")) {
        Some(operand) => (operand, false),
        None => (text.strip_suffix(".T").or_else(|| text.strip_suffix(".H"))?, true),
    };
    let name = match operand.split_once('[') {
        Some((name, index)) if !index.trim_end_matches(']').contains(['[', ']']) && index.ends_with(']') => name,
        Some(_) => return None,
        None => operand,
    };
    let rank = rank.filter(|rank| *rank > 1).unwrap_or(2);
    let mut order: Vec<usize> = (0..rank).collect();
    match reverses {
        true => order.reverse(),
        false => order.swap(rank - 2, rank - 1),
    }
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| format!("Set.Permute({operand}, perm={order:?})"))
}

/// The operation and the neutral value of a reduction that is a method in other languages.
pub(super) fn reduction_of_method(method: &str) -> Option<(&'static str, &'static str)> {
    Some(match method {
        "sum" => ("add", "0"),
        "prod" => ("mul", "1"),
        "max" | "amax" => ("max", "-inf"),
        "min" | "amin" => ("min", "inf"),
        _ => return None,
    })
}

/// The spelling here of calls with other names in other languages, by the last part of the name there.
fn foreign_call(text: &str) -> Option<&'static str> {
    Some(match text.rsplit('.').next()? {
        "mm" | "bmm" | "dot" | "einsum" | "tensordot" => "products are written `matmul(A, B)`",
        "unsqueeze" | "expand_dims" => {
            "a new axis is written `broadcast(X, flags=[true, false])`, a flag for each axis of the result"
        }
        "transpose" | "t" | "swapaxes" | "swapdims" => "axes are exchanged by `Set.Permute(X, perm=[1, 0])`",
        "permute" if text.contains('.') => "axes are exchanged by `Set.Permute(X, perm=[1, 0])`",
        "len" | "shape" | "size" => {
            "extents are written as the type has them; a loop along axis 0 of G is `for i in G.0:`"
        }
        "reshape" => "another shape is written `view(X)`, with the type of its result: `Y: f32[m, n] = view(X)`",
        "sum" | "reduce_sum" => "sums are written `reduction(X, op=add, init=f32(0), allreduce=false)`",
        "mean" => "a mean is a sum, `reduction(X, op=add, init=f32(0), allreduce=false)`, and a division",
        "minimum" => "the smaller of two is `min(A, B)`",
        "maximum" => "the larger of two is `max(A, B)`",
        "square" => "a square is written `X * X`",
        "round" | "rint" => "`nearbyint(X)` rounds to the nearest integer",
        "sign" | "sgn" => "there is no sign: `where(c, A, B)` chooses between two values",
        "fma" | "addcmul" => "a product and a sum are two statements, `U = A * B` and `U + C`",
        "addmm" | "baddbmm" => "a product and a sum of matrices are written `matmul_add(A, B, C)`",
        "gelu" => "there is no gelu: write it with `erf` or `tanh`, a function a statement",
        "layer_norm" | "rms_norm" => "there is no norm: write it with `reduction`, `rsqrt` and pointwise functions",
        "softmax" => "there is no softmax: write it with `exp`, a `reduction` and a division",
        "to" | "astype" | "cast" => "conversions are named as their types: `f16(X)`",
        "clone" | "copy" | "copy_" | "contiguous" => "a copy is written `Set(X)`",
        "concat" | "concatenate" | "vstack" | "hstack" | "stack" => {
            "tensors are joined along an axis by `cat(A, B, 0)`, with the type of its result"
        }
        "split" | "chunk" | "narrow" => {
            "a part of a tensor is `X[i]`, or `slice(X, ranges=[[0, 4, 1]])` with the type of its result"
        }
        "arange" | "linspace" => "numbers that count up are written `iota`; a loop's index is a scalar",
        "amax" | "argmax" | "amin" | "argmin" => {
            "a maximum along an axis is written `reduction(X, op=max, init=f32(-inf), allreduce=false)`"
        }
        other => return runtime_call(other).or_else(|| operator_call(other)),
    })
}

/// The statements that order work and ranks here, for calls of CUDA, MPI and torch.distributed.
fn runtime_call(name: &str) -> Option<&'static str> {
    Some(match name {
        "ncclGroupStart" | "batch_isend_irecv" => {
            "messages of a group are one statement: `wait { send(X, to=1); recv(Y, from=1) }`"
        }
        "ncclGroupEnd" => "the messages of a group stand between `{` and `}`: leave the statement out",
        "program_id" | "get_program_id" => {
            "a rank's own number is `rank`; blocks of a kernel have none here: a loop or an axis takes their place"
        }
        "barrier" | "MPI_Barrier" | "__syncthreads" | "syncthreads" => {
            "ranks need no barrier: a communication waits for its partners, and `wait h` orders what follows after it"
        }
        "synchronize" | "cudaDeviceSynchronize" | "cudaStreamSynchronize" | "cudaStreamWaitEvent" | "wait_stream" => {
            "`sync 1` makes the current stream wait for stream 1, and `wait h` for a communication"
        }
        "all_reduce" | "MPI_Allreduce" | "ncclAllReduce" => "a sum over ranks is written `wait allreduce(X -> Y)`",
        "all_gather" | "all_gather_into_tensor" | "MPI_Allgather" | "ncclAllGather" => {
            "all ranks' shards are gathered by `wait allgather(X -> G)`"
        }
        "reduce_scatter_tensor" | "ncclReduceScatter" => {
            "a sum of which each rank keeps a shard is written `wait reduce_scatter(X -> Y)`"
        }
        "all_to_all_single" | "MPI_Alltoall" => "shards are exchanged by `wait all_to_all(X -> Y)`",
        "isend" | "MPI_Send" | "MPI_Isend" | "ncclSend" => "a message is sent by `h = send(X, to=1)`",
        "irecv" | "MPI_Recv" | "MPI_Irecv" | "ncclRecv" => "a message is received by `h = recv(Y, from=0)`",
        _ => return None,
    })
}

/// The operator for a function's name in other languages.
fn operator_call(name: &str) -> Option<&'static str> {
    Some(match name {
        "add" => "sums of two are written `A + B`",
        "sub" | "subtract" => "differences are written `A - B`",
        "mul" | "multiply" => "products of elements are written `A * B`",
        "div" | "divide" | "true_divide" | "floor_divide" => "quotients are written `A / B`",
        "neg" | "negative" => "the negative is written `-A`",
        "mod" => "remainders are written `A % B`",
        "eq" | "equal" => "two values are compared by `A == B`",
        "ne" | "not_equal" => "two values are compared by `A != B`",
        "lt" | "less" => "two values are compared by `A < B`",
        "le" | "less_equal" => "two values are compared by `A <= B`",
        "gt" | "greater" => "two values are compared by `A > B`",
        "ge" | "greater_equal" => "two values are compared by `A >= B`",
        "logical_and" => "two conditions are joined by `A && B`",
        "logical_or" => "two conditions are joined by `A || B`",
        "logical_not" => "a condition is inverted by `!A`",
        "bitwise_and" => "bits are joined by `A & B`",
        "bitwise_or" => "bits are joined by `A | B`",
        "bitwise_xor" => "bits are joined by `A ^ B`",
        _ => return None,
    })
}

/// The spelling here of `X.sqrt(..)` and `torch.sqrt(..)`, and of functions with other names here.
pub(super) fn method_of(ops: OpRegistry, text: &str) -> Option<Message> {
    if let Some((owner, "wait" | "synchronize")) = text.rsplit_once('.')
        && !owner.contains('.')
        && !is_module_name(owner)
    {
        return Some(message!(
            "write `wait {}` for a communication, and `sync {}` for a stream",
            PartKind::Word.quote(owner),
            PartKind::Word.quote(owner)
        ));
    }
    if let Some(note) = foreign_call(text) {
        return Some(note.into());
    }
    let (owner, name) = text.rsplit_once('.')?;
    let is_module = is_module_name(owner) || owner.contains('.');
    let operand = if is_module { "X" } else { owner };
    is_function(ops, name)
        .then(|| message!("functions stand in front of their operands: `{}({})`", PartKind::Op.quote(name), operand))
}

fn is_module_name(owner: &str) -> bool {
    matches!(owner, "torch" | "np" | "numpy" | "jnp" | "math" | "F" | "tl" | "dist" | "cuda" | "comm")
}

/// The names of new results in the note of [`method_of`].
pub(super) fn new_names_of(text: &str) -> Option<Cause> {
    let is_two_statements = matches!(text.rsplit('.').next(), Some("fma" | "addcmul"));
    is_two_statements.then(|| Cause::NewNames(vec!["U".to_owned()]))
}

/// Returns true for the name of a pointwise function, and of an op that is called like one.
fn is_function(ops: OpRegistry, name: &str) -> bool {
    function_names().any(|known| known == name) || ops.find_op(name).is_some_and(is_callable)
}

/// The spelling here of other languages' allocations.
pub(super) fn allocation_of(text: &str) -> Option<&'static str> {
    match text {
        "allocate" | "ALLOCATE" | "Allocate" | "malloc" | "empty" | "new" => Some("alloc"),
        "zeros" | "calloc" => Some("alloc(zero)"),
        _ => None,
    }
}

/// The property that a tensor has in other languages, `X.size`, and what is written here.
pub(super) fn property_of(text: &str) -> Option<(&str, &'static str)> {
    let (_, name) = text.rsplit_once('.')?;
    let meant = match name {
        "size" | "shape" | "numel" => "write its extents, which have the names of its type: `m * n` of `f32[m, n]`",
        "ndim" | "dim" => "the number of its axes is that of its type",
        "dtype" => "write the element type, such as `f32`",
        "device" => "its ranks are those of the mesh of its type",
        _ => return None,
    };
    Some((name, meant))
}

/// The statement here for `torch.empty(4, m)`: the extents are those of the type.
pub(super) fn typed_allocation_of(text: &str) -> Option<&'static str> {
    match text.rsplit('.').next()? {
        "empty" | "empty_like" | "new_empty" => Some("extents are part of the type: `G: f32[m, n] = alloc`"),
        "zeros" | "zeros_like" | "new_zeros" => Some("extents are part of the type: `G: f32[m, n] = alloc(zero)`"),
        "ones" | "ones_like" => Some("a tensor of one value is written `full([m, n], 1.0, f32)`"),
        _ => None,
    }
}

/// The scalar here for the rank or the number of ranks by another name: `rank` or `d.size`.
pub(super) fn runtime_scalar_of(text: &str) -> Option<&'static str> {
    let word: String = text.to_ascii_lowercase().replace('_', "");
    match word.as_str() {
        "localrank" | "myrank" | "globalrank" | "rankid" | "ranknumber" | "devicerank" | "taskid" | "procid" => {
            Some("rank")
        }
        "worldsize" | "nranks" | "numranks" | "ranks" | "commsize" | "numdevices" | "ndevices" | "ngpus"
        | "numgpus" | "nprocs" => Some("size"),
        _ => None,
    }
}

/// The form here for an argument of a communication in other languages.
pub(super) fn foreign_post_key(word: &str, found: &str) -> Option<String> {
    Some(match found {
        "stream" | "cuda_stream" => format!(
            "a communication runs in the queue of its communicator: a block `stream 1:` around `{word}` says what it \
             starts after"
        ),
        "group" | "process_group" | "pg" | "ranks" | "axis_name" => {
            "the ranks that take part are a team: `team=[0, 1]`, or `over=d.x` along an axis of the mesh; without it they \
             are all of the mesh"
                .to_owned()
        }
        "async_op" | "async" | "blocking" | "non_blocking" => {
            "a communication goes on by itself until `wait h`: leave the argument out".to_owned()
        }
        "tag" => "messages between two ranks arrive in the order of their posts: leave the argument out".to_owned(),
        _ => return None,
    })
}

/// The spelling here of the numbers that other languages name.
pub(super) fn constant_of(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Some("an infinity is written with its type: `f32(inf)`, `f32(-inf)`"),
        "nan" => Some("a NaN is written with its type: `f32(nan)`"),
        _ => None,
    }
}

/// The operation here for one of another name, elsewhere or in the other kind of reductions: those of tensors say `add`,
/// those of communications `sum`.
pub(super) fn operation_of(text: &str) -> Option<&'static str> {
    match text {
        "sum" => Some("add"),
        "add" => Some("sum"),
        "prod" | "product" => Some("mul"),
        "amax" | "maximum" => Some("max"),
        "amin" | "minimum" => Some("min"),
        _ => None,
    }
}
