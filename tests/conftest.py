"""Settings of all tests. Beside it lie modules that tests share: `reference` and `memories`."""

import os

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# oneDNN rounds what it fuses differently in different graphs, and TensorFlow turns it on by itself
# on some processors: tests that compare two graphs to the last digit would pass on others only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import nec_tf  # noqa: F401  (selects Keras 2 before a test imports TensorFlow)

# The same examples in every run, however slow the machine: a red test is a broken program.
hypothesis.settings.register_profile(
    "repeatable", max_examples=30, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("repeatable")
