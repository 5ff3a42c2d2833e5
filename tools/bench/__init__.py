"""Benchmarks: `tools/benchmark` runs those of this package, `tools/overlap-bench` those of `bench.overlap`.

`generators` writes programs, `kernels` measures single kernels, `torch_baselines` measures what torch does, `overlap` measures
matmuls that overlap with communication. The folder `tools` is the root of imports: each command adds it to `sys.path`.
"""
