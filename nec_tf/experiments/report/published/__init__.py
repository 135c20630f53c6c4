"""Scores that others published, by game; `README.md` beside this file names the sources."""

import csv
import importlib.resources
from collections.abc import Mapping

from nec_tf.environments.games import GAMES

#: Frames at which the Atari-100k agents are compared: 100,000 steps.
ATARI_100K_FRAMES = 400_000
#: Frames of the paper's appendix table.
PAPER_FRAMES = 10_000_000

PAPER_AGENTS = {
    "nec": "NEC",
    "mfec": "MFEC",
    "prioritised_replay": "Prioritised Replay",
    "dqn": "DQN",
    "q_star_lambda": "Q*(λ)",
    "retrace_lambda": "Retrace(λ)",
    "a3c": "A3C",
}
ATARI_100K_AGENTS = {
    "simple": "SimPLe",
    "der": "DER",
    "ot_rainbow": "OTRainbow",
    "curl": "CURL",
    "drq": "DrQ",
    "drq_eps": "DrQ(ε)",
    "spr": "SPR",
    "sr_spr": "SR-SPR",
    "iris": "IRIS",
    "dreamer_v3": "DreamerV3",
    "efficient_zero": "EfficientZero",
    "bbf_rr2": "BBF, 2 updates a step",
    "bbf_rr8": "BBF, 8 updates a step",
}


def paper_scores() -> dict[str, dict[str, float]]:
    """Returns the paper's scores at 10 million frames: agent, then game."""
    return _by_agent("scores_at_10m_frames.csv", PAPER_AGENTS)


def atari_100k_scores() -> dict[str, dict[str, float]]:
    """Returns scores at 400,000 frames of published Atari-100k agents: agent, then game."""
    return _by_agent("atari100k.csv", ATARI_100K_AGENTS)


def paper_summary(statistic: str) -> dict[int, dict[str, float]]:
    """Returns the paper's table of `median` or `mean` over 57 games: frames, agent, per cent."""
    return {
        int(row["frames"]): {agent: float(row[agent]) for agent in PAPER_AGENTS}
        for row in _read(f"{statistic}_human_normalised.csv")
    }


def normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Returns human-normalised scores by game as fractions: 0 random play, 1 human play."""
    return {game: GAMES[game].human_normalised(score) / 100 for game, score in scores.items()}


def _by_agent(name: str, agents: Mapping[str, str]) -> dict[str, dict[str, float]]:
    rows = _read(name)
    return {agent: {row["game"]: float(row[agent]) for row in rows} for agent in agents}


def _read(name: str) -> list[dict[str, str]]:
    text = (importlib.resources.files(__name__) / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
