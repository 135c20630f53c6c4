import numpy as np
import pytest

from nec_tf.environments.games import GAMES
from nec_tf.experiments.report import published, statistics


def columns(scores):
    return [np.array([value]) for value in published.normalised(scores).values()]


@pytest.mark.parametrize("agent", published.PAPER_AGENTS)
@pytest.mark.parametrize("name", ["median", "mean"])
def test_the_papers_appendix_gives_its_summary_at_10m_frames(name, agent):
    scores = published.paper_scores()[agent]
    assert scores.keys() == GAMES.keys()
    expected = published.paper_summary(name)[published.PAPER_FRAMES][agent]
    found = statistics.estimates(columns(scores), statistics.AGGREGATES)[name].point
    assert 100 * found == pytest.approx(expected, abs=0.1)


# As printed in the papers (SPR and DrQ(eps)) and by BBF's authors for the runs of this file.
PRINTED = {"drq_eps": (0.313, 0.465), "spr": (0.396, 0.616), "bbf_rr8": (0.880, 2.24)}


@pytest.mark.parametrize("agent", PRINTED)
def test_atari_100k_gives_the_medians_and_means_in_print(agent):
    found = statistics.estimates(
        columns(published.atari_100k_scores()[agent]), statistics.AGGREGATES
    )
    median, mean = PRINTED[agent]
    assert found["median"].point == pytest.approx(median, abs=0.001)
    assert found["mean"].point == pytest.approx(mean, abs=0.005)


def test_the_26_games_are_normalised_by_the_scores_that_come_with_them():
    rows = published._read("atari100k.csv")
    assert len(rows) == 26
    for row in rows:
        game = GAMES[row["game"]]
        assert (game.random_score, game.human_score) == (float(row["random"]), float(row["human"]))
    assert {*rows[0]} == {"game", "random", "human", *published.ATARI_100K_AGENTS}
