"""What the processor computes fast."""

import functools
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_FAST_BFLOAT16 = {"avx512_bf16", "amx_bf16"}  # Linux' names of what oneDNN uses


@functools.cache
def has_fast_bfloat16() -> bool:
    """Returns whether bfloat16 is faster than float32 here; False where Linux does not tell."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not _FAST_BFLOAT16.isdisjoint(flags.split())
