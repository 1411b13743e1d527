"""Environments for benchmarks, one source folder each under `environments/`."""
