"""MFEC as experiments run it: plays to the end of an episode, then writes its returns."""

import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.agents.episodic_learner import EpisodicLearner
from nec_tf.agents.mfec.agent import MfecAgent
from nec_tf.agents.mfec.config import MfecConfig


class MfecLearner(EpisodicLearner):
    """Writes the return of every step when its episode ends."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: MfecConfig,
        seed: int,
    ) -> None:
        """Makes a learner with an empty memory; arguments as in `MfecAgent`."""
        super().__init__(MfecAgent(time_step_spec, action_spec, embedding, config, seed))
