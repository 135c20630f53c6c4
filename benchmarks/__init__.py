"""Speed, measured: `python -m benchmarks.NAME [--json]`. Ratios of one run, never absolute bars."""
