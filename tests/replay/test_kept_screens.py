import numpy as np
import pytest

from nec_tf.memory.state_ids import hash_states
from nec_tf.replay.kept_screens import KeptScreens, ScreenWriter, newest_screen


def stacks(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 6, 5, 4), np.uint8)


def test_the_newest_frame_of_a_stack_is_what_a_person_sees():
    stack, colour, vector = np.zeros((6, 5, 4)), np.zeros((6, 5, 3)), np.zeros(4)
    stack[..., 3] = 1
    assert newest_screen(stack).min() == 1
    assert newest_screen(colour).shape == (6, 5, 3)
    assert newest_screen(vector).shape == (4,)


def test_screens_are_found_by_the_ids_of_their_states_and_kept_once(tmp_path):
    states = stacks(20)
    writer = ScreenWriter(tmp_path / "screens")
    writer.add(hash_states(states[:15]), states[:15])
    writer.add(hash_states(states[5:]), states[5:])
    kept = KeptScreens(tmp_path / "screens")
    assert len(kept) == 20
    for state_id, state in zip(hash_states(states).tolist(), states, strict=True):
        np.testing.assert_array_equal(kept.find(state_id), state[..., -1])
    assert kept.find(12345) is None
    on_disk = sum(
        (tmp_path / "screens" / name).stat().st_size for name in ("data.bin", "index.bin")
    )
    assert kept.nbytes == on_disk


def test_a_later_session_adds_to_what_is_there(tmp_path):
    for seed in (0, 1):
        states = stacks(10, seed)
        writer = ScreenWriter(tmp_path)
        writer.add(hash_states(states), states)
        writer.close()
    kept = KeptScreens(tmp_path)
    for seed in (0, 1):
        states = stacks(10, seed)
        assert all(kept.find(int(i)) is not None for i in hash_states(states))


@pytest.mark.parametrize(("name", "cut"), [("index.bin", 5), ("data.bin", 5), ("index.bin", 24)])
def test_files_that_a_crash_cut_lose_their_last_screen_and_take_new_ones(tmp_path, name, cut):
    states = stacks(10)
    ids = hash_states(states)
    writer = ScreenWriter(tmp_path)
    writer.add(ids, states)
    writer.close()
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-cut])
    kept = KeptScreens(tmp_path)
    assert len(kept) == 9
    assert kept.find(int(ids[9])) is None
    writer = ScreenWriter(tmp_path)
    writer.add(ids, states)
    kept = KeptScreens(tmp_path)
    for state_id, state in zip(ids.tolist(), states, strict=True):
        np.testing.assert_array_equal(kept.find(state_id), state[..., -1])


def test_a_damaged_screen_is_not_shown(tmp_path):
    states = stacks(3)
    ids = hash_states(states)
    writer = ScreenWriter(tmp_path)
    writer.add(ids, states)
    content = bytearray((tmp_path / "data.bin").read_bytes())
    content[3] ^= 255
    (tmp_path / "data.bin").write_bytes(bytes(content))
    kept = KeptScreens(tmp_path)
    assert kept.find(int(ids[0])) is None
    assert kept.find(int(ids[1])) is not None


def test_vectors_are_kept_whole(tmp_path):
    states = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    writer = ScreenWriter(tmp_path)
    writer.add(hash_states(states), states)
    kept = KeptScreens(tmp_path)
    np.testing.assert_array_equal(kept.find(int(hash_states(states)[2])), states[2])
