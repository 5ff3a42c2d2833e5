"""The rows of tools/overlap-bench, the ways to compute them, and the bars that they have to reach, as data."""

from __future__ import annotations

from typing import NamedTuple

from bench.overlap.records import RowRecord


class Row(NamedTuple):
    """Sizes of the whole product, rows, depth and columns; of an MLP block tokens, hidden and ffn."""

    kind: str
    dtype: str
    m: int
    k: int
    n: int


KINDS = {
    "ag": "allgather + matmul",
    "rs": "matmul + reduce-scatter",
    "ar": "matmul + all-reduce",
    "mlp": "MLP block, forward (tokens, hidden, ffn)",
    "training": "MLP block, forward and backward",
    "scaled-ag": "allgather + scaled matmul",
    "scaled-rs": "scaled matmul + reduce-scatter",
}
SMALL = (512, 1024, 2048)
ROWS: dict[str, Row] = {
    "ag1": Row("ag", "bfloat", 8192, 8192, 8192),
    "ag2": Row("ag", "bfloat", 16384, 8192, 4096),
    "ag3": Row("ag", "bfloat", 32768, 32768, 1024),
    "ag4": Row("ag", "bfloat", 4096, 4096, 4096),
    "ag5": Row("ag", "bfloat", 32768, 16384, 8192),
    "ag6": Row("ag", "bfloat", 16384, 12288, 3072),
    "agfloat": Row("ag", "float", 32768, 32768, 1024),
    "rs1": Row("rs", "bfloat", 8192, 8192, 8192),
    "rs2": Row("rs", "bfloat", 16384, 28672, 8192),
    "rs3": Row("rs", "bfloat", 4096, 16384, 4096),
    "rs4": Row("rs", "bfloat", 8192, 29568, 8192),
    "rs5": Row("rs", "bfloat", 16384, 16384, 16384),
    "rs6": Row("rs", "bfloat", 4096, 4096, 4096),
    "ar1": Row("ar", "bfloat", 8192, 8192, 8192),
    "ar2": Row("ar", "bfloat", 16384, 28672, 8192),
    "ar3": Row("ar", "bfloat", 4096, 16384, 4096),
    "ar4": Row("ar", "bfloat", 8192, 29568, 8192),
    "mlp-forward": Row("mlp", "bfloat", 8192, 8192, 28672),
    "mlp-training": Row("training", "bfloat", 8192, 8192, 28672),
    "fp8-ag": Row("scaled-ag", "e4m3", 8192, 8192, 8192),
    "fp8-rs": Row("scaled-rs", "e4m3", 8192, 8192, 8192),
    **{f"small-{kind}{edge}": Row(kind, "bfloat", edge, edge, edge) for kind in ("ag", "rs", "ar") for edge in SMALL},
}


class Way(NamedTuple):
    """The way in which the program of a row is written, and the pass that lowers it.

    `parts` is the type of the axis of parts: `iS`, or `iStreamIdx` where iterations run on streams. `each` says that a
    stream for each device is wanted, rather than two.
    """

    parts: str
    lowering: str
    each: bool = False


def annotated(options: str = "") -> Way:
    """A way whose program is annotated, lowered by host-ir-lower."""
    return Way("iStreamIdx", f"host-ir-lower{options}")


def plain(lowering: str, each: bool = False) -> Way:
    """A way whose program is plain math."""
    return Way("iS", lowering, each)


PUT = "communicator_backend=CUDA,p2p_protocol=put"
BLOCK = {
    "overlap": plain("overlap-lower"),
    "exchange": plain("overlap-lower{matmul_reduce_scatter=p2p}", each=True),
    "serial": plain("host-ir-lower"),
}
WAYS = {
    "ag": {
        "pairwise": annotated(),
        "ring": annotated("{allgather=ring}"),
        "ring-cuda": annotated(f"{{allgather=ring,{PUT},p2p_stream=own}}"),
        "push": plain("overlap-lower"),
        "serial": plain("host-ir-lower"),
    },
    "rs": {
        "p2p": annotated("{matmul_reduce_scatter=p2p,own_part=last}"),
        "p2p-cuda": annotated(f"{{matmul_reduce_scatter=p2p,own_part=last,{PUT},p2p_stream=own}}"),
        "accumulate": plain("overlap-lower"),
        "direct": plain("overlap-lower{matmul_reduce_scatter=direct}"),
        "serial": plain("host-ir-lower"),
    },
    "ar": {
        "accumulate": plain("overlap-lower"),
        "exchange": plain("overlap-lower{matmul_allreduce=p2p}", each=True),
        "direct": plain("overlap-lower{matmul_allreduce=direct}"),
        "serial": plain("host-ir-lower"),
    },
    "mlp": BLOCK,
    "training": BLOCK,
    "scaled-ag": {"push": plain("overlap-lower"), "serial": plain("host-ir-lower")},
    "scaled-rs": {
        "accumulate": plain("overlap-lower"),
        "exchange": plain("overlap-lower{matmul_reduce_scatter=p2p}", each=True),
        "serial": plain("host-ir-lower"),
    },
}
# Further ways, with --more.
MORE = {
    "ag": {
        "ring-cuda-get": annotated("{allgather=ring,communicator_backend=CUDA,p2p_stream=own}"),
        "ring-cuda-worker": annotated(f"{{allgather=ring,{PUT}}}"),
        "ring-cuda-sync": annotated(f"{{allgather=ring,{PUT},inter_stream_synchronization=true}}"),
        "broadcast": annotated("{allgather=broadcast}"),
    },
    "rs": {
        "p2p-cuda-get": annotated("{matmul_reduce_scatter=p2p,own_part=last,communicator_backend=CUDA}"),
        "p2p-cuda-worker": annotated(f"{{matmul_reduce_scatter=p2p,own_part=last,{PUT}}}"),
        "exchange": plain("overlap-lower{matmul_reduce_scatter=p2p}"),
        "p2p-cuda-own-first": annotated(f"{{matmul_reduce_scatter=p2p,{PUT}}}"),
    },
}


def ways(kind: str, more: bool = False) -> dict[str, Way]:
    """The ways of a kind of row by name; with `more` also the further ones."""
    return {**WAYS[kind], **(MORE.get(kind, {}) if more else {})}


def streams(kind: str, devices: int) -> int | None:
    """Streams that all programs of a kind get; None where each program names its own number."""
    # A message of a scatter goes when its product is there: with a stream for each, no product waits for one.
    return {"ag": 2, "rs": devices}.get(kind)


def misfit(name: str, devices: int) -> str | None:
    """The reason that a row does not fit so many devices; None if it does."""
    row = ROWS[name]
    if row.m % devices:
        return f"its {row.m} rows are no multiple of {devices} devices"
    if row.kind in ("rs", "ar", "scaled-rs") and row.k % devices:
        return f"its depth {row.k} is no multiple of {devices} devices"
    if row.kind in ("mlp", "training") and row.n % devices:
        return f"its ffn {row.n} is no multiple of {devices} devices"
    return None


def title(row: RowRecord) -> str:
    """A row by its kind, sizes and devices."""
    what = KINDS[row["kind"]]
    return f"{what} {row['m']},{row['k']},{row['n']} {row['dtype']}, {row['devices']} {row.get('ranks', 'GPUs')}"


# ---- bars ----


class Bar(NamedTuple):
    """A measure of rows beside a number. `bars` says how each measure and rule is computed."""

    rows: tuple[str, ...]
    measure: str
    rule: str
    bar: float


GATHERS = tuple(name for name, row in ROWS.items() if row.kind == "ag" and not name.startswith("small"))
SCATTERS = ("rs1", "rs2", "rs3", "rs4")
SMALLS = tuple(name for name in ROWS if name.startswith("small"))
BARS = (
    Bar(GATHERS, "torch", "reaches", 1.00),
    Bar(GATHERS, "gap", "at most", 0.02),
    Bar(SCATTERS, "torch", "reaches", 1.00),
    Bar(("rs1",), "torch", "at least", 1.06),
    Bar(SCATTERS, "geometric mean", "at least", 1.02),
    Bar(("rs1",), "gap", "at most", 0.08),
    Bar(("rs2",), "gap", "at most", 0.05),
    Bar(("rs3",), "gap", "at most", 0.10),
    Bar(("rs4",), "gap", "at most", 0.03),
    Bar(("ar1", "ar2", "ar3", "ar4"), "serial graph", "at least", 1.24),
    Bar(("ar1",), "gap", "at most", 0.23),
    Bar(("ar2", "ar3", "ar4"), "gap", "at most", 0.15),
    Bar(("mlp-forward", "mlp-training"), "async-tp", "at least", 1.03),
    Bar(("fp8-ag", "fp8-rs"), "async-tp", "at least", 1.05),
    Bar(SMALLS, "serial", "reaches", 1.00),
    Bar(SMALLS, "graph", "above", 1.00),
    Bar(("copies",), "64 MB", "at least", 345.0),
)
