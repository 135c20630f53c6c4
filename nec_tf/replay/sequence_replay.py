"""A replay memory of sequences of steps, with the probabilities of their actions."""

import numpy as np
from numpy.typing import DTypeLike
from tf_agents.trajectories import policy_step, trajectory

from nec_tf.replay.step_replay import StepReplay


class SequenceReplay(StepReplay):
    """A ring of the newest steps, sampled as sequences; keeps the policy's `log_probability`.

    A sequence may run over the end of an episode into the next one of the same environment.
    """

    def __init__(
        self, capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike, length: int
    ) -> None:
        """Makes an empty replay; arguments as in `StepReplay`."""
        super().__init__(capacity, observation_shape, dtype, length)
        self._columns["log_probability"] = np.zeros(capacity, np.float32)

    def _values_of(self, experience: trajectory.Trajectory) -> dict[str, np.ndarray]:
        log_probability = experience.policy_info.log_probability
        return {**super()._values_of(experience), "log_probability": log_probability}

    def _at(self, steps: np.ndarray) -> trajectory.Trajectory:
        log_probability = self._columns["log_probability"][steps % self._capacity]
        return super()._at(steps)._replace(policy_info=policy_step.PolicyInfo(log_probability))
