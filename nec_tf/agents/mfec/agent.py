"""The MFEC agent (Blundell et al., 2016), made of the parts of NEC.

It differs from NEC by choices given to these parts: the embedding is fixed (`random_projection`, or
the encoder of a VAE), the kernel is `MeanOrMatch`, a known state keeps the larger return, returns
run to the end of the episode, and nothing is trained by gradients.
"""

import gin
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.agents.episodic_agent import EpisodicAgent
from nec_tf.agents.mfec.config import MfecConfig


@gin.configurable
class MfecAgent(EpisodicAgent):
    """Model-Free Episodic Control. It learns by writing; `train` only increments its counter."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: MfecConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
    ) -> None:
        """Makes an agent with an empty memory; arguments as in `EpisodicAgent`."""
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
