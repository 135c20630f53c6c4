"""The 57 Atari games of the paper, with the scores that normalise an agent's score.

The table `atari57.csv` holds the human and random scores with which the paper's appendix table
reproduces its own summary tables; the random score of Video Pinball is 0.0 there.
"""

import csv
import dataclasses
import difflib
import importlib.resources
import re

__all__ = ["GAMES", "Game", "find_game"]


@dataclasses.dataclass(frozen=True)
class Game:
    """One Atari game.

    Attributes:
        id: Name in snake case, e.g. `ms_pacman`.
        env_id: Gymnasium id in ale-py, e.g. `ALE/MsPacman-v5`.
        num_actions: Size of the game's minimal action set.
        random_score: Points a game of a uniformly random player.
        human_score: Points a game of a professional human tester.
    """

    id: str
    env_id: str
    num_actions: int
    random_score: float
    human_score: float

    @property
    def name(self) -> str:
        """Name in camel case, e.g. `MsPacman`."""
        return self.env_id.removeprefix("ALE/").removesuffix("-v5")

    def human_normalised(self, score: float) -> float:
        """Returns `score` in per cent: 0 is the random player, 100 the human one."""
        return 100.0 * (score - self.random_score) / (self.human_score - self.random_score)


def find_game(name: str) -> Game:
    """Returns the game called `name`.

    Case, spaces and punctuation do not matter: `Ms. Pac-Man`, `ms_pacman`, `MsPacman` and
    `ALE/MsPacman-v5` are one game.

    Raises:
        ValueError: No game has that name; the message gives the nearest names.
    """
    game = _BY_NORMALISED_NAME.get(_normalise(name))
    if game is None:
        raise ValueError(f"unknown game {name!r}: {_suggestion(name)}")
    return game


def _suggestion(name: str) -> str:
    matches = difflib.get_close_matches(_normalise(name), _BY_NORMALISED_NAME, n=3)
    # A dict rather than a set: keeps the nearest first when a game matches under both its names.
    nearest = list(dict.fromkeys(_BY_NORMALISED_NAME[match].name for match in matches))
    did_you_mean = f"did you mean {' or '.join(nearest)}? " if nearest else ""
    return f"{did_you_mean}nec_tf.environments.games.GAMES lists all {len(GAMES)} games"


def _normalise(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read_games() -> dict[str, Game]:
    table = importlib.resources.files("nec_tf.environments") / "atari57.csv"
    rows = csv.DictReader(table.read_text(encoding="utf-8").splitlines())
    games = (
        Game(
            id=row["game"],
            env_id=row["env_id"],
            num_actions=int(row["num_actions"]),
            random_score=float(row["random_score"]),
            human_score=float(row["human_score"]),
        )
        for row in rows
    )
    return {game.id: game for game in games}


#: The games by id, in alphabetical order.
GAMES: dict[str, Game] = _read_games()

_BY_NORMALISED_NAME: dict[str, Game] = {
    _normalise(name): game for game in GAMES.values() for name in (game.id, game.env_id)
}
