"""Default settings of the memory, importable without TensorFlow."""

CAPACITY = 500_000  # entries of one action's memory; paper, section 4
NUM_NEIGHBOURS = 50  # p; paper, section 4
ALPHA = 0.1  # reported by an implementation that reproduced the curves (docs/algorithm.md)
RMSPROP_DECAY = 0.95  # reported with settings from an author of the paper (docs/algorithm.md)
RMSPROP_EPSILON = 0.01  # same origin; added inside the square root
