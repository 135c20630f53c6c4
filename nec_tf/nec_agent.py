"""The NEC agent (paper, section 3) as a TF-Agents agent."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import gin
import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf import embeddings
from nec_tf.episodic_agent import EpisodicAgent, Experience
from nec_tf.nec_config import NecConfig
from nec_tf.row_rmsprop import RowRMSProp


class Gradients(NamedTuple):
    """Of the loss, by what is trained.

    Attributes:
        network: By the variables of the embedding.
        keys: By the stored keys.
        values: By the stored values, of the same rows.
    """

    network: list[tf.Tensor]
    keys: tf.IndexedSlices
    values: tf.IndexedSlices


@tf.custom_gradient
def with_centred_gradient(keys: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Returns keys [B, key_size] as they are; what their gradients have in common is taken off.

    What all keys have in common does not matter to a memory, which sees distances. But moving all
    new keys away from those that were stored earlier changes every answer at once, and networks
    whose states look alike learn that first: they run from their memory (docs/algorithm.md).
    """
    return keys, lambda gradient: gradient - tf.reduce_mean(gradient, axis=0, keepdims=True)


@gin.configurable
class NecAgent(EpisodicAgent):
    """Neural Episodic Control (Pritzel et al., 2017).

    Acting looks up every action's memory; training looks up only that of the action taken, and
    moves the network, the keys and the values, each with a learning rate of its own.

    Keys are made by a running mean of the network's weights, `embedding`, and gradients move
    another network, `trained`: a memory wants keys that stay where they are, and each update moves
    those of the newest weights by as much as neighbours are apart (docs/algorithm.md).

    Attributes:
        trained: The network that gradients move; `embedding` itself where nothing is averaged.
        screens_centred: Whether the mean screen is known, or nobody wants to know it.
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
        """An agent with an empty memory; arguments as in `EpisodicAgent`.

        The defaults of the settings are the paper's where it gives them.
        """
        config = config or NecConfig()
        specs = time_step_spec, action_spec
        super().__init__(*specs, embedding, config, seed, train_step_counter, alpha=config.alpha)
        self._averaging = config.averaging
        self._centred = config.centred_gradients
        self._pixels = embeddings.pixels_of(embedding) if config.centred_screens else None
        self.screens_centred = tf.Variable(self._pixels is None, trainable=False)
        self.trained = self._another(embedding) if config.averaging else embedding
        # The v1 optimizer has epsilon inside the root, as RowRMSProp does; Keras' adds it outside.
        self._optimizer = tf.compat.v1.train.RMSPropOptimizer(
            config.learning_rate, config.rmsprop_decay, epsilon=config.network_epsilon
        )
        self._row_optimizer = RowRMSProp(
            self.dnd,
            config.keys_learning_rate,
            config.values_learning_rate,
            config.rmsprop_decay,
            config.rmsprop_epsilon,
        )

    def trackables(self) -> dict[str, Any]:
        """See `EpisodicAgent`."""
        return {
            **super().trackables(),
            "trained": self.trained,
            "optimizer": self._optimizer,
            "screens_centred": self.screens_centred,
        }

    def centre_screens(self, observations: Iterable[np.ndarray]) -> None:
        """Takes the mean of some states off all states from now on.

        Whoever has stored keys has to make them anew.

        Args:
            observations: Batches of states, [n, ...] each.
        """
        if self._pixels is not None:
            self._pixels.centre_on(observations)
        self.embedding_replaced()

    def embedding_replaced(self) -> None:
        """Hears that `embedding` got weights from elsewhere: training goes on from them."""
        self.screens_centred.assign(True)
        if self.trained is not self.embedding:
            self.trained.set_weights(self.embedding.get_weights())

    def gradients(
        self,
        experience: Experience | trajectory.Trajectory,
        weights: types.Tensor = None,
        between: Callable[[tf.Tensor], tf.Tensor] = tf.ones_like,
    ) -> tuple[tf_agent.LossInfo, Gradients]:
        """Returns the loss and what `apply` takes; changes nothing.

        Args:
            experience: As in `train`.
            weights: As in `train`.
            between: Called with the loss, when all that is read of the network and the memory has
                been read; returns the gradient of the loss by itself, 1.
        """
        tables, variables = self.dnd.tables, self.trained.trainable_variables
        with tf.GradientTape() as tape:
            loss = self._loss(experience, weights, training=True)
        *network, keys, values = tape.gradient(
            loss.loss, [*variables, tables.keys, tables.values], between(loss.loss)
        )
        return loss, Gradients(network, keys, values)

    def apply(self, gradients: Gradients) -> None:
        """Moves the network, the keys and the values; the neighbours that took part are used."""
        variables = self.trained.trainable_variables
        self._optimizer.apply_gradients(zip(gradients.network, variables, strict=True))
        self._average()
        self._row_optimizer.apply(gradients.keys, gradients.values)
        self.dnd.tables.stamp(gradients.values.indices)
        self.train_step_counter.assign_add(1)

    def _queries(self, observation: tf.Tensor, training: bool) -> tf.Tensor:
        network = self.trained if training else self.embedding
        keys = network(observation, training=training)
        return with_centred_gradient(keys) if training and self._centred else keys

    def _another(self, embedding: tf.keras.Model) -> tf.keras.Model:
        """Returns a network of the same architecture and weights, in variables of its own."""
        spec = self.time_step_spec.observation
        try:
            clone = tf.keras.models.clone_model(embedding)
            clone(tf.zeros([1, *spec.shape], spec.dtype))  # makes its variables
            if any(one is other for one in clone.variables for other in embedding.variables):
                raise ValueError("the copy shares variables")
        except (NotImplementedError, TypeError, ValueError) as error:
            raise ValueError(
                "of this embedding Keras cannot make a second one, for the running mean of its"
                " weights: make it Sequential or functional, or set averaging=0"
            ) from error
        clone.set_weights(embedding.get_weights())
        return clone

    def _average(self) -> None:
        """Moves the weights that make keys a little towards those that were trained."""
        if self.trained is self.embedding:
            return
        share = 1.0 - self._averaging
        for mean, newest in zip(self.embedding.variables, self.trained.variables, strict=True):
            mean.assign_sub(share * (mean - newest), read_value=False)

    def _train(
        self, experience: Experience | trajectory.Trajectory, weights: types.Tensor = None
    ) -> tf_agent.LossInfo:
        loss, gradients = self.gradients(experience, weights)
        self.apply(gradients)
        return loss
