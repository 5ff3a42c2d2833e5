"""Tests of the benchmarks by pytest: `.ci/run python`."""
