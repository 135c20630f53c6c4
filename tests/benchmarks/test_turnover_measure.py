import numpy as np

from benchmarks.turnover_measure import Turnover, measure, turned


def test_rows_show_the_recall_of_a_memory_that_is_overwritten():
    keys = np.random.default_rng(2).normal(size=(2_000, 8)).astype(np.float32)
    rows = list(measure(Turnover(keys, writes=4_000, capacity=500, turn=45.0, rows=4)))
    assert [row["writes"] for row in rows] == [1_000, 2_000, 3_000, 4_000]
    assert [row["entries"] for row in rows] == [500] * 4
    assert all(row["recall_stored"] == 1.0 for row in rows)  # brute force below 4,000 keys
    assert all(row["recall_held_out"] == 1.0 for row in rows)


def test_turned_keys_keep_their_distances():
    keys = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
    there = turned(keys, 90.0)
    np.testing.assert_allclose(there[:, 0], -keys[:, 1], atol=1e-6)
    np.testing.assert_allclose(there[:, 3], keys[:, 2], atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(there - there[0], axis=1), np.linalg.norm(keys - keys[0], axis=1), rtol=1e-5
    )
