"""MFEC with the latent means of a VAE as keys; the VAE is trained on the first steps only."""

import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.agents.mfec.config import MfecVaeConfig
from nec_tf.agents.mfec.learner import MfecLearner
from nec_tf.networks.vae import Vae


class MfecVaeLearner(MfecLearner):
    """Collects observations, trains the VAE once, and is MFEC from then on."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: MfecVaeConfig,
        seed: int,
    ) -> None:
        """Makes a learner with an untrained VAE; the embedding is a `vae_encoder`."""
        super().__init__(time_step_spec, action_spec, embedding, config, seed)
        self._config = config
        self._seed = seed
        self._observations: list[np.ndarray] | None = []  # None once the VAE is trained

    def observe(self, step: trajectory.Trajectory) -> None:
        """Takes one step of every environment, [B, ...]: for the VAE first, then for the memory."""
        if self._observations is None:
            super().observe(step)
            return
        self._observations.extend(np.asarray(step.observation))
        if len(self._observations) >= self._config.vae_steps:
            vae = Vae(self.agent.embedding, self._seed)
            losses = vae.train(
                self._stack(self._observations), self._config.vae_updates, self._seed
            )
            if losses:
                self._add_up({"vae_loss": losses[-1]})  # NaN stays NaN to the last one
            self._observations = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the observations on which the VAE will be trained; nothing afterwards."""
        if self._observations is None:
            return {}
        return {"watched": self._stack(self._observations)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `Learner`."""
        self._observations = list(arrays["watched"]) if "watched" in arrays else None

    def _stack(self, observations: list[np.ndarray]) -> np.ndarray:
        spec = self.agent.time_step_spec.observation
        return np.array(observations, spec.dtype.as_numpy_dtype).reshape(-1, *spec.shape)
