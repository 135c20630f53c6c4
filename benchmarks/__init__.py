"""Benchmarks: `python -m benchmarks.NAME [--json]`. Bars are ratios within one run."""
