"""Settings of all tests. Beside it lie modules that tests share: `reference` and `memories`."""

import os

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# The same examples in every run, however slow the machine: a red test is a broken program.
hypothesis.settings.register_profile(
    "repeatable", max_examples=30, deadline=None, derandomize=True, database=None
)
hypothesis.settings.load_profile("repeatable")
