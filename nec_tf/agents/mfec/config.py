"""The settings of MFEC, each with its origin."""

import dataclasses

import gin

from nec_tf.agents.episodic_config import EpisodicConfig
from nec_tf.agents.settings import require, require_at_least_1, setting


@gin.configurable
@dataclasses.dataclass(frozen=True)
class MfecConfig(EpisodicConfig):
    """Settings of MFEC's paper, except for the start of exploration: see docs/algorithm.md.

    >>> MfecConfig().num_neighbours
    11
    """

    discount: float = setting(1.0, "gamma, for a step [MFEC paper]")
    horizon: int = setting(1_000_000, "steps of a return: to the end of any episode [MFEC paper]")
    capacity: int = setting(1_000_000, "entries of each action's memory [MFEC paper]")
    num_neighbours: int = setting(11, "neighbours of a lookup [MFEC paper]")
    epsilon_end: float = setting(0.005, "final share of random actions [MFEC paper]")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class MfecVaeConfig(MfecConfig):
    """Settings of MFEC with the keys of a VAE."""

    vae_steps: int = setting(5_000, "random steps on whose observations the VAE is trained [ours]")
    vae_updates: int = setting(3_000, "updates of the VAE, of 64 observations each [ours]")
    epsilon_from: int = setting(5_000, "step at which epsilon begins to fall [ours]")
    epsilon_until: int = setting(15_000, "step at which epsilon reaches its final value [ours]")

    def __post_init__(self) -> None:
        """Validates the settings."""
        super().__post_init__()
        require_at_least_1(self, "vae_steps", "vae_updates")
        require(
            self.epsilon_from >= self.vae_steps,
            f"epsilon_from must not be before vae_steps ({self.vae_steps}), when keys change",
            self.epsilon_from,
        )
