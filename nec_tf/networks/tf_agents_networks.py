"""TF-Agents' own networks as embeddings.

A network of TF-Agents returns `(output, state)`; an embedding is a Keras model that returns keys.
"""

from typing import Any

import tensorflow as tf
from tf_agents.networks import network

from nec_tf.runtime.errors import UserError


def as_keras_model(embedding: tf.keras.Model | network.Network) -> tf.keras.Model:
    """Returns an embedding as a Keras model; a Keras model is returned as it is.

    >>> import tensorflow as tf
    >>> from tf_agents.networks import sequential
    >>> from nec_tf.networks.tf_agents_networks import as_keras_model
    >>> embedding = as_keras_model(sequential.Sequential([tf.keras.layers.Dense(3)]))
    >>> embedding(tf.zeros([2, 4])).shape
    TensorShape([2, 3])

    Args:
        embedding: From observations [B, ...] to keys [B, key_size]. A network of TF-Agents shares
            its variables with the model.

    Raises:
        UserError: The network is recurrent.
    """
    return KeysOfNetwork(embedding) if isinstance(embedding, network.Network) else embedding


class KeysOfNetwork(tf.keras.Model):
    """A network of TF-Agents without its state: from observations [B, ...] to keys [B, key_size].

    `tf.keras.models.clone_model` copies it with new variables, also inside another model, because
    `get_config` returns the network and `from_config` copies it.
    """

    def __init__(self, network: network.Network, **kwargs: Any) -> None:
        """Wraps a network and shares its variables.

        Args:
            network: From observations [B, ...] to keys [B, key_size] and an empty state.
            **kwargs: Arguments of every Keras model.

        Raises:
            UserError: The network is recurrent.
        """
        super().__init__(**{"name": network.name, **kwargs})
        if network.state_spec:
            raise UserError(
                f"the embedding {network.name!r} is recurrent, but a key must depend on one"
                " observation only: stack observations instead"
            )
        self.network = network

    def call(self, observation: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the keys, [B, key_size], of observations [B, ...]."""
        keys, _ = self.network(observation, training=bool(training))
        return keys

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, for `from_config` in this process only."""
        return {"network": self.network, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "KeysOfNetwork":
        """Returns a model around a copy of the network, with its own variables."""
        del custom_objects
        return cls(config["network"].copy(), name=config["name"])
