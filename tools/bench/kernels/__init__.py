"""Benchmarks of single kernels on one GPU, beside a library or beside nothing."""
