"""Model-Free Episodic Control (Blundell et al., 2016), from the parts of NEC.

What differs is given to these parts as a choice: the embedding is fixed (`random_projection`, or
the encoder of a VAE), the kernel is `MeanOrMatch`, a known state keeps the larger return, returns
run to the end of the episode, and nothing is trained by gradients.
"""

import dataclasses

import gin
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.episodic_agent import EpisodicAgent
from nec_tf.episodic_config import EpisodicConfig
from nec_tf.episodic_learner import EpisodicLearner
from nec_tf.settings import setting


@gin.configurable
@dataclasses.dataclass(frozen=True)
class MfecConfig(EpisodicConfig):
    """Settings of MFEC as its paper has them, but for the start: see docs/algorithm.md."""

    discount: float = setting(1.0, "gamma, for a step [MFEC paper]")
    horizon: int = setting(1_000_000, "steps of a return: to the end of any episode [MFEC paper]")
    capacity: int = setting(1_000_000, "entries of each action's memory [MFEC paper]")
    num_neighbours: int = setting(11, "neighbours of a lookup [MFEC paper]")
    epsilon_end: float = setting(0.005, "share of random actions in the end [MFEC paper]")


@gin.configurable
class MfecAgent(EpisodicAgent):
    """Model-Free Episodic Control; `train` only raises its counter, all is learned by writing."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: MfecConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
    ) -> None:
        """An agent with an empty memory; arguments as in `EpisodicAgent`."""
        specs = time_step_spec, action_spec
        super().__init__(
            *specs,
            embedding,
            config or MfecConfig(),
            seed,
            train_step_counter,
            kernel="mean_or_match",
            keep_larger=True,
        )


class MfecLearner(EpisodicLearner):
    """Plays to the end of an episode and writes what it was worth."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: MfecConfig,
        seed: int,
    ) -> None:
        """A learner that knows nothing yet; arguments as in `MfecAgent`."""
        super().__init__(MfecAgent(time_step_spec, action_spec, embedding, config, seed))
