"""Q*(lambda) and Retrace(lambda) as experiments run them: DQN's learner on replayed sequences."""

import functools
from typing import Any

import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.agents.dqn.learner import DqnLearner
from nec_tf.agents.lambda_returns.agent import LambdaAgent, Traces
from nec_tf.agents.lambda_returns.config import QStarLambdaConfig, RetraceLambdaConfig
from nec_tf.agents.returns import q_star_traces, retrace_traces
from nec_tf.replay.sequence_replay import SequenceReplay


class LambdaLearner(DqnLearner):
    """The learner of DQN, with sequences as its minibatches and trace coefficients given to it."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: QStarLambdaConfig,
        seed: int,
        *,
        traces: Traces,
        target_epsilon: float,
    ) -> None:
        """Makes a learner with an empty replay; arguments as in `LambdaAgent`."""
        super().__init__(
            time_step_spec,
            action_spec,
            embedding,
            config,
            seed,
            make_agent=functools.partial(LambdaAgent, traces=traces, target_epsilon=target_epsilon),
            # A step more than is trained: the last one shows what the one before led to.
            make_replay=functools.partial(SequenceReplay, length=config.sequence_length + 1),
        )


class QStarLambdaLearner(LambdaLearner):
    """Q*(lambda): traces are never cut, and the target policy is greedy."""

    def __init__(self, *arguments: Any) -> None:
        """Makes a learner with an empty replay; arguments as in `DqnLearner`."""
        super().__init__(*arguments, traces=q_star_traces, target_epsilon=0.0)


class RetraceLambdaLearner(LambdaLearner):
    """Retrace(lambda): traces are cut as far as the target policy avoids an action."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: RetraceLambdaConfig,
        seed: int,
    ) -> None:
        """Makes a learner with an empty replay; arguments as in `DqnLearner`."""
        super().__init__(
            time_step_spec,
            action_spec,
            embedding,
            config,
            seed,
            traces=retrace_traces,
            target_epsilon=config.target_epsilon,
        )
