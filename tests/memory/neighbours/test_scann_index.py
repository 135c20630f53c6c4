import subprocess
import sys

import numpy as np
import pytest

from nec_tf.memory.neighbours import ExactIndex, make_index, scann_index
from nec_tf.memory.neighbours.scann_index import ScannIndex

KEY_SIZE = 8
P = 10


def clustered(count, seed=0, clusters=50, offset=0.0):
    """Keys as an encoder gives them: many near each other, and far from other many."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, KEY_SIZE))
    noise = 0.1 * rng.normal(size=(count, KEY_SIZE))
    return (offset + centres[rng.integers(clusters, size=count)] + noise).astype(np.float32)


def scann(keys, tree_from, p=P):
    index = ScannIndex(keys.shape[1], p, tree_from)
    index.rebuild(keys)
    return index


def exact(keys):
    index = ExactIndex(keys.shape[1])
    index.rebuild(keys)
    return index


def recall(index, keys, queries, p=P):
    """The part of the true neighbours that the index found; every slot at most once."""
    hits = 0
    for mine, true in zip(index.search(queries, p), exact(keys).search(queries, p), strict=True):
        there = mine[mine >= 0]
        assert len(set(there)) == len(there)
        hits += len(set(there) & set(true))
    return hits / (len(queries) * min(p, len(keys)))


def has_tree(index):
    return index.tolerance > 0


class FakeSearcher:
    """Returns a given result and records upserts."""

    def __init__(self, answer=None):
        self.answer = answer
        self.upserts = []

    def size(self):
        return 5

    def search(self, query, p, _, __):
        return self.answer

    def upsert(self, ids, keys, count):
        self.upserts.append((ids, keys, count))


# Without a tree: exact.


def test_without_a_tree_the_answers_are_the_exact_ones():
    keys, queries = clustered(300), clustered(40, seed=1)
    index = scann(keys, tree_from=1000)
    assert not has_tree(index)
    np.testing.assert_array_equal(index.search(queries, P), exact(keys).search(queries, P))


def test_without_a_tree_random_changes_leave_it_equal_to_the_exact_index():
    rng = np.random.default_rng(0)
    mine, true = ScannIndex(KEY_SIZE, P, tree_from=10_000), ExactIndex(KEY_SIZE)
    for step in range(150):
        if len(true) == 0 or rng.integers(2):
            keys = rng.normal(size=(rng.integers(1, 6), KEY_SIZE))
            for index in (mine, true):
                index.append(keys)
        else:
            slots = rng.integers(len(true), size=rng.integers(1, 6))  # some of them twice
            keys = rng.normal(size=(len(slots), KEY_SIZE))
            for index in (mine, true):
                index.move(slots, keys)
        queries = rng.normal(size=(3, KEY_SIZE))
        assert len(mine) == len(true)
        np.testing.assert_array_equal(
            mine.search(queries, P), true.search(queries, P), err_msg=f"after step {step}"
        )


def test_an_empty_index_finds_no_neighbour():
    index = ScannIndex(KEY_SIZE)
    assert len(index) == 0
    assert index.search(np.zeros((2, KEY_SIZE)), 4).tolist() == [[-1] * 4] * 2


@pytest.mark.parametrize("tree_from", [2, 1000])
def test_an_index_can_be_emptied_and_filled_again(tree_from):
    index = scann(clustered(50), tree_from)
    index.rebuild(np.empty((0, KEY_SIZE), np.float32))
    assert len(index) == 0
    assert index.search(np.zeros((1, KEY_SIZE)), 2).tolist() == [[-1, -1]]
    index.append(clustered(3))
    assert sorted(index.search(np.zeros((1, KEY_SIZE)), 4)[0]) == [-1, 0, 1, 2]


@pytest.mark.parametrize("tree_from", [2, 1000])
def test_with_fewer_keys_than_asked_for_all_are_found_and_the_rest_is_filled(tree_from):
    keys = clustered(3)
    found = scann(keys, tree_from).search(keys[:1], 8)
    assert found.dtype == np.int64
    assert sorted(found[0, :3]) == [0, 1, 2]
    assert found[0, 0] == 0
    assert (found[0, 3:] == -1).all()


# With a tree.


def test_with_a_tree_recall_on_clustered_keys_is_at_least_095():
    keys, queries = clustered(4000), clustered(100, seed=1)
    index = scann(keys, tree_from=1000)
    assert has_tree(index)
    assert recall(index, keys, queries) >= 0.95


def test_keys_far_from_the_origin_are_found_as_well():
    keys, queries = clustered(4000, offset=3000.0), clustered(100, seed=1, offset=3000.0)
    assert recall(scann(keys, tree_from=1000), keys, queries) >= 0.95


@pytest.mark.parametrize("count", [1, 2, 3, 5, 17])
def test_a_tree_can_be_made_of_few_keys(count):
    keys = clustered(count)
    index = scann(keys, tree_from=1)
    assert recall(index, keys, keys, p=count) == 1.0


@pytest.mark.parametrize("count", [2, 9, 100])
def test_a_tree_can_be_made_of_the_same_key_many_times(count):
    keys = np.ones((count, KEY_SIZE), np.float32)
    index = scann(keys, tree_from=2)
    assert len(index) == count
    assert len(set(index.search(keys[:1], 5)[0]) - {-1}) == min(count, 5)
    assert index.tolerance == 0


def test_a_tree_whose_leaves_hold_fewer_than_asked_for_answers_with_what_they_hold():
    keys = clustered(3000)
    index = scann(keys, tree_from=2)
    found = index.search(keys[:100], 2900)
    assert (found == -1).any()
    for slot, row in enumerate(found):
        there = row[row >= 0]
        assert len(there) > 0
        assert len(set(there)) == len(there)
        assert (row[len(there) :] == -1).all()
        assert row[0] == slot


def test_padding_with_nan_is_not_an_answer():
    index = ScannIndex(KEY_SIZE)
    index._searcher = FakeSearcher(
        (np.array([4, 2, 0, 0], np.uint32), np.array([0.1, 0.2, np.nan, np.nan], np.float32))
    )
    assert index.search(np.zeros((1, KEY_SIZE)), 4).tolist() == [[4, 2, -1, -1]]


def test_the_tolerance_is_a_part_of_the_distance_to_the_outermost_neighbour():
    keys = clustered(2000)
    order = exact(keys).search(keys, P)
    outermost = np.linalg.norm(keys - keys[order[:, -1]], axis=1)
    part = 0.15 * np.median(outermost)
    assert scann(keys, 1000).tolerance == pytest.approx(part, rel=0.3)
    assert scann(keys, 10_000).tolerance == 0  # without a tree a move costs little


# Changes, with a tree and without.


@pytest.fixture(params=[2, 10_000], ids=["tree", "brute force"])
def tree_from(request):
    return request.param


def test_no_keys_at_all_change_nothing(tree_from):
    keys = clustered(50)
    index = scann(keys, tree_from)
    before = index.search(keys, P)
    index.append(keys[:0])
    index.move(np.empty(0, np.int64), keys[:0])
    np.testing.assert_array_equal(index.search(keys, P), before)


def test_appended_keys_are_found_at_once(tree_from):
    keys, more = clustered(500), clustered(200, seed=1) + 3
    index = scann(keys, tree_from)
    index.append(more)
    assert len(index) == 700
    assert index.search(more, 1)[:, 0].tolist() == list(range(500, 700))


def test_moved_keys_are_found_at_the_new_place_and_not_at_the_old_one(tree_from):
    keys, moved = clustered(500), clustered(100, seed=1) - 3
    index = scann(keys, tree_from)
    index.move(np.arange(100), moved)
    assert len(index) == 500
    assert index.search(moved, 1)[:, 0].tolist() == list(range(100))
    assert (index.search(keys[:100], P) >= 100).all()


def test_a_slot_twice_in_one_move_leaves_no_ghost(tree_from):
    keys = clustered(500)
    first, second, third = 20 * np.eye(3, KEY_SIZE)[:, None]  # each far from all other keys
    index = scann(keys, tree_from)
    index.move(np.array([3, 8, 3]), np.concatenate([first, keys[8:9], second]))
    assert index.search(second, 1).tolist() == [[3]]
    assert index.search(first, 1)[0, 0] != 3
    index.move(np.array([3]), third)
    for place in (first, second, keys[3:4]):
        assert index.search(place, 1)[0, 0] != 3
    everywhere = index.search(third, 500)[0]
    assert (everywhere == 3).sum() == 1
    assert everywhere[0] == 3
    assert len(index) == 500


def test_the_searcher_never_gets_an_id_twice_and_gets_the_last_key():
    index = ScannIndex(1)
    index._searcher = FakeSearcher()
    index.move(np.array([3, 1, 3, 1, 2]), np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]))
    [(ids, keys, count)] = index._searcher.upserts
    assert dict(zip(ids, keys[:, 0].tolist(), strict=True)) == {1: 4.0, 2: 5.0, 3: 3.0}
    assert len(ids) == count == 3


def test_recall_holds_after_many_changes_without_a_rebuild():
    rng = np.random.default_rng(0)
    keys = clustered(4000)
    index = scann(keys, tree_from=1000)
    for start in range(0, 1000, 100):
        slots = rng.choice(4000, size=100, replace=False)
        keys[slots] += 0.1 * rng.normal(size=(100, KEY_SIZE)).astype(np.float32)
        index.move(slots, keys[slots])
        more = clustered(1000)[start : start + 100] + np.float32(0.01)
        index.append(more)
        keys = np.concatenate([keys, more])
    assert recall(index, keys, clustered(100)) >= 0.95


def test_float64_and_strided_keys_are_as_good_as_any(tree_from):
    keys = clustered(600)
    strided = np.asfortranarray(np.repeat(keys.astype(np.float64), 2, axis=0))[::2]
    plain, other = scann(keys, tree_from), scann(strided, tree_from)
    np.testing.assert_array_equal(plain.search(keys[:50], P), other.search(strided[:50], P))
    for index, given in ((plain, keys), (other, strided)):
        index.append(given[:5] + 2)
        index.move(np.arange(5), given[5:10] + 3)
    np.testing.assert_array_equal(plain.search(keys[:50], P), other.search(strided[:50], P))


def test_two_indices_of_the_same_keys_answer_the_same(tree_from):
    keys = clustered(1500)
    first, second = scann(keys, tree_from), scann(keys, tree_from)
    np.testing.assert_array_equal(first.search(keys[:200], 50), second.search(keys[:200], 50))
    assert first.tolerance == second.tolerance


def test_the_index_keeps_its_own_copy_of_the_keys(tree_from):
    keys = clustered(100)
    index = scann(keys, tree_from)
    before = index.search(keys[:5], P)
    queries = keys[:5].copy()
    keys[:] = 77
    np.testing.assert_array_equal(index.search(queries, P), before)


# Keys of 8 bits.


def spread(count, seed=0):
    """Keys of 32 numbers with 6 degrees of freedom, far enough apart for 8 bits."""
    rng = np.random.default_rng(seed)
    wide = np.random.default_rng(99).normal(size=(6, 32))
    return (np.tanh(rng.normal(size=(count, 6)) @ wide)).astype(np.float32)


def test_8_bits_find_as_many_neighbours_among_the_candidates_as_the_keys_themselves(monkeypatch):
    keys, queries = spread(6000), spread(100, seed=1)
    few = scann(keys, tree_from=1000)
    assert few._grid is not None
    monkeypatch.setattr(scann_index, "_GRID_FROM", 10_000)
    full = scann(keys, tree_from=1000)
    assert full._grid is None
    assert among_candidates(full, keys, queries) >= 0.98
    assert among_candidates(few, keys, queries) >= among_candidates(full, keys, queries) - 0.01


def test_later_keys_of_8_bits_are_found_as_well_as_those_of_the_build(monkeypatch):
    monkeypatch.setattr(scann_index, "_COARSEST", 1.0)  # where rounding matters most
    keys, queries = clustered(8000), clustered(8400)[8000:]
    index = scann(keys[:4000], tree_from=1000)
    index.append(keys[4000:7500])
    index.move(np.arange(500), keys[7500:])
    held = np.concatenate([keys[7500:], keys[500:7500]])
    true = exact(held).search(queries, P)
    found = index.search(queries, int(index.overfetch * P))
    hit = np.array([np.isin(row, answer) for row, answer in zip(true, found, strict=True)])
    of_the_build = (true >= 500) & (true < 4000)
    assert hit[of_the_build].mean() >= 0.97  # 0.69 where later keys are not put on the grid
    assert hit[~of_the_build].mean() >= 0.97  # ... and 0.58


def test_the_key_that_lays_the_grid_is_no_answer():
    keys = spread(4000)
    index = scann(keys, tree_from=1000)
    assert len(index) == 4000
    corner = index._grid.corner + index._centre
    assert index.search(corner[None], 20).max() < 4000


def test_keys_too_near_to_each_other_for_8_bits_keep_their_32():
    assert scann(clustered(4000), tree_from=1000)._grid is None


def test_a_number_that_is_the_same_in_all_keys_does_no_harm():
    keys = np.concatenate([spread(4000), np.full((4000, 1), 0.3, np.float32)], axis=1)
    index = scann(keys, tree_from=1000)
    assert index._grid is not None
    assert among_candidates(index, keys, keys[:50]) >= 0.98


def test_it_is_outgrown_when_a_fifth_of_its_keys_lie_beyond_the_grid():
    index = scann(spread(4000), tree_from=1000)
    index.append(spread(500, seed=1))
    assert not index.outgrown(0)
    index.move(np.arange(900), 10 * spread(900, seed=2))
    assert not index.outgrown(0)
    index.move(np.arange(10), 10 * spread(10, seed=2))
    assert index.outgrown(0)
    index.rebuild(spread(4000))
    assert not index.outgrown(0)


def among_candidates(index, keys, queries):
    """The part of the true neighbours that is among as many candidates as a lookup asks for."""
    found = index.search(queries, int(index.overfetch * P))
    true = exact(keys).search(queries, P)
    hits = [np.isin(row, answer).mean() for row, answer in zip(true, found, strict=True)]
    return float(np.mean(hits))


# When it has to be trained again.


def test_it_is_outgrown_when_it_reaches_the_size_for_a_tree():
    index = scann(clustered(99), tree_from=100)
    assert not index.outgrown(0)
    assert index.outgrown(1)


def test_a_tree_is_outgrown_when_it_has_doubled():
    index = scann(clustered(100), tree_from=100)
    assert not index.outgrown(99)
    assert index.outgrown(100)
    index.append(clustered(99, seed=1))
    assert not index.outgrown(0)
    assert index.outgrown(1)


def test_a_tree_is_outgrown_when_twice_as_many_keys_moved_as_it_was_trained_on():
    index = scann(clustered(100), tree_from=100)
    index.move(np.arange(100), clustered(100, seed=1))
    index.move(np.arange(99), clustered(99, seed=1))
    assert not index.outgrown(0)
    index.move(np.array([5]), clustered(1))
    assert index.outgrown(0)
    index.rebuild(clustered(100))
    assert not index.outgrown(0)


def test_a_tree_too_large_to_be_rebuilt_in_time_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(scann_index, "_LARGEST_RETRAINING", 150)
    index = scann(clustered(100), tree_from=100)
    assert index.outgrown(100)
    index.append(clustered(51, seed=1))
    assert not index.outgrown(100)


def test_a_tree_is_outgrown_when_a_rebuild_is_requested(monkeypatch):
    index = scann(clustered(100), tree_from=50)
    index.request_rebuild()
    assert index.outgrown(0)
    monkeypatch.setattr(scann_index, "_LARGEST_RETRAINING", 99)
    assert not index.outgrown(0)  # such a large tree is never built again
    brute_force = scann(clustered(40), tree_from=50)
    brute_force.request_rebuild()
    assert not brute_force.outgrown(0)


def test_moves_alone_do_not_outgrow_brute_force():
    index = scann(clustered(50), tree_from=100)
    for _ in range(4):
        index.move(np.arange(50), clustered(50, seed=1))
    assert not index.outgrown(0)


def test_growing_through_the_first_tree_and_two_retrainings_keeps_recall():
    keys = clustered(2500)
    index = ScannIndex(KEY_SIZE, P, tree_from=500)
    rebuilds = []
    for end in range(50, 2501, 50):
        if index.outgrown(50):
            index.rebuild(keys[:end])
            rebuilds.append(end)
        else:
            index.append(keys[end - 50 : end])
        if end % 250 == 0:
            assert recall(index, keys[:end], keys[:end:25]) >= 0.95
    assert rebuilds == [500, 1000, 2000]


# The factory.


def test_the_factory_makes_a_scann_index():
    index = make_index("scann", KEY_SIZE, P, np.float32)
    assert isinstance(index, ScannIndex)
    assert not index.is_exact


def test_missing_scann_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.delitem(sys.modules, "nec_tf.memory.neighbours.scann_index", raising=False)
    monkeypatch.setitem(sys.modules, "scann.scann_ops.py", None)  # not to be imported
    with pytest.raises(ImportError, match=r"scann==1.3.0.*index='exact'"):
        make_index("scann", KEY_SIZE, P, np.float32)


def test_the_same_keys_give_the_same_answers_in_every_process():
    program = (
        "import hashlib, numpy as np\n"
        "from nec_tf.memory.neighbours.scann_index import ScannIndex\n"
        "keys = np.random.default_rng(0).normal(size=(6000, 8)).astype(np.float32)\n"
        "index = ScannIndex(8, 10, tree_from=1000)\n"
        "index.rebuild(keys)\n"
        "print(hashlib.md5(index.search(keys[:500], 10).tobytes()).hexdigest())\n"
    )
    answers = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
        for _ in range(3)
    }
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 32


@pytest.mark.parametrize("p", [P, 2900])
@pytest.mark.parametrize("count", [3, 4, 33])
def test_queries_that_come_together_get_the_answers_of_each_alone(count, p):
    """With p at 2,900 the answers differ in length: the leaves that are searched hold fewer."""
    keys = clustered(3000)
    index = scann(keys, tree_from=100)
    queries = clustered(count, seed=1)
    together = index.search(queries, p)
    for query, mine in zip(queries, together, strict=True):
        alone = index.search(query[None], p)[0]
        assert (mine >= 0).sum() == (alone >= 0).sum()
        distances = [
            np.linalg.norm(keys[slots[slots >= 0]] - query, axis=1) for slots in (mine, alone)
        ]
        np.testing.assert_allclose(*distances, rtol=1e-4)  # equally far ones may change places
