"""What agents with an episodic memory share: acting, writing and the loss."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.episodic_config import EpisodicConfig
from nec_tf.agents.exploration import Exploration
from nec_tf.agents.n_step_window import NStepObserver, NStepTuples
from nec_tf.agents.policies import EpisodicPolicy, NecInfo
from nec_tf.agents.returns import first_return
from nec_tf.agents.specs import require_keys, require_num_actions, require_one_observation
from nec_tf.memory.dnd import DifferentiableNeuralDictionary
from nec_tf.memory.state_ids import hash_states
from nec_tf.networks.tf_agents_networks import as_keras_model
from nec_tf.runtime.errors import UserError
from nec_tf.serving import memory_files
from nec_tf.serving.freezing import Frozen, freeze_memory
from nec_tf.serving.frozen_memory import FrozenNetwork, exact_memory
from nec_tf.serving.frozen_policy import FrozenPolicy


class Experience(NamedTuple):
    """Training data of `train`: (`s_t`, `a_t`, `R_t`).

    Attributes:
        observation: [B, ...].
        action: [B].
        returns: `R_t = Q^(N)(s_t, a_t)`, float32 [B].
        valid: False for the step between two episodes, which is no transition, bool [B].
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
    """Looks up every action's memory and takes the action with the highest value.

    An observer behind any driver, `memory_observer`, writes the memory from what the collect policy
    does. `train` takes `Experience` [B], or trajectories [B, T] of a replay buffer, which
    `preprocess_sequence` turns into experience with (T - 1)-step returns. See docs/tf_agents.md.

    Attributes:
        config: Settings.
        embedding: The network from observations to keys.
        dnd: The memory.
        exploration: Random numbers and epsilon schedule.
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
        """Makes an agent with an empty memory.

        Args:
            time_step_spec: Time step spec of the environment.
            action_spec: One integer action from 0 to A - 1.
            embedding: From observations [B, ...] to keys [B, config.key_size]: a Keras model or a
                network of TF-Agents.
            config: Settings.
            seed: Random seed of exploration; None draws one.
            train_step_counter: Incremented by each `train`.
            **memory: Further arguments of the memory: kernel, update rule.

        Raises:
            UserError: A spec is not supported; the message says which are.
        """
        time_step_spec = tensor_spec.from_spec(time_step_spec)
        action_spec = tensor_spec.from_spec(action_spec)
        require_one_observation(time_step_spec.observation)
        embedding = as_keras_model(embedding)
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
            taken_q=tf.TensorSpec([], tf.float32, "taken_q") if config.greedy_returns else (),
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
                self.exploration,
                self.exploration.generator,
                info_spec,
                name="episodic_collect_policy",
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
        """Returns an observer that writes steps to the memory. Each driver needs its own."""
        config = self.config
        return NStepObserver(
            config.horizon, config.discount, self.write, greedy_returns=config.greedy_returns
        )

    def post_process_policy(self) -> FrozenPolicy:
        """Returns a greedy policy over a frozen copy of the network and the memory.

        Its lookup is exact and uses TensorFlow's own operations only, so that `PolicySaver` can
        save it. `policy` cannot be saved: it searches a neighbour index in Python.
        """
        network = FrozenNetwork(self.embedding, exact_memory(self.dnd))
        return FrozenPolicy(self.time_step_spec, self.action_spec, network)

    def freeze(self, lookup: str, recall: float, states: np.ndarray) -> Frozen:
        """Returns the agent as it leaves training; see `nec_tf.serving.exporting.export`."""
        if not self.dnd.sizes.any():
            raise UserError("the memory is empty: train the agent before it is exported")
        memory = memory_files.of_layer(self.dnd, self.embedding, {})
        network, measured = freeze_memory(memory, self.dnd, self.embedding, lookup, recall, states)
        policy = FrozenPolicy(self.time_step_spec, self.action_spec, network)
        return Frozen(policy, memory, measured)

    def write(self, tuples: NStepTuples) -> int:
        """Appends (`h`, `Q^(N)`) to the memory of each action taken (Algorithm 1).

        Returns:
            The number of states that were known.
        """
        ids = None if self.config.recognise_by_key else hash_states(tuples.observations)
        known = self.dnd.write(tuples.actions, tuples.keys, tuples.returns, ids)
        return int(known)

    def trackables(self) -> dict[str, Any]:
        """Returns what `tf.train.Checkpoint` has to save for an exact resume."""
        return {
            "embedding": self.embedding,
            "dnd": self.dnd,
            **self.exploration.trackables(),
            "train_step_counter": self.train_step_counter,
        }

    def _preprocess_sequence(self, experience: trajectory.Trajectory) -> Experience:
        """Returns training data: the first state, action and (T - 1)-step return of sequences.

        Args:
            experience: [B, T, ...] or [T, ...], T at least 2, of consecutive steps; steps
                after the end of an episode inside a sequence are ignored.

        Returns:
            [B], or one without an outer dimension.
        """
        length = experience.reward.shape[-1]
        if length is not None and length < 2:
            raise ValueError(
                f"a sequence must have at least 2 steps, not {length}: the return of a step ends in"
                " the value of a later one. Sample with num_steps=config.horizon + 1"
            )
        if self.config.greedy_returns:
            raise ValueError(
                "greedy_returns are computed by memory_observer and by NecLearner, not from the"
                " trajectories of a replay buffer: train on Experience, or turn greedy_returns off"
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
        left_out: tf.Tensor | None = None,
    ) -> tf_agent.LossInfo:
        """The L2 loss between `Q(s_t, a_t)` and `R_t` (paper, section 3.4).

        Args:
            experience: As in `train`.
            weights: As in `train`.
            training: As in Keras.
            left_out: Ids of states whose entries are not looked up, int64 [B, n].
        """
        if isinstance(experience, trajectory.Trajectory):
            experience = self._preprocess_sequence(experience)
        keys = self._queries(experience.observation, training)
        q = self.dnd.lookup(keys, experience.action, stamp=False, left_out=left_out)
        error = tf.where(experience.valid, q - experience.returns, 0.0)
        losses = tf.square(self._in_units_of_loss(error))
        losses = losses if weights is None else weights * losses
        return tf_agent.LossInfo(
            tf.reduce_mean(losses),
            EpisodicLoss(tf.reduce_mean(q), tf.reduce_mean(tf.abs(error))),
        )

    def _queries(self, observation: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the keys that `_loss` looks up."""
        return self.embedding(observation, training=training)

    def _in_units_of_loss(self, error: tf.Tensor) -> tf.Tensor:
        """Converts errors [B] from points."""
        return error

    def embedding_replaced(self) -> None:
        """Called after the weights of `embedding` were replaced from outside."""

    def _train(
        self, experience: Experience | trajectory.Trajectory, weights: types.Tensor = None
    ) -> tf_agent.LossInfo:
        """Only computes the loss: such an agent learns by writing."""
        loss = self._loss(experience, weights, training=False)
        self.train_step_counter.assign_add(1)
        return loss


class _QFunction:
    """A `QFunction`: the embedding, then the memory."""

    def __init__(
        self, embedding: tf.keras.Model, dnd: DifferentiableNeuralDictionary, training: bool
    ) -> None:
        """If not `training`, lookups leave no trace in the memory."""
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
        return self._dnd.lookup_from_candidates(keys, candidates, stamp=self._training)
