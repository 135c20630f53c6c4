import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nec_tf.memory.neighbours import ExactIndex, make_index
from nec_tf.memory.neighbours.exact import smallest

# Few different numbers, so that many distances tie, and exactly.
points = st.integers(0, 6).flatmap(
    lambda n: hnp.arrays(np.float64, (n, 2), elements=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
)
point = hnp.arrays(np.float64, (2,), elements=st.sampled_from([0.0, 0.5, 1.5]))


@given(keys=points, query=point, p=st.integers(1, 8))
def test_the_nearest_keys_are_those_of_the_reference_and_the_lower_slot_wins_a_tie(keys, query, p):
    index = ExactIndex(2, np.float64)
    index.append(keys)
    expected = reference.nearest(query, keys, p)
    found = index.search(query[None], p)
    assert found.dtype == np.int64
    assert found.tolist() == [expected + [-1] * (p - len(expected))]


def test_an_empty_index_finds_no_neighbour():
    index = ExactIndex(3)
    assert len(index) == 0
    assert index.search(np.zeros((2, 3)), 4).tolist() == [[-1] * 4] * 2


def test_no_queries_have_no_answers():
    index = ExactIndex(3)
    index.append(np.zeros((5, 3)))
    assert index.search(np.zeros((0, 3)), 4).shape == (0, 4)


def test_near_neighbours_far_from_the_origin_are_told_apart():
    index = ExactIndex(1, np.float64)
    index.append(np.array([[1e8 + 2.0], [1e8 + 1.0], [1e8]]))
    assert index.search(np.array([[1e8]]), 3).tolist() == [[2, 1, 0]]


def test_a_moved_key_is_found_at_its_new_place_and_not_at_the_old_one():
    index = ExactIndex(1)
    index.append(np.array([[0.0], [10.0], [20.0]]))
    index.move(np.array([0]), np.array([[30.0]]))
    assert index.search(np.array([[0.0], [30.0]]), 1).tolist() == [[1], [0]]


def test_the_last_move_of_a_slot_wins():
    index = ExactIndex(1)
    index.append(np.array([[0.0], [10.0]]))
    index.move(np.array([0, 1, 0]), np.array([[5.0], [7.0], [100.0]]))
    assert index.search(np.array([[100.0], [5.0]]), 1).tolist() == [[0], [1]]


def test_a_rebuild_forgets_what_was_before():
    index = ExactIndex(1)
    index.append(np.array([[0.0], [10.0]]))
    index.rebuild(np.array([[7.0]]))
    assert len(index) == 1
    assert index.search(np.array([[0.0]]), 2).tolist() == [[0, -1]]
    index.rebuild(np.empty((0, 1)))
    assert len(index) == 0


def test_the_index_keeps_its_own_copy_of_the_keys():
    keys = np.array([[0.0], [10.0]], np.float32)
    index = ExactIndex(1)
    index.rebuild(keys)
    keys[:] = 100.0
    assert index.search(np.array([[9.0]]), 1).tolist() == [[1]]


def test_many_small_appends_are_one_large_one():
    keys = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    one, many = ExactIndex(4), ExactIndex(4)
    one.append(keys)
    for start in range(0, 300, 7):
        many.append(keys[start : start + 7])
    assert len(many) == 300
    np.testing.assert_array_equal(one.search(keys[:20], 10), many.search(keys[:20], 10))


@given(
    hnp.arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([0.0, 1.0, 2.0, np.inf])),
    st.data(),
)
def test_smallest_is_the_head_of_a_stable_sort(numbers, data):
    count = data.draw(st.integers(0, len(numbers)))
    expected = np.argsort(numbers, kind="stable")[:count]
    assert smallest(numbers, count).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_factory_makes_an_exact_index_of_the_dtype_of_the_keys(dtype):
    index = make_index("exact", 1, 5, dtype)
    assert isinstance(index, ExactIndex)
    assert index.is_exact
    index.append(np.array([[1.0], [1.0 + 1e-12]]))
    nearer = 1 if dtype == np.float64 else 0  # equal in float32
    assert index.search(np.array([[1.0 + 1e-12]]), 1).tolist() == [[nearer]]


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="index must be one of scann, exact, not 'faiss'"):
        make_index("faiss", 1, 5, np.float32)
