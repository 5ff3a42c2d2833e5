//! The documentation of the pass.

/// The whole description.
pub(super) const DESCRIPTION: &str = "\
Every op whose result has a stream-parallel axis (`iStreamIdx2{i0}`) moves into a loop over that axis and
computes one slice of its result in each iteration, on stream `StreamIdx % numberOfStreams`. Ops that follow
each other and share the axis share the loop; results get an allocation before it. A first loop makes the
streams wait for the stream that was current, and each iteration ends with that stream waiting for its own.

With `merge=graph` ops need not follow each other: between two ops that keep their places (streams,
communications, allocations, views, kernels) compute ops move, so that a loop takes all ops of its axis that
its dependences allow. The operands of a loop come first; the next loop is the one that the longest chain of
loops waits for. Ops that write what the loop has read or written under another name stay out of it. If this
saves no loop, nothing moves.

An operand whose mapped axis is sharded over devices (`ideviceIdx.x0{i0}` beside `iStreamIdx2{i0}`) is
gathered shard by shard. `allgather=pairwise`, nvFuser's way: in iteration i rank r sends its shard to rank i
and receives rank i's. `ring`: in iteration i rank r works on shard `( rank + i ) % D`, which it receives
while it sends its own to rank `( D + rank - i ) % D`, so that no two ranks wait for one peer; a loop that
also holds a collective is then an error, because the ranks would take part with different slices.
`broadcast`: in iteration i rank i sends its shard to all.

The partial results of a GEMM over a sharded axis have the axes `[device, stream, ..]`: the rank that computes
a shard, and the rank that keeps it. With `matmul_reduce_scatter=p2p` a `Set` to `[stream, device, ..]` joins
the GEMM's loop: in iteration i rank r computes the shard that rank `( rank + i ) % D` keeps, sends it there,
and receives its own shard from rank `( D + rank - i ) % D`; the reduction of the first axis comes after the
loop. With `matmul_reduce_scatter=reduce` a `reduction` to `[reduced stream, device, ..]` joins the loop: in
iteration i all ranks compute the shard that rank i keeps, and a Reduce sums it there. Both need devices 0 to
D-1.

`own_part=last` moves the offset of `ring` and `p2p` by one: in iteration i rank r works on shard
`( rank + i + 1 ) % D`, so that its own shard comes last. In a reduce-scatter a rank then sends one shard while
it computes the next; in nvFuser's order nothing overlaps with the last message.

`communicator_backend=CUDA` sends shards by copies on the current stream: ShareMemHandles, then with
`p2p_protocol=get` the send and the receive, with `put` the receive and the send (both with `protocol=put`),
and a Wait for the receive; the Wait for the send is at the end of the iteration. Results of the pass's own
Broadcasts and Reduces get symmetric memory then. With `p2p_stream=own` the initiator's side is issued on
stream `numberOfStreams`, after the work of its iteration so far. Copies of one rank then follow each other,
so that the first shard arrives early; on the iterations' own streams they run at the same time, share the
links, and arrive together. This is faster on more than two devices. UCC has no sends and receives that start
together, and is rejected where shards are sent.

Accepted forms:

| option | accepted with it, refused without |
|---|---|
| none of these | what nvFuser's revision of June 2025 accepts, but for the deviations below |
| `matmul_reduce_scatter=p2p` or `reduce` | inputs with a stream-parallel axis |
| `matmul_reduce_scatter=p2p` | a `Set` of `[device, stream, ..]` to `[stream, device, ..]` |
| `matmul_reduce_scatter=reduce` | a stream axis that is reduced: a sum of `[device, stream, ..]` to `[reduced stream, device, ..]` |

The other options accept no further forms; they only change how the same programs are lowered.
`allgather=ring` rejects collectives in its loops, and `communicator_backend=UCC` rejects point-to-point
transfers. Other reduced stream axes, stream axes made by splits, and ops that only run inside a HostUnit are
always errors. Existing loops of the program do not change.

Deviations from nvFuser: `merge=graph` is planned by nvFuser's authors, but in none of its versions; a loop
with point-to-point transfers of shards takes no collective and no second kind of transfer, because ranks
would wait for each other or mix shards; devices other than 0 to D-1 are rejected, because peers are
iterations; nvFuser has no pairwise transfers with CUDA, since its ShareMemHandles waits for all ranks. An op
that takes axes by position is rejected if slices have them at other positions: split along N, the second
operand of a batched matmul is one matrix, and nvFuser multiplies by that.";

/// A copy along its first axis.
pub(super) const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iStreamIdx2{i0}, iS3{i1}]) :
  T1_g_float[iStreamIdx2{i0}, iS3{i1}]
     = Set( T0_g_float[iS0{i0}, iS1{i1}], cache_op=Streaming )
} // %HostIrContainer
";
/// The loop it becomes.
pub(super) const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, iS1{i1}]) -> (T1_g_float[iStreamIdx2{i0}, iS3{i1}]) :
  T1_g_float[iStreamIdx2{i0}, iS3{i1}] = ALLOCATE(buffer=T1, mem_type=global, size=( i0 * i1 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR StreamIdx in iStreamIdx2{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    Synchronize Stream 0
  FOR StreamIdx in iStreamIdx2{i0}:
    SetCurrentStream to Stream ( StreamIdx % numberOfStreams )
    T2_l_float[iS4{i1}]
       = HirAliasSelect( T0, axis = iS0{i0}, index = StreamIdx )
    T3_l_float[iS5{i1}]
       = HirAliasSelect( T1, axis = iStreamIdx2{i0}, index = StreamIdx )
    T3
       = Set( T2, cache_op=Streaming )
    SetCurrentStream to Stream 0
    Synchronize Stream ( StreamIdx % numberOfStreams )
} // %HostIrContainer
";
