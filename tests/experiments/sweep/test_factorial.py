import numpy as np
import pytest

from nec_tf.experiments.sweep.factorial import design, effects


def test_each_lever_is_on_in_half_of_the_games_and_effects_are_nearly_uncorrelated():
    on = design(13, 7)
    assert on.shape == (13, 7)
    assert (on.sum(axis=0) == 6).all()
    signs = np.where(on, 1.0, -1.0)
    errors = np.sqrt(np.diag(np.linalg.inv(signs.T @ signs)) * 13)  # 1 if orthogonal
    assert errors.max() < 1.2


def test_the_same_seed_gives_the_same_design():
    np.testing.assert_array_equal(design(8, 3, seed=4), design(8, 3, seed=4))
    assert (design(8, 3, seed=4) != design(8, 3, seed=5)).any()


def test_effects_worked_out_by_hand():
    # Lever 1 is worth 3, lever 2 is worth 1: differences of 3+1, 3-1, -3+1, -3-1.
    on = np.array([[True, True], [True, False], [False, True], [False, False]])
    found = effects(on, [4.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 4.0])
    assert [effect.effect for effect in found] == pytest.approx([3.0, 1.0])
    assert [effect.error for effect in found] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_errors_are_those_of_least_squares():
    # Differences 4, 2, -1, -3 leave the residuals 0.5, -0.5, -0.5, 0.5 with 2 degrees of freedom:
    # variance 0.5, and 4 games. t = 2.5 / 0.3536 = 7.07: 99.02% by a table of Student's t.
    on = np.array([[True, True], [True, False], [False, True], [False, False]])
    first, second = effects(on, [4.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 3.0])
    assert (first.effect, second.effect) == pytest.approx((2.5, 1.0))
    assert first.error == second.error == pytest.approx(np.sqrt(0.5 / 4))
    assert first.above_zero == pytest.approx(0.9903, abs=1e-3)


def test_what_two_levers_do_only_together_cancels():
    on = design(12, 4)
    together = lambda levels: 5.0 * (levels[:, 0] == levels[:, 1])  # noqa: E731
    figures = [levels @ [1.0, 0.5, 0.0, -1.0] + together(levels) for levels in (on, ~on)]
    found = effects(on, *figures)
    assert [effect.effect for effect in found] == pytest.approx([1.0, 0.5, 0.0, -1.0])


def test_effects_are_found_under_noise():
    rng, on, true = np.random.default_rng(0), design(13, 7), np.array([0.3, 0, 0, -0.3, 0, 0.1, 0])
    figures = [levels @ true + rng.normal(0, 0.05, 13) for levels in (on, ~on)]
    found = effects(on, *figures)
    assert [effect.effect for effect in found] == pytest.approx(true, abs=0.12)
    assert found[0].above_zero > 0.99
    assert found[3].above_zero < 0.01


def test_too_few_games_are_refused():
    with pytest.raises(ValueError, match="at least 4 games"):
        design(3, 3)
    with pytest.raises(ValueError, match="finish more pairs"):
        effects(np.ones([3, 2], bool), np.zeros(3), np.zeros(3))
