import ale_py
import ale_py.roms
import pytest

from nec_tf.environments import games


@pytest.mark.parametrize(
    "name", ["MsPacman", "mspacman", "ms_pacman", "Ms. Pac-Man", "MS PACMAN", "ALE/MsPacman-v5"]
)
def test_a_game_is_found_under_any_spelling(name):
    assert games.find_game(name).env_id == "ALE/MsPacman-v5"


def test_a_game_has_its_ids_and_scores():
    assert games.find_game("frostbite") == games.Game(
        id="frostbite",
        env_id="ALE/Frostbite-v5",
        num_actions=18,
        random_score=65.2,
        human_score=4334.7,
    )
    assert games.find_game("up_n_down").name == "UpNDown"
    assert games.find_game("Video Pinball").random_score == 0.0


@pytest.mark.parametrize("game", games.GAMES.values(), ids=lambda game: game.id)
def test_every_game_is_found_by_all_its_names(game):
    for name in (game.id, game.env_id, game.name):
        assert games.find_game(name) is game


@pytest.mark.parametrize("name", ["Frostbit", "ALE/Frostbit-v5", "frost bites"])
def test_an_unknown_name_gets_the_nearest_ones(name):
    with pytest.raises(ValueError, match=r"did you mean Frostbite.*\? .*GAMES lists all 57"):
        games.find_game(name)


def test_each_suggestion_is_made_once():
    with pytest.raises(ValueError, match="unknown game 'ALE/Pon'") as error:
        games.find_game("ALE/Pon")
    assert str(error.value).count("Pong") == 1


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(ValueError, match=r"unknown game '': nec_tf.environments.games.GAMES"):
        games.find_game("")


def test_random_is_0_per_cent_and_human_100():
    pong = games.find_game("pong")
    assert pong.human_normalised(-20.7) == 0.0
    assert pong.human_normalised(14.6) == 100.0
    assert pong.human_normalised(-20.7 - 35.3) == pytest.approx(-100.0)


def test_numbers_of_actions_are_the_emulators():
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    for game in games.GAMES.values():
        ale = ale_py.ALEInterface()
        ale.loadROM(ale_py.roms.get_rom_path(game.id))
        assert len(ale.getMinimalActionSet()) == game.num_actions, game.id


def test_game_sets_have_the_sizes_of_their_sources_and_known_games():
    sizes = {name: len(set(games.GAME_SETS[name])) for name in games.GAME_SETS}
    assert sizes == {
        "atari57": 57,
        "atari100k": 26,
        "half_a": 13,
        "half_b": 13,
        "paper7": 7,
        "tuning6": 6,
    }
    assert all(game in games.GAMES for chosen in games.GAME_SETS.values() for game in chosen)


def test_games_are_found_by_set_or_list_each_once():
    assert [game.id for game in games.find_games("Pong, frostbite,pong")] == ["pong", "frostbite"]
    assert len(games.find_games("tuning6,alien")) == 7
    with pytest.raises(ValueError, match="did you mean Pong"):
        games.find_games("frostbite,pongg")
    with pytest.raises(ValueError, match=r"no game was given.*tuning6"):
        games.find_games("")
