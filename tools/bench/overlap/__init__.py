"""`tools/overlap-bench`: matmuls that overlap with communication, ours beside torch's.

`rows` lists what is measured, and the bars. `programs` and `blocks` write the programs, and `cases` makes files of them.
`hir_tools` and `torch_side` start the processes of both sides; those of torch run `torch_process`, with `torch_ways` and
`torch_peers`. `measure` times both sides in turn. `paired_ratios`, `bars` and `report` turn times into ratios, verdicts and tables.
`dry_run` checks the programs without GPUs. `cli` reads the command line into `options`.
"""
