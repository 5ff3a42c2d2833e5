"""Benchmarks of programs inside torch beside torch alone, and what other benchmarks need of torch."""
