"""MFEC over the latent means of a VAE, which is trained on the first steps and then frozen."""

import dataclasses

import gin
import numpy as np
import tensorflow as tf
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory
from tf_agents.typing import types

from nec_tf.mfec_agent import MfecConfig, MfecLearner
from nec_tf.settings import require, require_at_least_1, setting
from nec_tf.vae import Vae


@gin.configurable
@dataclasses.dataclass(frozen=True)
class MfecVaeConfig(MfecConfig):
    """Settings of MFEC with a VAE."""

    vae_steps: int = setting(5_000, "random steps on whose observations the VAE is trained [ours]")
    vae_updates: int = setting(3_000, "updates of the VAE, of 64 observations each [ours]")
    epsilon_from: int = setting(5_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = setting(15_000, "step at which epsilon is down [ours]")

    def __post_init__(self) -> None:
        """Refuses what cannot be meant."""
        super().__post_init__()
        require_at_least_1(self, "vae_steps", "vae_updates")
        require(
            self.epsilon_from >= self.vae_steps,
            f"epsilon_from must not be before vae_steps ({self.vae_steps}): keys change then",
            self.epsilon_from,
        )


class MfecVaeLearner(MfecLearner):
    """Watches first, trains the VAE once, and is MFEC from then on."""

    def __init__(
        self,
        time_step_spec: ts.TimeStep,
        action_spec: types.NestedTensorSpec,
        embedding: tf.keras.Model,
        config: MfecVaeConfig,
        seed: int,
    ) -> None:
        """A learner that knows nothing yet; the embedding is a `vae_encoder`."""
        super().__init__(time_step_spec, action_spec, embedding, config, seed)
        self._config = config
        self._seed = seed
        self._watched: list[np.ndarray] | None = []  # None once the VAE is trained

    def arrays(self) -> dict[str, np.ndarray]:
        """What the VAE is to be trained on; nothing afterwards."""
        return {} if self._watched is None else {"watched": self._stack(self._watched)}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """See `EpisodicLearner`."""
        self._watched = list(arrays["watched"]) if "watched" in arrays else None

    def _learn(self, experience: trajectory.Trajectory) -> None:
        if self._watched is None:
            super()._learn(experience)
            return
        self._watched.extend(np.asarray(experience.observation))
        if len(self._watched) >= self._config.vae_steps:
            vae = Vae(self.agent.embedding, self._seed)
            vae.train(self._stack(self._watched), self._config.vae_updates, self._seed)
            self._watched = None

    def _stack(self, watched: list[np.ndarray]) -> np.ndarray:
        spec = self.agent.time_step_spec.observation
        return np.array(watched, spec.dtype.as_numpy_dtype).reshape(-1, *spec.shape)
