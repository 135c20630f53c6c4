"""Prioritised replay (Schaul et al., 2016): steps are drawn in proportion to their priorities."""

import numpy as np
from numpy.typing import DTypeLike
from tf_agents.trajectories import trajectory

from nec_tf.replay.frame_ring import check_fits
from nec_tf.replay.step_replay import StepReplay
from nec_tf.replay.sum_tree import SumTree


class PrioritisedReplay(StepReplay):
    """A ring of the newest steps. `P(i) = p_i^alpha / sum_k p_k^alpha` (equation 1).

    A step gets the largest priority so far when the step that follows it is added, so that every
    step is likely to be replayed soon after it was played. Until then, and between episodes, its
    weight in the tree is 0.
    """

    def __init__(
        self,
        capacity: int,
        observation_shape: tuple[int, ...],
        dtype: DTypeLike,
        priority_exponent: float,
    ) -> None:
        """Makes an empty replay.

        Args:
            capacity: As in `StepReplay`.
            observation_shape: As in `StepReplay`.
            dtype: As in `StepReplay`.
            priority_exponent: alpha; 0 draws uniformly.
        """
        super().__init__(capacity, observation_shape, dtype)
        self._exponent = priority_exponent
        self._tree = SumTree(capacity)  # of p_i^alpha, by the place of a step
        self._largest = 1.0  # p_1 of algorithm 1

    def add(self, experience: trajectory.Trajectory) -> None:
        """Appends one step of every environment, [B, ...]; the steps before them can be drawn."""
        streams = range(len(experience.reward))
        before = np.array([self._last_of.get(stream, -1) for stream in streams])
        first, new = self._first, self._next
        super().add(experience)
        known = before[before >= self._first]
        known = known[self._begins_sequence(known)]
        gone = np.concatenate([np.arange(first, self._first), np.arange(new, self._next)])
        weights = np.repeat([0.0, self._largest**self._exponent], [len(gone), len(known)])
        self._tree.set(np.concatenate([gone, known]) % self._capacity, weights)

    def draw(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        """Returns the numbers of steps drawn by priority, int64 [B].

        The sum of all weights is divided into B equal ranges, and one step is drawn from each, as
        in appendix B.2.1 of the paper.

        Raises:
            ValueError: It holds no two steps that followed each other.
        """
        if self._tree.total == 0.0:
            self._require_a_sequence()
        sums = (np.arange(batch_size) + rng.random(batch_size)) * (self._tree.total / batch_size)
        places = self._tree.find(sums)
        return self._first + (places - self._first) % self._capacity

    def importance_weights(self, steps: np.ndarray, exponent: float) -> np.ndarray:
        """Returns `w_i / max_j w_j` with `w_i = (N P(i))^-beta` (section 3.4).

        N and the sum of all priorities cancel out.

        Args:
            steps: Numbers of the steps of a minibatch, [B].
            exponent: beta; 0 corrects nothing, 1 corrects the bias fully.

        Returns:
            float32 [B]; the largest one is 1.
        """
        weights = self._tree.weights[steps % self._capacity]
        return ((weights / weights.min()) ** -exponent).astype(np.float32)

    def set_priorities(self, steps: np.ndarray, priorities: np.ndarray) -> None:
        """Replaces the priorities of steps that were drawn since the last `add`.

        Args:
            steps: Their numbers, [B].
            priorities: `p_i`, above 0, [B].
        """
        self._largest = max(self._largest, float(priorities.max()))
        self._tree.set(steps % self._capacity, priorities**self._exponent)

    def state(self) -> dict[str, np.ndarray]:
        """See `StepReplay`; the sums of the tree follow from its weights."""
        return {
            **super().state(),
            "priority_weights": self._tree.weights[: min(self._next, self._capacity)],
            "largest_priority": np.array(self._largest),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """See `StepReplay`."""
        super().restore(state)
        check_fits(self._tree.weights, state, "priority_weights")
        self._tree.restore(state["priority_weights"])
        self._largest = float(state["largest_priority"])
