//! What the documentation says about the pass.

/// The whole description.
pub(super) const DESCRIPTION: &str = "\
Every op whose result has a stream-parallel axis (`iStreamIdx2{i0}`) moves into a loop over that axis and
computes one slice of its result an iteration, on stream `StreamIdx % numberOfStreams`. Ops that follow each
other and share the axis share the loop; results get an allocation before it. A first loop makes the streams
wait for the stream that was current, and each iteration ends with that stream waiting for its own.

With `merge=graph` ops need not follow each other: between two ops that keep their places (streams,
communications, allocations, views, kernels) ops that only compute change theirs, so that a loop takes all
of its axis that its dependences allow. What a loop waits for goes first, and the next loop is the one that
the longest chain of loops waits for. Ops that write what the loop has read or written under another name
stay out of it. Where that saves no loop, nothing moves.

An operand whose mapped axis lies across devices (`ideviceIdx.x0{i0}` beside `iStreamIdx2{i0}`) is gathered
part by part. `allgather=pairwise`, the seeds' way: in iteration i rank r sends its part to rank i and
receives rank i's. `ring`: in iteration i rank r works on part `( rank + i ) % D`, which it receives while
it sends its own to rank `( D + rank - i ) % D`, so that no two ranks wait for one peer; a loop that also
holds a collective is an error then, because ranks would bring different slices to it. `broadcast`: in
iteration i rank i sends its part to all.

The partial results of a product over a sharded axis lie as `[device, stream, ..]`: whose they are, and
whose they will be. With `matmul_reduce_scatter=p2p` a `Set` to `[stream, device, ..]` joins the product's
loop: in iteration i rank r computes what rank `( rank + i ) % D` keeps, sends it there, and receives its
own part from rank `( D + rank - i ) % D`; the reduction of the first axis stands behind the loop. With
`matmul_reduce_scatter=reduce` a `reduction` to `[reduced stream, device, ..]` joins it: in iteration i all
ranks compute what rank i keeps, and a Reduce adds it up there. Both need devices 0 to D-1.

`own_part=last` moves the offset of `ring` and `p2p` by one: in iteration i rank r works on part
`( rank + i + 1 ) % D`, so that its own part comes last. A rank that scatters then sends what it has computed
while it computes the next part; nvFuser's order leaves the last message to be waited for.

`communicator_backend=CUDA` exchanges parts by copies on the current stream: ShareMemHandles, then with
`p2p_protocol=get` the send and the receive, with `put` the receive and the send (both say `protocol=put`),
and a Wait for what is received; the Wait for what is sent stands at the end of the iteration. Results of
the pass's own Broadcasts and Reduces get symmetric memory then. With `p2p_stream=own` the side that copies is
posted on stream `numberOfStreams`, behind what its iteration has done so far. Copies of one rank then follow each
other, so that the first part arrives early; on the iterations' own streams they go at the same time, share the
links, and arrive together. It pays on more than two devices. UCC has no sends and receives that start
together, and is refused where parts are exchanged.

What is accepted:

| option | accepted with it, refused without |
|---|---|
| none of these | what nvFuser's revision of June 2025 accepts, but for the deviations below |
| `matmul_reduce_scatter=p2p` or `reduce` | inputs with a stream-parallel axis |
| `matmul_reduce_scatter=p2p` | a `Set` of `[device, stream, ..]` to `[stream, device, ..]` |
| `matmul_reduce_scatter=reduce` | a stream axis that is reduced: a sum of `[device, stream, ..]` to `[reduced stream, device, ..]` |

No other option accepts more: the others only change how the same programs are lowered. `allgather=ring`
refuses collectives in its loops, and `communicator_backend=UCC` exchanges. Other reduced stream axes,
stream axes made by splits, and ops that only run inside a HostUnit are always errors. Loops that the
program has are left alone.

Deviations from nvFuser: `merge=graph` is a plan of its authors that no revision has; a loop that exchanges
parts takes no collective and no second kind of exchange, for ranks would wait for each other or mix parts;
devices that are not 0 to D-1 are refused, because peers are iterations; nvFuser does not exchange pairwise
with CUDA, where its ShareMemHandles waits for all ranks. An op that takes axes by their places is refused
where slices have them at other places: cut along N, the second operand of a batched matmul is one matrix, and
nvFuser multiplies by that.";

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
