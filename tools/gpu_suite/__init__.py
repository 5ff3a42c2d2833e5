"""`tools/gpu-suite`: the repository's programs on the GPUs of a machine, compared with the CPU.

`cli` reads the command line and runs the parts; `suite` counts what passed and failed. Each other module is a part.
"""
