"""The 57 Atari games of the paper, with the scores that normalise an agent's score.

The table `atari57.csv` holds the human and random scores with which the paper's appendix table
reproduces its own summary tables; the random score of Video Pinball is 0.0 there.
"""

import csv
import dataclasses
import importlib.resources
import re

from nec_tf.runtime.errors import UserError, did_you_mean

__all__ = ["GAMES", "GAME_SETS", "Game", "find_game", "find_games", "is_game"]


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


def find_games(names: str) -> list[Game]:
    """Returns the games of a set of `GAME_SETS`, or of a list with commas between the names.

    Raises:
        UserError: A name is neither a game nor a set, or no name was given.
    """
    games: dict[str, Game] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        for game in GAME_SETS.get(name) or [find_game(name).id]:
            games[game] = GAMES[game]
    if not games:
        raise UserError(f"no game was given: a name, or one of the sets {', '.join(GAME_SETS)}")
    return list(games.values())


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

# The learning benchmark screens a change on half A and confirms it on half B (docs/experiments.md).
_HALF_A = [
    "alien",
    "assault",
    "bank_heist",
    "boxing",
    "chopper_command",
    "demon_attack",
    "frostbite",
    "hero",
    "kangaroo",
    "kung_fu_master",
    "pong",
    "qbert",
    "seaquest",
]
_HALF_B = [
    "amidar",
    "asterix",
    "battle_zone",
    "breakout",
    "crazy_climber",
    "freeway",
    "gopher",
    "jamesbond",
    "krull",
    "ms_pacman",
    "private_eye",
    "road_runner",
    "up_n_down",
]

#: Sets of games by name, as lists of ids.
GAME_SETS: dict[str, list[str]] = {
    "atari57": list(GAMES),  # the paper's table of scores (Pritzel et al., 2017, appendix)
    "atari100k": sorted(_HALF_A + _HALF_B),  # Kaiser et al., 2020 (SimPLe)
    "half_a": _HALF_A,
    "half_b": _HALF_B,
    # The seven games of the paper's learning curves (section 4).
    "paper7": ["alien", "bowling", "boxing", "frostbite", "hero", "ms_pacman", "pong"],
    # The six games on which the paper's hyperparameters were chosen (section 4).
    "tuning6": ["beam_rider", "breakout", "pong", "qbert", "seaquest", "space_invaders"],
}
