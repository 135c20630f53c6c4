"""DQN (Mnih et al., 2015): TF-Agents' own agent, with the settings and the network of its paper."""

import collections
import dataclasses
import json
from typing import Any

import gin
import numpy as np
import tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.networks import sequential
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types
from tf_agents.utils import common

from nec_tf.baselines.step_replay import StepReplay
from nec_tf.exploration import Exploration, ExplorationConfig
from nec_tf.graphs import Graph
from nec_tf.policies import EpsilonGreedyPolicy
from nec_tf.settings import require, require_at_least_1, require_shares, setting
from nec_tf.specs import require_num_actions, require_one_observation


@gin.configurable
@dataclasses.dataclass(frozen=True)
class DqnConfig(ExplorationConfig):
    """Settings of Nature DQN, Extended Data Table 1; what it calls a frame is a step of ours."""

    discount: float = setting(0.99, "gamma, for a step [Nature DQN]")
    key_size: int = setting(512, "units of the layer before the Q-values [Nature DQN]")
    replay_capacity: int = setting(1_000_000, "steps in the replay memory [Nature DQN]")
    batch_size: int = setting(32, "steps of an update [Nature DQN]")
    update_period: int = setting(4, "steps from one update to the next [Nature DQN]")
    target_period: int = setting(10_000, "updates of a target network's life [Nature DQN]")
    learning_rate: float = setting(2.5e-4, "of the network [Nature DQN]")
    learning_starts: int = setting(50_000, "steps before the first update [Nature DQN]")
    rmsprop_decay: float = setting(0.95, "of mean and mean square [Nature DQN]")
    rmsprop_epsilon: float = setting(
        0.01 / 32**2,
        "inside the root [Nature DQN's 0.01, whose loss is the sum of 32, not the mean]",
    )
    epsilon_end: float = setting(0.1, "share of random actions in the end [Nature DQN]")
    epsilon_from: int = setting(0, "step at which epsilon begins to fall [Nature DQN]")
    epsilon_until: int = setting(1_000_000, "step at which epsilon is down [Nature DQN]")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        super().__post_init__()
        require_at_least_1(
            self, "key_size", "batch_size", "update_period", "target_period", "learning_starts"
        )
        require_shares(self, "discount", "rmsprop_decay")
        require(
            self.replay_capacity >= max(2, self.learning_starts),
            f"replay_capacity must be at least learning_starts ({self.learning_starts})",
            self.replay_capacity,
        )


@gin.configurable
class DqnAgent(dqn_agent.DqnAgent):
    """TF-Agents' `DqnAgent` whose exploration is seeded and can be checkpointed.

    Attributes:
        exploration: The chance in its actions.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: DqnConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
    ) -> None:
        """An agent that knows nothing yet.

        Args:
            time_step_spec: Of the environment.
            action_spec: One integer action from 0 to A - 1.
            embedding: From observations [B, ...] to the last hidden layer, before its ReLU.
            config: Settings.
            seed: Of exploration and of the last layer's initial weights; None draws them.
            train_step_counter: Raised by one with each `train`.
        """
        time_step_spec = tensor_spec.from_spec(time_step_spec)
        action_spec = tensor_spec.from_spec(action_spec)
        require_one_observation(time_step_spec.observation)
        num_actions = require_num_actions(action_spec)
        config = config or DqnConfig()
        self._evaluation_epsilon = config.evaluation_epsilon
        self.exploration = Exploration(config, seed)
        target = tf.keras.models.clone_model(embedding)
        super().__init__(
            time_step_spec,
            action_spec,
            q_network=_q_network(embedding, num_actions, seed),
            target_q_network=_q_network(target, num_actions, seed),
            # Nature DQN divides by a running standard deviation: that is RMSProp, centred.
            optimizer=tf.compat.v1.train.RMSPropOptimizer(
                config.learning_rate,
                config.rmsprop_decay,
                epsilon=config.rmsprop_epsilon,
                centered=True,
            ),
            target_update_period=config.target_period,
            td_errors_loss_fn=common.element_wise_huber_loss,  # "error clipping" of its paper
            gamma=config.discount,
            train_step_counter=train_step_counter,
        )
        self.initialize()

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` has to save for the agent to go on as if never stopped."""
        return {
            "q_network": self._q_network,
            "target_q_network": self._target_q_network,
            "optimizer": self._optimizer,
            "target_updates": self._update_target,
            "train_step_counter": self.train_step_counter,
            **self.exploration.trackables(),
        }

    def _setup_policy(self, time_step_spec, action_spec, *settings):
        super()._setup_policy(time_step_spec, action_spec, *settings)  # makes the target's policy
        exploration, spec = self.exploration, (time_step_spec, action_spec, self._q_values)
        policy = EpsilonGreedyPolicy(
            *spec, self._evaluation_epsilon, exploration.evaluation_generator
        )
        collect_policy = EpsilonGreedyPolicy(
            *spec, exploration.next_epsilon, exploration.generator, repeated=exploration.repeated
        )
        return policy, collect_policy

    def _q_values(self, observation: tf.Tensor) -> tf.Tensor:
        return self._q_network(observation, training=False)[0]


def _q_network(
    embedding: tf.keras.Model, num_actions: int, seed: int | None
) -> sequential.Sequential:
    """Returns the last layers on an embedding: ReLU, and one linear output for each action."""
    initial = tf.keras.initializers.HeUniform(seed)
    last = tf.keras.layers.Dense(num_actions, kernel_initializer=initial)
    return sequential.Sequential([embedding, tf.keras.layers.ReLU(), last], name="q_network")


class DqnLearner:
    """DQN as a whole: steps go to the replay, rewards clipped, and every few steps it trains.

    Attributes:
        METRICS: Names of what `metrics` can return.
        agent: Its policies act.
    """

    METRICS: tuple[str, ...] = ("epsilon", "replay", "loss")

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: DqnConfig,
        seed: int,
    ) -> None:
        """A learner that knows nothing yet; arguments as in `DqnAgent`."""
        updates = tf.Variable(0, trainable=False, dtype=tf.int64, name="updates")
        self.agent = DqnAgent(time_step_spec, action_spec, embedding, config, seed, updates)
        self._config = config
        observation = self.agent.time_step_spec.observation
        self._replay = StepReplay(
            config.replay_capacity, tuple(observation.shape), observation.dtype.as_numpy_dtype
        )
        self._rng = np.random.default_rng(seed)
        self._train = Graph(self.agent.train)
        self._steps = 0
        self._sums: dict[str, float] = collections.defaultdict(float)

    def observe(self, experience: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...], and makes the updates that are due."""
        clipped = np.clip(experience.reward, -1.0, 1.0)  # Nature DQN
        self._replay.add(experience._replace(reward=clipped))
        before = self._steps
        self._steps += int(np.sum(experience.step_type != ts.StepType.LAST))
        period = self._config.update_period
        if before >= self._config.learning_starts:  # what came before has a successor now
            for _ in range(self._steps // period - before // period):
                self._update()

    def metrics(self) -> dict[str, float]:
        """Returns means since the last call, and how things stand; nothing that is not known."""
        sums, self._sums = self._sums, collections.defaultdict(float)
        exploration = self.agent.exploration
        metrics = {
            "epsilon": float(exploration.epsilon_at(exploration.steps)),
            "replay": float(len(self._replay)),
        }
        return metrics | ({"loss": sums["loss"] / sums["updates"]} if sums["updates"] else {})

    def begin_evaluation(self, seed: int) -> None:
        """Makes the chance in the agent's evaluation policy start from a seed."""
        self.agent.exploration.begin_evaluation(seed)

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` saves."""
        return self.agent.trackables()

    def arrays(self) -> dict[str, np.ndarray]:
        """What is saved beside it: the replay, the source of its samples, a counter."""
        rng = np.array(json.dumps(self._rng.bit_generator.state))
        return {**self._replay.state(), "rng": rng, "steps": np.array(self._steps)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Takes what `arrays` returned; episodes that were under way then are not gone on with."""
        self._replay.restore(arrays)
        self._replay.end_streams()
        self._rng.bit_generator.state = json.loads(str(arrays["rng"]))
        self._steps = int(arrays["steps"])

    def _update(self) -> None:
        """Trains on a random minibatch."""
        info = self._train(self._replay.sample(self._rng, self._config.batch_size))
        self._sums["updates"] += 1
        self._sums["loss"] += float(info.loss)
