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
    """Model-Free Episodic Control. It learns by writing; `train` only increments its counter.

    >>> import tensorflow as tf
    >>> from tf_agents.specs import BoundedTensorSpec
    >>> from tf_agents.trajectories import time_step as ts
    >>> from nec_tf import MfecAgent, MfecConfig, encoders
    >>> config = MfecConfig.small()
    >>> agent = MfecAgent(
    ...     ts.time_step_spec(tf.TensorSpec([4], tf.float32)),
    ...     BoundedTensorSpec([], tf.int64, 0, 1),
    ...     encoders.random_projection([4], config.key_size),
    ...     config,
    ...     seed=1,
    ... )
    >>> agent.policy.action(ts.restart(tf.zeros([1, 4]), batch_size=1)).action.shape
    TensorShape([1])
    """

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
