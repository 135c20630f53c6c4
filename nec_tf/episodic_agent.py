"""What agents with an episodic memory share: acting, writing, and saying how far off they are."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.dnd import DifferentiableNeuralDictionary
from nec_tf.episodic_config import EpisodicConfig
from nec_tf.exploration import Exploration
from nec_tf.frozen_memory import FrozenNetwork, exact_memory
from nec_tf.n_step_driver import NStepObserver, NStepTuples
from nec_tf.policies import EpisodicPolicy, NecInfo
from nec_tf.recognition import identify
from nec_tf.returns import first_return
from nec_tf.saved_policy import FrozenPolicy
from nec_tf.specs import require_keys, require_num_actions, require_one_observation


class Experience(NamedTuple):
    """What `train` learns from: (`s_t`, `a_t`, `R_t`).

    Attributes:
        observation: [B, ...].
        action: [B].
        returns: `R_t = Q^(N)(s_t, a_t)`, float32 [B].
        valid: Whether it is a step at all, bool [B]; that between two episodes is not.
    """

    observation: Any
    action: Any
    returns: Any
    valid: Any


class EpisodicLoss(NamedTuple):
    """The `extra` of a `LossInfo`.

    Attributes:
        q: Mean of the predicted Q-values.
        error: Mean absolute difference from the returns.
    """

    q: tf.Tensor
    error: tf.Tensor


class EpisodicAgent(tf_agent.TFAgent):
    """Acts by what it remembers: every action's memory is looked up, the best answer wins.

    The memory is written by an observer of what the collect policy does, `memory_observer`, behind
    any driver. `train` takes `Experience` [B], or trajectories [B, T] of a replay buffer, of which
    `preprocess_sequence` makes experience with (T - 1)-step returns. docs/tf_agents.md has more.

    Attributes:
        config: Settings.
        embedding: From observations to keys.
        dnd: The memory.
        exploration: The chance in its actions.
    """

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: EpisodicConfig,
        seed: int | None,
        train_step_counter: tf.Variable | None,
        **memory: Any,
    ) -> None:
        """An agent with an empty memory.

        Args:
            time_step_spec: Of the environment.
            action_spec: One integer action from 0 to A - 1.
            embedding: From observations [B, ...] to keys [B, config.key_size].
            config: Settings.
            seed: Of exploration; None draws one.
            train_step_counter: Raised by one with each `train`.
            **memory: What else the memory is made with: its kernel, how it updates.

        Raises:
            ValueError: Where a spec is of a kind that is not supported; the message says which are.
        """
        time_step_spec = tensor_spec.from_spec(time_step_spec)
        action_spec = tensor_spec.from_spec(action_spec)
        require_one_observation(time_step_spec.observation)
        require_keys(embedding, time_step_spec.observation, config.key_size)
        self.config = config
        self.embedding = embedding
        self.dnd = DifferentiableNeuralDictionary(
            require_num_actions(action_spec),
            config.key_size,
            config.capacity,
            config.num_neighbours,
            index=config.index,
            recognise_by_key=config.recognise_by_key,
            **memory,
        )
        self.exploration = Exploration(config, seed)
        info_spec = NecInfo(
            key=tf.TensorSpec([config.key_size], tf.float32, "key"),
            best_q=tf.TensorSpec([], tf.float32, "best_q"),
        )
        super().__init__(
            time_step_spec,
            action_spec,
            policy=EpisodicPolicy(
                time_step_spec,
                action_spec,
                _QFunction(embedding, self.dnd, training=False),
                config.evaluation_epsilon,
                self.exploration.evaluation_generator,
                name="episodic_policy",
            ),
            collect_policy=EpisodicPolicy(
                time_step_spec,
                action_spec,
                _QFunction(embedding, self.dnd, training=True),
                self.exploration.next_epsilon,
                self.exploration.generator,
                info_spec,
                name="episodic_collect_policy",
                repeated=self.exploration.repeated,
            ),
            train_sequence_length=None,
            num_outer_dims=1,
            training_data_spec=Experience(
                observation=time_step_spec.observation,
                action=action_spec,
                returns=tf.TensorSpec([], tf.float32, "returns"),
                valid=tf.TensorSpec([], tf.bool, "valid"),
            ),
            train_step_counter=train_step_counter,
        )

    def memory_observer(self) -> NStepObserver:
        """Returns an observer that writes what it sees to the memory; for one driver."""
        return NStepObserver(self.config.horizon, self.config.discount, self.write)

    def post_process_policy(self) -> FrozenPolicy:
        """Returns a greedy policy of the network and the memory as they are now.

        Its lookup is exact and made of TensorFlow's own operations only, so that `PolicySaver` can
        save it; `policy` asks a neighbour index that lives in Python.
        """
        network = FrozenNetwork(self.embedding, exact_memory(self.dnd))
        return FrozenPolicy(self.time_step_spec, self.action_spec, network)

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
            **self.exploration.trackables(),
            "train_step_counter": self.train_step_counter,
        }

    def _preprocess_sequence(self, experience: trajectory.Trajectory) -> Experience:
        """Makes training data of sequences: their first state, action and (T - 1)-step return.

        Args:
            experience: [B, T, ...] or [T, ...], T at least 2, of consecutive steps; what follows
                the end of an episode inside a sequence has no part in it.

        Returns:
            [B], or one without an outer dimension.
        """
        length = experience.reward.shape[-1]
        if length is not None and length < 2:
            raise ValueError(
                f"a sequence must have at least 2 steps, not {length}: the return of a step ends in"
                " the value of a later one. Sample with num_steps=config.horizon + 1"
            )
        returns = first_return(
            experience.reward,
            experience.discount,
            tf.equal(experience.next_step_type, ts.StepType.LAST),
            experience.policy_info.best_q,
            self.config.discount,
        )
        time = len(experience.reward.shape) - 1
        return Experience(
            tf.gather(experience.observation, 0, axis=time),
            experience.action[..., 0],
            returns,
            tf.not_equal(experience.step_type[..., 0], ts.StepType.LAST),
        )

    def _loss(
        self,
        experience: Experience | trajectory.Trajectory,
        weights: types.Tensor = None,
        training: bool = False,
    ) -> tf_agent.LossInfo:
        """The L2 loss between `Q(s_t, a_t)` and `R_t` (paper, section 3.4)."""
        if isinstance(experience, trajectory.Trajectory):
            experience = self._preprocess_sequence(experience)
        keys = self._queries(experience.observation, training)
        q = self.dnd.lookup(keys, experience.action, stamp=False)
        error = tf.where(experience.valid, q - experience.returns, 0.0)
        losses = tf.square(error) if weights is None else weights * tf.square(error)
        return tf_agent.LossInfo(
            tf.reduce_mean(losses),
            EpisodicLoss(tf.reduce_mean(q), tf.reduce_mean(tf.abs(error))),
        )

    def _queries(self, observation: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the keys that `_loss` looks up."""
        return self.embedding(observation, training=training)

    def embedding_replaced(self) -> None:
        """Hears that `embedding` got weights from elsewhere."""

    def _train(
        self, experience: Experience | trajectory.Trajectory, weights: types.Tensor = None
    ) -> tf_agent.LossInfo:
        """Only tells the loss: what there is to learn is learned by writing."""
        loss = self._loss(experience, weights, training=False)
        self.train_step_counter.assign_add(1)
        return loss


class _QFunction:
    """The embedding, then the memory: a `QFunction`."""

    def __init__(
        self, embedding: tf.keras.Model, dnd: DifferentiableNeuralDictionary, training: bool
    ) -> None:
        """Where not training, lookups leave no trace in the memory."""
        self._embedding = embedding
        self._dnd = dnd
        self._training = training

    def __call__(self, observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        keys = self.keys(observation)
        return keys, self._dnd(keys, training=self._training)

    def keys(self, observation: tf.Tensor) -> tf.Tensor:
        return self._embedding(observation, training=self._training)

    def candidates(self, keys: tf.Tensor) -> np.ndarray:
        return self._dnd.candidates(keys)

    def q_values(self, keys: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        return self._dnd.answers(keys, candidates, stamp=self._training)
