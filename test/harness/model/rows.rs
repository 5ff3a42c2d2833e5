//! The measured rows: their sizes, and the median milliseconds of each way on 4 H100s.
//!
//! The medians are those of `tools/overlap-bench` on 2026-11-28, over 24 runs of the slowest rank each; the programs
//! are those that it writes (`tools/bench/overlap/programs.py`, `blocks.py`). docs/measurements/overlap-bench.md says
//! how it measures.

/// A way to compute a row, and its median times in milliseconds.
pub(crate) struct WayRow {
    pub(crate) way: &'static str,
    /// Issued call by call.
    pub(crate) calls: f64,
    /// Issued as a CUDA graph.
    pub(crate) graph: f64,
}

/// A row: a GEMM and the communication beside it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// `ag`, `rs`, `ar` or `mlp`.
    pub(crate) kind: &'static str,
    /// The rows, the depth and the columns of the whole GEMM; of a block the tokens, the hidden and the inner extent.
    pub(crate) sizes: [usize; 3],
    /// The ways, and after them the GEMM whole, the GEMM in parts and the communication, each alone.
    pub(crate) ways: &'static [WayRow],
}

const fn way(way: &'static str, calls: f64, graph: f64) -> WayRow {
    WayRow { way, calls, graph }
}

/// The number of devices of all rows.
pub(crate) const DEVICES: usize = 4;

/// The ways that compute a part of a row.
pub(crate) const ALONE: [&str; 3] = ["gemm", "gemm-parts", "comm"];

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "ag1",
        kind: "ag",
        sizes: [8192, 8192, 8192],
        ways: &[
            way("pairwise", 2.982, 2.998),
            way("ring", 2.088, 2.081),
            way("ring-cuda", 1.467, 1.438),
            way("push", 1.466, 1.441),
            way("serial", 1.843, 1.798),
            way("gemm", 1.512, 1.510),
            way("gemm-parts", 1.532, 1.561),
            way("comm", 0.377, 0.372),
        ],
    },
    Row {
        name: "ag2",
        kind: "ag",
        sizes: [16384, 8192, 4096],
        ways: &[
            way("pairwise", 3.760, 3.871),
            way("ring", 2.779, 2.799),
            way("ring-cuda", 1.440, 1.457),
            way("push", 1.424, 1.459),
            way("serial", 2.061, 2.050),
            way("gemm", 1.385, 1.383),
            way("gemm-parts", 1.440, 1.475),
            way("comm", 0.702, 0.694),
        ],
    },
    Row {
        name: "ag4",
        kind: "ag",
        sizes: [4096, 4096, 4096],
        ways: &[
            way("pairwise", 0.626, 0.653),
            way("ring", 0.421, 0.431),
            way("ring-cuda", 0.204, 0.191),
            way("push", 0.204, 0.188),
            way("serial", 0.300, 0.308),
            way("gemm", 0.191, 0.192),
            way("gemm-parts", 0.196, 0.184),
            way("comm", 0.123, 0.111),
        ],
    },
    Row {
        name: "ag6",
        kind: "ag",
        sizes: [16384, 12288, 3072],
        ways: &[
            way("pairwise", 5.142, 5.006),
            way("ring", 3.534, 3.650),
            way("ring-cuda", 1.656, 1.607),
            way("push", 1.664, 1.604),
            way("serial", 2.670, 2.567),
            way("gemm", 1.663, 1.603),
            way("gemm-parts", 1.678, 1.621),
            way("comm", 1.016, 1.002),
        ],
    },
    Row {
        name: "rs1",
        kind: "rs",
        sizes: [8192, 8192, 8192],
        ways: &[
            way("p2p", 1.119, 1.161),
            way("p2p-cuda", 0.528, 0.521),
            way("accumulate", 0.509, 0.488),
            way("serial", 0.727, 0.701),
            way("gemm", 0.365, 0.342),
            way("gemm-parts", 0.409, 0.386),
            way("comm", 0.376, 0.363),
        ],
    },
    Row {
        name: "rs2",
        kind: "rs",
        sizes: [16384, 28672, 8192],
        ways: &[
            way("p2p", 3.711, 4.344),
            way("p2p-cuda", 2.739, 2.753),
            way("accumulate", 2.787, 2.813),
            way("serial", 3.213, 3.280),
            way("gemm", 2.552, 2.571),
            way("gemm-parts", 2.755, 2.760),
            way("comm", 0.719, 0.705),
        ],
    },
    Row {
        name: "rs3",
        kind: "rs",
        sizes: [4096, 16384, 4096],
        ways: &[
            way("p2p", 0.403, 0.418),
            way("p2p-cuda", 0.259, 0.250),
            way("accumulate", 0.277, 0.257),
            way("serial", 0.309, 0.301),
            way("gemm", 0.198, 0.192),
            way("gemm-parts", 0.197, 0.184),
            way("comm", 0.118, 0.110),
        ],
    },
    Row {
        name: "ar1",
        kind: "ar",
        sizes: [8192, 8192, 8192],
        ways: &[
            way("accumulate", 0.865, 0.770),
            way("exchange", 0.856, 0.827),
            way("serial", 0.991, 0.965),
            way("gemm", 0.361, 0.341),
            way("gemm-parts", 0.395, 0.373),
            way("comm", 0.637, 0.623),
        ],
    },
    Row {
        name: "mlp-forward",
        kind: "mlp",
        sizes: [8192, 8192, 28672],
        ways: &[
            way("overlap", 3.026, 3.122),
            way("exchange", 3.100, 3.282),
            way("serial", 3.464, 3.535),
            way("gemm", 2.611, 2.689),
            way("gemm-parts", 2.654, 2.675),
            way("comm", 0.758, 0.743),
        ],
    },
];
