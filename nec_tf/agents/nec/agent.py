"""The NEC agent (paper, section 3) as a TF-Agents agent."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import gin
import numpy as np
import tensorflow as tf
from absl import logging
from tf_agents.agents import tf_agent
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.episodic_agent import EpisodicAgent, Experience
from nec_tf.agents.n_step_window import NStepTuples
from nec_tf.agents.nec.config import NecConfig
from nec_tf.agents.nec.return_scale import ReturnScale
from nec_tf.memory.row_rmsprop import RowRMSProp
from nec_tf.networks import encoders
from nec_tf.networks.precision import copy_in_bfloat16
from nec_tf.networks.tf_agents_networks import as_keras_model


class Gradients(NamedTuple):
    """Gradients of the loss.

    Attributes:
        network: By the variables of the online network.
        keys: By the stored keys.
        values: By the stored values, of the same rows.
    """

    network: list[tf.Tensor]
    keys: tf.IndexedSlices
    values: tf.IndexedSlices


@tf.custom_gradient
def with_centred_gradient(keys: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Returns keys [B, key_size] unchanged; subtracts the mean from their gradients.

    A lookup depends on distances only, so a shift of all keys should not matter. But moving all new
    keys away from those stored earlier changes every lookup at once, and networks whose states look
    alike learn that first: new keys leave the memory behind (docs/algorithm.md).
    """
    return keys, lambda gradient: gradient - tf.reduce_mean(gradient, axis=0, keepdims=True)


@gin.configurable
class NecAgent(EpisodicAgent):
    """Neural Episodic Control (Pritzel et al., 2017).

    Acting looks up every action's memory. Training looks up only that of the action taken, and
    moves the network, the keys and the values, each with its own learning rate.

    There are two networks of the same architecture. Gradients move the online network; the averaged
    network, a running mean of its weights, makes all keys. Stored keys have to stay comparable with
    new ones, and each update moves the online network's keys by as much as neighbours are apart
    (docs/algorithm.md).

    >>> import tensorflow as tf
    >>> from tf_agents.specs import BoundedTensorSpec
    >>> from tf_agents.trajectories import time_step as ts
    >>> from nec_tf import NecAgent, NecConfig, encoders
    >>> config = NecConfig.small()
    >>> agent = NecAgent(
    ...     ts.time_step_spec(tf.TensorSpec([4], tf.float32)),
    ...     BoundedTensorSpec([], tf.int64, 0, 1),
    ...     encoders.mlp([4], config.key_size),
    ...     config,
    ...     seed=1,
    ... )
    >>> agent.policy.action(ts.restart(tf.zeros([1, 4]), batch_size=1)).action.shape
    TensorShape([1])

    Attributes:
        online_network: The network that gradients move.
        averaged_network: The network that makes keys (also `embedding`); the online network itself
            if `averaging` is 0.
        screens_centred: True once the mean screen has been subtracted, or if `centred_screens` is
            off or the network has no `CentredPixels`.
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
        """Makes an agent with an empty memory; arguments as in `EpisodicAgent`.

        Keys get the length `config.key_length`. The default configuration is `NecConfig()`, for
        Atari.
        """
        config = config or NecConfig()
        embedding = as_keras_model(embedding)
        specs = time_step_spec, action_spec
        length = config.key_length
        network = encoders.of_length(embedding, length) if length else embedding
        super().__init__(*specs, network, config, seed, train_step_counter, alpha=config.alpha)
        self._averaging = config.averaging
        half = config.precision == "bfloat16"
        self._clone = copy_in_bfloat16 if half else tf.keras.models.clone_model
        self._trained_before = False
        self._centred = config.centred_gradients
        self._pixels = encoders.pixels_of(network) if config.centred_screens else None
        self.screens_centred = tf.Variable(self._pixels is None, trainable=False)
        self.averaged_network = network
        self.online_network = self._copy_of(network) if config.averaging else network
        # The v1 optimizer has epsilon inside the root, as RowRMSProp does; Keras' adds it outside.
        self._optimizer = tf.compat.v1.train.RMSPropOptimizer(
            config.learning_rate, config.rmsprop_decay, epsilon=config.network_epsilon
        )
        self._return_scale = ReturnScale() if config.scaled_returns else None
        self._row_optimizer = RowRMSProp(
            self.dnd,
            config.keys_learning_rate,
            config.values_learning_rate,
            config.rmsprop_decay,
            config.rmsprop_epsilon,
            self._return_scale.value if self._return_scale else None,
        )

    def trackables(self) -> dict[str, Any]:
        """Returns what `tf.train.Checkpoint` saves, by names that checkpoints have had so far."""
        return {
            **super().trackables(),
            "trained": self.online_network,
            "optimizer": self._optimizer,
            "screens_centred": self.screens_centred,
            **({"return_scale": self._return_scale} if self._return_scale else {}),
        }

    def write(self, tuples: NStepTuples) -> int:
        """See `EpisodicAgent`; with `scaled_returns` the returns also move the scale."""
        if self._return_scale:
            self._return_scale.observe(tuples.returns)
        return super().write(tuples)

    def centre_screens(self, observations: Iterable[np.ndarray]) -> None:
        """Subtracts the mean of some states from all states from now on.

        Keys that were stored before are no longer valid: clear the memory, or write them again.

        Args:
            observations: Batches of states, [n, ...] each.
        """
        if self._pixels is not None:
            self._pixels.centre_on(observations)
        self.embedding_replaced()

    def mean_screen(self) -> np.ndarray | None:
        """Returns the mean screen, [height, width, frames]; None if none is ever subtracted."""
        return None if self._pixels is None else self._pixels.mean.numpy()

    def embedding_replaced(self) -> None:
        """Continues training from the weights of `averaged_network`, which were replaced."""
        self.screens_centred.assign(True)
        if self.online_network is not self.averaged_network:
            self.online_network.set_weights(self.averaged_network.get_weights())

    def gradients(
        self,
        experience: Experience | trajectory.Trajectory,
        weights: types.Tensor = None,
        after_reading: Callable[[tf.Tensor], tf.Tensor] = tf.ones_like,
        left_out: tf.Tensor | None = None,
    ) -> tuple[tf_agent.LossInfo, Gradients]:
        """Returns the loss and the gradients that `apply` takes; changes nothing.

        Args:
            experience: As in `train`.
            weights: As in `train`.
            after_reading: Called with the loss between the two phases of an update: the network and
                the memory have been read, and the backward pass has not begun, because it starts
                from what this function returns. It must return 1, of the loss's dtype.
            left_out: Ids of states whose entries are not looked up, int64 [B, n].
        """
        tables, variables = self.dnd.tables, self.online_network.trainable_variables
        with tf.GradientTape() as tape:
            loss = self._loss(experience, weights, training=True, left_out=left_out)
        *network, keys, values = tape.gradient(
            loss.loss, [*variables, tables.keys, tables.values], after_reading(loss.loss)
        )
        return loss, Gradients(network, keys, values)

    def apply(self, gradients: Gradients) -> None:
        """Moves the network, the keys and the values; the neighbours looked up count as used."""
        variables = self.online_network.trainable_variables
        self._optimizer.apply_gradients(zip(gradients.network, variables, strict=True))
        self._average()
        self._row_optimizer.apply(gradients.keys, gradients.values)
        self.dnd.tables.stamp(gradients.values.indices)
        self.train_step_counter.assign_add(1)

    def _queries(self, observation: tf.Tensor, training: bool) -> tf.Tensor:
        network = self.online_network if training else self.averaged_network
        keys = network(observation, training=training)
        return with_centred_gradient(keys) if training and self._centred else keys

    def _in_units_of_loss(self, error: tf.Tensor) -> tf.Tensor:
        return error / self._return_scale.value if self._return_scale else error

    def _copy_of(self, network: tf.keras.Model) -> tf.keras.Model:
        """Returns a network of the same architecture and weights, with its own variables.

        It computes in the precision of `config`; the averaged network always in float32.
        """
        spec = self.time_step_spec.observation
        try:
            clone = self._clone(network)
            clone(tf.zeros([1, *spec.shape], spec.dtype))  # makes its variables
            if any(one is other for one in clone.variables for other in network.variables):
                raise ValueError("the copy shares variables")
        except (NotImplementedError, TypeError, ValueError) as error:
            raise ValueError(
                "Keras cannot copy this embedding, and averaging needs a copy: make it Sequential"
                " or functional, or set averaging=0"
            ) from error
        clone.set_weights(network.get_weights())
        return clone

    def _average(self) -> None:
        """Moves the averaged network a little towards the online network."""
        if self.online_network is self.averaged_network:
            return
        share = 1.0 - self._averaging
        pairs = zip(self.averaged_network.variables, self.online_network.variables, strict=True)
        for mean, newest in pairs:
            mean.assign_sub(share * (mean - newest), read_value=False)

    def _train(
        self, experience: Experience | trajectory.Trajectory, weights: types.Tensor = None
    ) -> tf_agent.LossInfo:
        self._warn_of_screens()
        loss, gradients = self.gradients(experience, weights)
        self.apply(gradients)
        return loss

    def _warn_of_screens(self) -> None:
        """Warns, at the first `train`, if the mean screen was not subtracted."""
        if self._trained_before:
            return
        self._trained_before = True
        with tf.init_scope():  # in a graph the variable has no value yet
            centred = bool(self.screens_centred)
        if not centred:
            logging.warning(
                "NecAgent trains on screens whose mean was not subtracted; games with still"
                " screens, such as Pong, are then not learned. Call agent.centre_screens(states)"
                " before collecting, or set centred_screens=False"
            )
