"""Settings of a run beside its task and its agent's configuration. Needs no TensorFlow."""

import dataclasses
import math
from typing import Any, Self

from nec_tf.agents.settings import require_counts, require_types
from nec_tf.runtime.errors import UserError

#: Defaults of a run by the preset of its task. Frames are emulator frames in Atari (1 agent step =
#: 4 frames) and steps elsewhere.
PRESETS: dict[str, dict[str, Any]] = {
    "atari": {
        "frames": 10_000_000,  # the paper's longest learning curves
        "eval_every_frames": 200_000,
        "checkpoint_every_frames": 200_000,
        "log_every_frames": 10_000,
    },
    "small": {
        "frames": 30_000,
        "eval_every_frames": 5_000,
        "checkpoint_every_frames": 5_000,
        "log_every_frames": 1_000,
    },
}
#: Nearly four times the paper's limit of 108,000 frames (27,000 steps) of an Atari game.
EVAL_MAX_STEPS = 100_000
_MOST_FRAMES = 9_999_999_999  # checkpoints are sorted by name: ten digits
#: Environments of one process.
MOST_ENVS = 10_000  # more would be made for hours before memory runs out
#: Seeds are below this.
SEEDS = 2**32  # NumPy's global random numbers take no larger ones
_EVERY_PRESET = {"agent": "nec", "seed": 1, "num_envs": 1, "eval_episodes": 30, "video": True}


def _explained(explanation: str, **default: Any) -> Any:
    return dataclasses.field(metadata={"help": explanation}, **default)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a run; the metadata of each field explains it. Frames are the environment's."""

    agent: str = _explained("Agent to train")
    frames: int = _explained(
        "Total length of training in {unit}; raise it to extend a finished run"
    )
    seed: int = _explained("Random seed")
    num_envs: int = _explained("Environments that are played in parallel")
    eval_every_frames: int = _explained("Length of training between evaluations, in {unit}")
    eval_episodes: int = _explained("Episodes of an evaluation")
    checkpoint_every_frames: int = _explained("Length of training between checkpoints, in {unit}")
    log_every_frames: int = _explained("Length of training between rows of metrics.csv, in {unit}")
    video: bool = _explained("Record the best evaluation to videos/best.mp4")
    init_memory: str = _explained(
        "Exported memories to start with, and their network: folders, separated by commas",
        default="",
    )
    checkpoint_every_minutes: float = _explained(
        "Most minutes between checkpoints; 0 for checkpoints by frames only", default=10.0
    )
    keep_screens: bool = _explained(
        "Keep a compressed screen of every remembered state in screens/, for watch.py; changes no"
        " number of the run",
        default=False,
    )
    eval_max_steps: int = _explained(
        "Most agent steps of an evaluation episode; an environment may be endless",
        default=EVAL_MAX_STEPS,
    )

    @classmethod
    def preset(cls, name: str, **given: Any) -> Self:
        """Returns the defaults of a preset, "atari" or "small", with the given ones replaced."""
        return cls(**{**defaults(name), **given})

    def __post_init__(self) -> None:
        """Validates the settings."""
        require_types(self)
        require_counts(self)
        if self.frames > _MOST_FRAMES:
            raise UserError(f"frames must be at most {_MOST_FRAMES:,}, not {self.frames}")
        for name in (
            "frames",
            "num_envs",
            "eval_every_frames",
            "eval_episodes",
            "checkpoint_every_frames",
            "log_every_frames",
            "eval_max_steps",
        ):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.num_envs > MOST_ENVS:
            raise UserError(f"num_envs must be at most {MOST_ENVS}, not {self.num_envs}")
        if self.eval_episodes > MOST_ENVS:  # all are played in parallel
            raise UserError(f"eval_episodes must be at most {MOST_ENVS}, not {self.eval_episodes}")
        if not 0.0 <= self.checkpoint_every_minutes < math.inf:
            raise UserError(
                "checkpoint_every_minutes must be finite and not negative, not"
                f" {self.checkpoint_every_minutes}"
            )
        if not 0 <= self.seed < SEEDS:
            raise UserError(f"seed must be at least 0 and below 2**32, not {self.seed}")


def defaults(preset: str) -> dict[str, Any]:
    """Returns the default of every setting by its name."""
    own = {field.name: field.default for field in dataclasses.fields(Settings)}
    return {**own, **_EVERY_PRESET, **PRESETS[preset]}
