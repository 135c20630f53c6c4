"""The lane that the tests run in (docs/dependencies.md), and tests that one lane cannot run."""

import importlib.metadata

import pytest

DEFAULT = importlib.metadata.version("tensorflow").startswith("2.15.")

needs_reverb = pytest.mark.skipif(not DEFAULT, reason="Reverb needs TensorFlow 2.15")
of_the_default_lock = pytest.mark.skipif(not DEFAULT, reason="it reads what requirements.txt locks")
