"""Programs of tools/overlap-bench in `hir 2`: matmul + all-reduce, MLP blocks and scaled products, and their parts.

Rows are written as parts of one device each, `[D, m, ..]`. Programs of a row compute the same from the same inputs,
position by position. Programs without outputs are timed only.
"""

from __future__ import annotations

WORDS = {"bfloat": "bf16", "float": "f32", "e4m3": "f8e4m3"}


def head(devices: int, streams: int | None = None, **sizes: int) -> str:
    """The first lines of a program on a mesh `d` of all devices."""
    lines = ["hir 2", "sizes " + ", ".join(f"{name}={size}" for name, size in sizes.items())]
    lines += [f"streams {streams}"] if streams else []
    return "\n".join([*lines, f"mesh d = 0..{devices}", "", ""])


def matmul_allreduce(devices: int, dtype: str, m: int, k: int, n: int, streams: int | None = None) -> str:
    """Y[D, m, n] = the sum over devices of A @ B, at all devices."""
    d, t = devices, WORDS[dtype]
    return (
        head(d, streams, m=m // d, k=k // d, n=n)
        + f"""\
ar(A: {t}[x:{d}, {d}, m, k], B: {t}[x:{d}, b.1, k, n]) -> (Y: {t}[r.{d}, {d}, m, n]) on d:
  P: {t}[x:{d}, {d}, m, n, r.k] = matmul(A, B)
  Y = reduction(P, op=add, init={t}(0), allreduce=false)
"""
    )


def mlp(devices: int, dtype: str, tokens: int, hidden: int, ffn: int, streams: int | None = None) -> str:
    """Y = relu(X @ W1) @ W2: rows of X and Y, columns of W1 and rows of W2 lie across devices."""
    d, t = devices, WORDS[dtype]
    return (
        head(d, streams, m=tokens // d, k=hidden, f=ffn // d)
        + f"""\
mlp(X: {t}[x:{d}, m, k], W1: {t}[x:{d}, b.1, k, f], W2: {t}[x:{d}, b.1, f, k]) -> (Y: {t}[r.{d}, x:{d}, m, k]) on d:
  G = broadcast(X, flags=[true, false, false, false])
  U: {t}[x:{d}, {d}, m, f, r.k] = matmul(G, W1)
  V = relu(U)
  P = matmul(V, W2)
  Y = reduction(P, op=add, init={t}(0), allreduce=false)
"""
    )


def training(
    devices: int, dtype: str, tokens: int, hidden: int, ffn: int, streams: int | None = None, variant: str = "parts"
) -> str:
    """The block of `mlp`, and the gradients of X, W1 and W2 for a gradient of Y.

    The gathered rows of X and of dY are kept for the gradients of weights, which see rows of all parts as one axis: as
    names of the same memory, or as views in the `plain` variant, the reference. `serial` multiplies what was gathered as
    a whole, so that nothing is gathered twice.
    """
    d, t = devices, WORDS[dtype]
    joined = "view({0})" if variant == "plain" else "alloc(share={0})"
    kept, grown = ("A", "B") if variant == "serial" else ("X", "dY")
    return (
        head(d, streams, m=tokens // d, k=hidden, f=ffn // d)
        + f"""\
training(
  X: {t}[x:{d}, m, k],
  W1: {t}[x:{d}, b.1, k, f],
  W2: {t}[x:{d}, b.1, f, k],
  dY: {t}[x:{d}, m, k]
) -> (
  Y: {t}[r.{d}, x:{d}, m, k],
  dX: {t}[r.{d}, x:{d}, m, k],
  dW1: {t}[x:{d}, k, f, r.{d} * m],
  dW2: {t}[x:{d}, f, k, r.{d} * m]
) on d:
  A: {t}[{d}, m, k] = Set(X)
  G = broadcast({kept}, flags=[true, false, false, false])
  U: {t}[x:{d}, {d}, m, f, r.k] = matmul(G, W1)
  V = relu(U)
  P = matmul(V, W2)
  Y = reduction(P, op=add, init={t}(0), allreduce=false)
  B: {t}[{d}, m, k] = Set(dY)
  E = broadcast({grown}, flags=[true, false, false, false])
  R2 = Set.Permute(W2, perm=[0, 1, 3, 2])
  dV: {t}[x:{d}, {d}, m, f, r.k] = matmul(E, R2)
  open = U > {t}(0)
  dU = where(open, dV, {t}(0))
  R1 = Set.Permute(W1, perm=[0, 1, 3, 2])
  Q = matmul(dU, R1)
  dX = reduction(Q, op=add, init={t}(0), allreduce=false)
  A1: {t}[{d} * m, k] = {joined.format("A")}
  A2 = Set.Permute(A1, perm=[1, 0])
  D1: {t}[x:{d}, {d} * m, f] = {joined.format("dU")}
  dW1 = matmul(A2, D1)
  V1: {t}[x:{d}, {d} * m, f] = {joined.format("V")}
  V2 = Set.Permute(V1, perm=[0, 2, 1])
  B1: {t}[{d} * m, k] = {joined.format("B")}
  dW2 = matmul(V2, B1)
"""
    )


# ---- products and communication alone ----


def product_parts(devices: int, dtype: str, m: int, k: int, n: int, sharded: bool) -> str:
    """The product of a row in the parts that overlap multiplies, one after the other."""
    d, t = devices, WORDS[dtype]
    if not sharded:
        return (
            head(d, m=m // d, k=k, n=n)
            + f"""\
parts(X: {t}[{d}, m, k], W: {t}[k, n]) -> () on d:
  Y: {t}[{d}, m, n] = alloc
  for p in {d}: Y[p] = matmul(X[p], W)
"""
        )
    return (
        head(d, m=m // d, k=k // d, n=n)
        + f"""\
parts(X: {t}[x:{d}, {d}, m, k], W: {t}[x:{d}, b.1, k, n]) -> () on d:
  Y: {t}[x:{d}, {d}, m, n] = alloc
  for p in {d}: Y[own, p] = matmul(X[own, p], W[own, 0])
"""
    )


def block_products(devices: int, dtype: str, tokens: int, hidden: int, ffn: int, parts: bool, backward: bool) -> str:
    """The products of an MLP block, whole or in the parts of the devices' rows; with `backward` those of gradients."""
    d, t = devices, WORDS[dtype]
    count, rows = (d, tokens // d) if parts else (1, tokens)
    text = (
        head(d, m=rows, k=hidden, f=ffn // d)
        + f"""\
products(X: {t}[{count}, m, k], W1: {t}[x:{d}, k, f], W2: {t}[x:{d}, f, k]) -> () on d:
  U: {t}[x:{d}, {count}, m, f] = alloc
  Y: {t}[x:{d}, {count}, m, k] = alloc
"""
    )
    if backward:
        text += f"""\
  A: {t}[x:{d}, k, f] = alloc
  B: {t}[x:{d}, f, k] = alloc
  R1 = Set.Permute(W1, perm=[0, 2, 1])
  R2 = Set.Permute(W2, perm=[0, 2, 1])
  X1: {t}[{count} * m, k] = alloc(share=X)
  X2 = Set.Permute(X1, perm=[1, 0])
"""
    text += f"""\
  for p in {count}: U[own, p] = matmul(X[p], W1[own])
  for q in {count}: Y[own, q] = matmul(U[own, q], W2[own])
"""
    if backward:
        text += f"""\
  for r in {count}: U[own, r] = matmul(X[r], R2[own])
  for s in {count}: Y[own, s] = matmul(U[own, s], R1[own])
  U1: {t}[x:{d}, {count} * m, f] = alloc(share=U)
  U2 = Set.Permute(U1, perm=[0, 2, 1])
  A[own] = matmul(X2, U1[own])
  B[own] = matmul(U2[own], X1)
"""
    return text


def block_communication(devices: int, dtype: str, tokens: int, hidden: int, times: int) -> str:
    """The allgather and the reduce-scatter of an MLP block, over NCCL, `times` times."""
    d, t = devices, WORDS[dtype]
    text = (
        head(d, m=tokens // d, k=hidden)
        + f"""\
comm(X: {t}[x:{d}, m, k], P: {t}[x:{d}, {d}, m, k]) -> () on d:
  G: {t}[{d}, m, k] = alloc
  Y: {t}[r.{d}, x:{d}, m, k] = alloc
"""
    )
    return text + "  wait allgather(X -> G)\n  wait reduce_scatter(P -> Y)\n" * times


# ---- scaled products of 8-bit floats ----


def scaled_allgather(devices: int, m: int, k: int, n: int, streams: int | None = None) -> str:
    """Y[D, m, n] = allgather(X) @ W^T, scaled by rows and columns; scales of rows lie as the rows do. The right factor
    lies column by column, as products of 8-bit floats read it."""
    d = devices
    return (
        head(d, streams, m=m // d, k=k, n=n)
        + f"""\
gathered(X: f8e4m3[x:{d}, m, k], W: f8e4m3[n, k], S: f32[x:{d}, m, 1], R: f32[1, n]) -> (Y: bf16[{d}, m, n, r.k]) on d:
  V = Set.Permute(W, perm=[1, 0])
  Y = scaled_matmul(X, V, S, R)
"""
    )


def scaled_reduce_scatter(devices: int, m: int, k: int, n: int, streams: int | None = None) -> str:
    """Y[r, D, m, n] = the sum over devices of X @ W^T, each scaled by rows and columns."""
    d = devices
    return (
        head(d, streams, m=m // d, k=k // d, n=n)
        + f"""\
scattered(
  X: f8e4m3[x:{d}, {d}, m, k],
  W: f8e4m3[x:{d}, b.1, n, k],
  S: f32[x:{d}, {d}, m, 1],
  R: f32[x:{d}, b.1, 1, n]
) -> (Y: bf16[r.{d}, x:{d}, m, n]) on d:
  V = Set.Permute(W, perm=[0, 1, 3, 2])
  P: bf16[x:{d}, {d}, m, n, r.k] = scaled_matmul(X, V, S, R)
  Y = reduction(P, op=add, init=bf16(0), allreduce=false)
"""
    )


def scaled_products(devices: int, m: int, k: int, n: int, sharded: bool, parts: bool) -> str:
    """The scaled product of a row alone, whole or in the parts of the devices' rows."""
    d = devices
    count, rows = (d, m // d) if parts else (1, m)
    axis, own, mine, perm = (f"x:{d}, ", "own, ", "[own]", "[0, 2, 1]") if sharded else ("", "", "", "[1, 0]")
    return (
        head(d, m=rows, k=k // d if sharded else k, n=n)
        + f"""\
products(X: f8e4m3[{axis}{count}, m, k], W: f8e4m3[{axis}n, k], S: f32[{axis}{count}, m, 1], R: f32[{axis}1, n]) -> () on d:
  V = Set.Permute(W, perm={perm})
  Y: bf16[{axis}{count}, m, n] = alloc
  for p in {count}: Y[{own}p] = scaled_matmul(X[{own}p], V{mine}, S[{own}p], R{mine})
"""
    )


def scaled_communication(devices: int, m: int, k: int, n: int, sharded: bool) -> str:
    """The allgather of 8-bit rows and their scales, or the reduce-scatter of products. Inputs have the positions of the
    row's other programs; what takes no part is small."""
    d = devices
    if not sharded:
        return (
            head(d, m=m // d, k=k)
            + f"""\
comm(X: f8e4m3[x:{d}, m, k], A: f32[1], S: f32[x:{d}, m, 1], B: f32[1]) -> () on d:
  G: f8e4m3[{d}, m, k] = alloc
  C: f32[{d}, m, 1] = alloc
  wait allgather(X -> G)
  wait allgather(S -> C)
"""
        )
    return (
        head(d, m=m // d, n=n)
        + f"""\
comm(P: bf16[x:{d}, {d}, m, n], A: f32[1], B: f32[1], C: f32[1]) -> () on d:
  Y: bf16[r.{d}, x:{d}, m, n] = alloc
  wait reduce_scatter(P -> Y)
"""
    )
