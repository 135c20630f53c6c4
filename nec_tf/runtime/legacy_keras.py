"""Selects Keras 2 where TensorFlow would load Keras 3, which TF-Agents does not support.

`nec_tf/__init__.py` imports this module before TensorFlow, which reads the variable while it is
imported; processes that are started from this one inherit it. With TensorFlow 2.15, whose Keras is
Keras 2, the variable is neither set nor needed.
"""

import importlib.metadata
import os
import sys

_VARIABLE = "TF_USE_LEGACY_KERAS"

if not importlib.metadata.version("keras").startswith("2."):
    if "tensorflow" not in sys.modules:
        os.environ.setdefault(_VARIABLE, "1")
    if os.environ.get(_VARIABLE) not in ("1", "true", "True"):  # TensorFlow's own condition
        raise ImportError(
            f"nec_tf needs Keras 2, and TensorFlow uses Keras 3: import nec_tf before tensorflow,"
            f" or set {_VARIABLE}=1"
        )
