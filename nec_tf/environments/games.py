"""The 57 Atari games of the paper, with the scores that normalise an agent's score.

The table `atari57.csv` holds the human and random scores with which the paper's appendix table
reproduces its own summary tables; the random score of Video Pinball is 0.0 there.
"""

import csv
import dataclasses
import importlib.resources
import re

from nec_tf.runtime.errors import UserError, did_you_mean

__all__ = ["GAMES", "Game", "find_game", "is_game"]


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
        UserError: No game has that name; the message gives the nearest names.
    """
    game = _BY_NORMALISED_NAME.get(_normalise(name))
    if game is None:
        plain = name.removeprefix("ALE/").removesuffix("-v5")
        suggestion = did_you_mean(plain, [one.name for one in GAMES.values()])
        everything = f"nec_tf.environments.games.GAMES lists all {len(GAMES)} games"
        raise UserError(f"unknown game {name!r}: {f'{suggestion} {everything}'.strip()}")
    return game


def is_game(name: str) -> bool:
    """Returns whether `find_game` finds a game."""
    return _normalise(name) in _BY_NORMALISED_NAME


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
