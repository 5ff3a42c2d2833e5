//! Communications of torch.distributed, MPI and NCCL: which arguments are the tensors, the peer and the operation.

use super::context::LineContext;
use super::habit::Habit;
use super::line::{CodeLine, split_items};
use crate::hir2::habits::COLLECTIVE_WORDS;

/// A communication of another library.
struct LibraryCall {
    /// Its names there, without the module.
    names: &'static [&'static str],
    /// The word here.
    word: &'static str,
    /// The place of the tensor that is sent, among the arguments without a key.
    source: usize,
    /// The place of the one that is received; none if both are one.
    result: Option<usize>,
    /// The key here for a peer, and its keys and place there.
    peer: Option<(&'static str, &'static [&'static str], usize)>,
}

impl LibraryCall {
    const fn new(names: &'static [&'static str], word: &'static str, source: usize, result: Option<usize>) -> Self {
        Self { names, word, source, result, peer: None }
    }

    const fn with_peer(self, key: &'static str, keys: &'static [&'static str], place: usize) -> Self {
        Self { peer: Some((key, keys, place)), ..self }
    }
}

const ROOT: &[&str] = &["src", "dst", "root", "group_src", "group_dst"];

/// The order of arguments is that of each library's documentation.
const CALLS: &[LibraryCall] = &[
    LibraryCall::new(&["all_reduce"], "allreduce", 0, None),
    LibraryCall::new(&["MPI_Allreduce", "ncclAllReduce"], "allreduce", 0, Some(1)),
    LibraryCall::new(&["all_gather_into_tensor"], "allgather", 1, Some(0)),
    LibraryCall::new(&["MPI_Allgather"], "allgather", 0, Some(3)),
    LibraryCall::new(&["ncclAllGather"], "allgather", 0, Some(1)),
    LibraryCall::new(&["reduce_scatter_tensor"], "reduce_scatter", 1, Some(0)),
    LibraryCall::new(&["MPI_Reduce_scatter_block", "ncclReduceScatter"], "reduce_scatter", 0, Some(1)),
    LibraryCall::new(&["all_to_all_single"], "all_to_all", 1, Some(0)),
    LibraryCall::new(&["MPI_Alltoall"], "all_to_all", 0, Some(3)),
    LibraryCall::new(&["dist.broadcast", "distributed.broadcast"], "broadcast", 0, None).with_peer("root", ROOT, 1),
    LibraryCall::new(&["MPI_Bcast", "ncclBcast"], "broadcast", 0, None).with_peer("root", ROOT, 3),
    LibraryCall::new(&["ncclBroadcast"], "broadcast", 0, Some(1)).with_peer("root", ROOT, 4),
    LibraryCall::new(&["dist.reduce", "distributed.reduce"], "reduce", 0, None).with_peer("root", ROOT, 1),
    LibraryCall::new(&["MPI_Reduce", "ncclReduce"], "reduce", 0, Some(1)).with_peer("root", ROOT, 5),
    LibraryCall::new(&["dist.send", "distributed.send"], "send", 0, None).with_peer("to", ROOT, 1),
    LibraryCall::new(&["MPI_Send", "ncclSend"], "send", 0, None).with_peer("to", ROOT, 3),
    LibraryCall::new(&["dist.recv", "distributed.recv"], "recv", 0, None).with_peer("from", ROOT, 1),
    LibraryCall::new(&["MPI_Recv", "ncclRecv"], "recv", 0, None).with_peer("from", ROOT, 3),
];

/// Other spellings of communications.
const OTHER_SPELLINGS: &[(&str, &str)] = &[
    ("all_reduce", "allreduce"),
    ("allReduce", "allreduce"),
    ("AllReduce", "allreduce"),
    ("all_gather", "allgather"),
    ("allGather", "allgather"),
    ("AllGather", "allgather"),
    ("reducescatter", "reduce_scatter"),
    ("reduceScatter", "reduce_scatter"),
    ("ReduceScatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("all2all", "all_to_all"),
    ("AllToAll", "all_to_all"),
    ("bcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("isend", "send"),
    ("irecv", "recv"),
];

/// The word of a communication here, for its name or another spelling of it.
pub(super) fn collective_word(word: &str) -> Option<&'static str> {
    let own = COLLECTIVE_WORDS.iter().find(|known| **known == word).copied();
    own.or_else(|| OTHER_SPELLINGS.iter().find(|(other, _)| *other == word).map(|(_, here)| *here))
}

/// Operations by a part of their names there.
const OPERATIONS: &[(&str, &str)] = &[("MAX", "max"), ("MIN", "min"), ("PROD", "product"), ("AVG", "avg")];

/// The call whose name a text ends with.
fn find_call(name: &str) -> Option<&'static LibraryCall> {
    let is_end = |known: &str| name.strip_suffix(known).is_some_and(|owner| owner.is_empty() || owner.ends_with('.'));
    CALLS.iter().find(|call| call.names.iter().any(|known| is_end(known)))
}

/// True if a call is that of a communication of another library.
pub(super) fn is_library_call(name: &str) -> bool {
    find_call(name).is_some()
}

/// `dist.all_reduce(S, op=ReduceOp.MAX)`, `MPI_Bcast(V, n, MPI_FLOAT, 0, comm)`, `wait ncclAllReduce(P, S, n, type)`.
pub(super) fn library_call(line: &CodeLine<'_>, context: &LineContext<'_>) -> Option<Habit> {
    let open = line.find_outside("(")?;
    let close = line.closing(open).filter(|&close| matches!(line.piece_text(close + 1), "" | ";"))?;
    // `h = dist.all_reduce(S)` starts it only.
    let first = match line.piece_text(0) {
        "wait" => 1,
        _ if line.is_name(0) && line.piece_text(1) == "=" => 2,
        _ => 0,
    };
    let name = line.span_text(first, open.checked_sub(1)?);
    let call = find_call(name)?;
    let items = split_items(line.between(open, close));
    let (named, plain): (Vec<&str>, Vec<&str>) = items.into_iter().partition(|item| key_of(item).is_some());
    let source = plain.get(call.source)?;
    let operands = match call.result {
        Some(place) => {
            let result = plain.get(place)?;
            let source = if source.ends_with("IN_PLACE") { result } else { source };
            format!("{source} -> {result}")
        }
        None if matches!(call.word, "send" | "recv") => (*source).to_owned(),
        None if plain.get(1).is_some_and(|other| context.type_of(other).is_some()) => {
            format!("{source} -> {}", plain.get(1)?)
        }
        None => format!("{source} -> {source}"),
    };
    let mut arguments = vec![operands];
    if let Some((key, keys, place)) = call.peer {
        let by_key = named.iter().filter_map(|item| key_of(item)).find(|(found, _)| keys.contains(found));
        arguments.push(format!("{key}={}", by_key.map(|(_, value)| value).or(plain.get(place).copied())?));
    }
    let operation = OPERATIONS.iter().find(|(part, _)| named.iter().chain(&plain).any(|item| names_part(item, part)));
    if let Some((_, operation)) = operation.filter(|_| call.word.contains("reduce")) {
        arguments.push(format!("op={operation}"));
    }
    let head = if first == 2 { format!("{} = ", line.piece_text(0)) } else { "wait ".to_owned() };
    let meant = format!("{head}{}({})", call.word, arguments.join(", "));
    let message = format!("`{name}` is written `{}` here, with the tensor on each side of `->`", call.word);
    let message = if matches!(call.word, "send" | "recv") {
        format!("`{name}` is written `{}` here", call.word)
    } else {
        message
    };
    let shown = line.pieces[first].place.start..line.pieces[open].place.start;
    Some(Habit::rewrite_line(shown, meant, message))
}

/// The key and the value of `key=value`.
fn key_of(item: &str) -> Option<(&str, &str)> {
    let (key, value) = item.split_once('=')?;
    let is_key = !value.starts_with('=') && !key.ends_with(['!', '<', '>']);
    is_key.then(|| (key.trim(), value.trim()))
}

/// True if the last word of an argument names an operation: `dist.ReduceOp.MAX`, `MPI_MAX`, `ncclMax`.
fn names_part(item: &str, part: &str) -> bool {
    let last = item.rsplit(['.', '_', '=']).next().unwrap_or_default();
    last.strip_prefix("nccl").unwrap_or(last).eq_ignore_ascii_case(part) && last != part.to_ascii_lowercase()
}
