"""The NEC agent (paper, section 3) as a TF-Agents agent."""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf import dnd, replay
from nec_tf.n_step_driver import NStepTuples
from nec_tf.policies import EpsilonGreedyPolicy, NecInfo
from nec_tf.recognition import identify
from nec_tf.row_rmsprop import DECAY, EPSILON, RowRMSProp


def _setting(default: Any, explanation: str) -> Any:
    return dataclasses.field(default=default, metadata={"help": explanation})


@dataclasses.dataclass(frozen=True)
class NecConfig:
    """Settings of the agent, each with its origin; "ours" are argued in docs/algorithm.md."""

    # Paper, section 4.
    discount: float = _setting(0.99, "gamma, for a step [paper]")
    horizon: int = _setting(100, "N of the N-step returns, in steps [paper]")
    capacity: int = _setting(dnd.CAPACITY, "entries of each action's memory [paper]")
    num_neighbours: int = _setting(dnd.NUM_NEIGHBOURS, "p, neighbours of a lookup [paper]")
    replay_capacity: int = _setting(replay.CAPACITY, "states in the replay memory [paper]")
    batch_size: int = _setting(32, "states of an update [paper]")
    update_period: int = _setting(4, "steps from one update to the next: 16 frames [paper]")

    # Tuned in the paper but not given there.
    key_size: int = _setting(64, "length of a key [ours]")
    alpha: float = _setting(dnd.ALPHA, "step of the update of a known state's value [reported]")
    learning_rate: float = _setting(1e-4, "of the embedding network [ours]")
    keys_learning_rate: float = _setting(1e-4, "of stored keys; 0 leaves them as written [ours]")
    values_learning_rate: float = _setting(1e-2, "of stored values; 0 likewise [ours]")
    epsilon_start: float = _setting(1.0, "share of random actions at first [reported]")
    epsilon_end: float = _setting(0.01, "share of random actions in the end [ours]")
    epsilon_from: int = _setting(1_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = _setting(10_000, "step at which epsilon is down [ours]")

    # Left open by the paper.
    learning_starts: int = _setting(2_000, "states in the replay before the first update [ours]")
    rmsprop_decay: float = _setting(DECAY, "of the mean square [reported]")
    rmsprop_epsilon: float = _setting(EPSILON, "inside the root [reported]")
    evaluation_epsilon: float = _setting(0.001, "share of random actions in evaluations [ours]")
    recognise_by_key: bool = _setting(
        False, "a state is known by its exact key [paper], not by its observation [ours]"
    )
    index: str = _setting("scann", "who finds neighbours: scann or exact")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        for name in ("horizon", "capacity", "num_neighbours", "replay_capacity", "batch_size"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("update_period", "key_size", "learning_starts"):
            _require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in ("discount", "epsilon_start", "epsilon_end", "evaluation_epsilon"):
            value = getattr(self, name)
            _require(0.0 <= value <= 1.0, f"{name} must be between 0 and 1", value)
        for name in ("learning_rate", "keys_learning_rate", "values_learning_rate"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative", getattr(self, name))
        _require(0.0 < self.alpha <= 1.0, "alpha must be above 0 and at most 1", self.alpha)
        _require(
            self.capacity >= self.num_neighbours,
            f"capacity must be at least num_neighbours ({self.num_neighbours})",
            self.capacity,
        )
        _require(
            self.epsilon_from < self.epsilon_until,
            f"epsilon_from must be before epsilon_until ({self.epsilon_until})",
            self.epsilon_from,
        )


def _require(right: bool, rule: str, value: Any) -> None:
    if not right:
        raise ValueError(f"{rule}, not {value}")


class Experience(NamedTuple):
    """What `train` learns from: (`s_t`, `a_t`, `R_t`).

    Attributes:
        observation: [B, ...].
        action: [B].
        returns: `R_t = Q^(N)(s_t, a_t)`, float32 [B].
    """

    observation: Any
    action: Any
    returns: Any


class NecLoss(NamedTuple):
    """The `extra` of a `LossInfo`.

    Attributes:
        q: Mean of the predicted Q-values.
        error: Mean absolute difference from the returns.
    """

    q: tf.Tensor
    error: tf.Tensor


class NecAgent(tf_agent.TFAgent):
    """Neural Episodic Control (Pritzel et al., 2017).

    Acting looks up every action's memory; training looks up only that of the action taken, and
    moves the network, the keys and the values, each with a learning rate of its own.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: NecConfig | None = None,
        seed: int | None = None,
        train_step_counter: tf.Variable | None = None,
    ) -> None:
        """An agent with an empty memory.

        Args:
            time_step_spec: Of the environment.
            action_spec: One integer action from 0 to A - 1.
            embedding: From observations [B, ...] to keys [B, config.key_size].
            config: Settings; the defaults are the paper's where it gives them.
            seed: Of exploration; None draws one.
            train_step_counter: Raised by one with each `train`.
        """
        config = config or NecConfig()
        action_spec = tensor_spec.from_spec(action_spec)
        num_actions = int(action_spec.maximum) + 1
        self.config = config
        self.embedding = embedding
        self.dnd = dnd.DifferentiableNeuralDictionary(
            num_actions,
            config.key_size,
            config.capacity,
            config.num_neighbours,
            alpha=config.alpha,
            index=config.index,
            recognise_by_key=config.recognise_by_key,
        )
        self.generator = (
            tf.random.Generator.from_non_deterministic_state()
            if seed is None
            else tf.random.Generator.from_seed(seed)
        )
        # Evaluations draw from a source of their own, so that they leave no trace in training.
        self.evaluation_generator = self.generator.split(1)[0]
        self.steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="steps")
        # The v1 optimizer has epsilon inside the root, as RowRMSProp does; Keras' adds it outside.
        self._optimizer = tf.compat.v1.train.RMSPropOptimizer(
            config.learning_rate, config.rmsprop_decay, epsilon=config.rmsprop_epsilon
        )
        self._row_optimizer = RowRMSProp(
            self.dnd,
            config.keys_learning_rate,
            config.values_learning_rate,
            config.rmsprop_decay,
            config.rmsprop_epsilon,
        )
        info_spec = NecInfo(
            key=tf.TensorSpec([config.key_size], tf.float32, "key"),
            best_q=tf.TensorSpec([], tf.float32, "best_q"),
        )
        super().__init__(
            time_step_spec,
            action_spec,
            policy=EpsilonGreedyPolicy(
                time_step_spec,
                action_spec,
                lambda observation: self._q_values(observation, training=False),
                config.evaluation_epsilon,
                self.evaluation_generator,
                name="nec_policy",
            ),
            collect_policy=EpsilonGreedyPolicy(
                time_step_spec,
                action_spec,
                lambda observation: self._q_values(observation, training=True),
                self._next_epsilon,
                self.generator,
                info_spec,
                name="nec_collect_policy",
            ),
            train_sequence_length=None,
            num_outer_dims=1,
            training_data_spec=Experience(
                observation=time_step_spec.observation,
                action=action_spec,
                returns=tf.TensorSpec([], tf.float32, "returns"),
            ),
            train_step_counter=train_step_counter,
        )

    def write(self, tuples: NStepTuples) -> int:
        """Appends (`h`, `Q^(N)`) to the memory of each action taken (Algorithm 1).

        Returns:
            How many of the states were known.
        """
        ids = None if self.config.recognise_by_key else identify(tuples.observations)
        known = self.dnd.write(tuples.actions, tuples.keys, tuples.returns, ids)
        return int(known)

    def trackables(self) -> dict[str, Any]:
        """What `tf.train.Checkpoint` has to save for the agent to go on as if never stopped."""
        return {
            "embedding": self.embedding,
            "dnd": self.dnd,
            "optimizer": self._optimizer,
            "generator": self.generator,
            "steps": self.steps,
            "train_step_counter": self.train_step_counter,
        }

    def epsilon_at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the share of random actions at a step: level, falling in a line, level."""
        config = self.config
        length = config.epsilon_until - config.epsilon_from
        done = (tf.cast(step, tf.float32) - config.epsilon_from) / length
        fall = config.epsilon_start - config.epsilon_end
        return config.epsilon_start - fall * tf.clip_by_value(done, 0.0, 1.0)

    def _next_epsilon(self, batch: tf.Tensor) -> tf.Tensor:
        return self.epsilon_at(self.steps.assign_add(tf.cast(batch, tf.int64)))

    def _q_values(self, observation: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        keys = self.embedding(observation, training=training)
        return keys, self.dnd(keys, training=training)

    def _loss(
        self, experience: Experience, weights: types.Tensor = None, training: bool = False
    ) -> tf_agent.LossInfo:
        """The L2 loss between `Q(s_t, a_t)` and `R_t` (paper, section 3.4)."""
        keys = self.embedding(experience.observation, training=training)
        q = self.dnd(keys, experience.action, training=training)
        error = q - experience.returns
        losses = tf.square(error) if weights is None else weights * tf.square(error)
        return tf_agent.LossInfo(
            tf.reduce_mean(losses),
            NecLoss(tf.reduce_mean(q), tf.reduce_mean(tf.abs(error))),
        )

    def _train(self, experience: Experience, weights: types.Tensor = None) -> tf_agent.LossInfo:
        tables = self.dnd.tables
        variables = self.embedding.trainable_variables
        with tf.GradientTape() as tape:
            loss = self._loss(experience, weights, training=True)
        *gradients, of_keys, of_values = tape.gradient(
            loss.loss, [*variables, tables.keys, tables.values]
        )
        self._optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self._row_optimizer.apply(of_keys, of_values)
        self.train_step_counter.assign_add(1)
        return loss
