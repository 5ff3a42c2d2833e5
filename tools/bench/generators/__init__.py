"""Writers of large programs: `tools/benchmark generate` prints them, other benchmarks time tools on them."""
