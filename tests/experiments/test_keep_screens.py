"""--keep_screens: every entry has its screen, and the numbers of the run are those without it."""

import json

import pytest

import nec_tf
from nec_tf.experiments import run_files
from nec_tf.memory.state_ids import hash_states
from nec_tf.replay.kept_screens import KeptScreens
from nec_tf.runtime.errors import UserError

QUICK = {
    "learning_starts": 40,
    "batch_size": 8,
    "horizon": 10,
    "replay_capacity": 60,
    "eval_episodes": 1,
    "eval_every_frames": 200,
    "log_every_frames": 50,
    "checkpoint_every_frames": 1000,
    "video": False,
}
TIMED = ("wall_seconds", "frames_per_second", "seconds")


def numbers(run_dir):
    return [
        {name: cell for name, cell in row.items() if not any(t in name for t in TIMED)}
        for row in run_files.read_metrics(run_dir)
    ]


def test_screens_of_all_entries_are_kept_over_a_resume_and_change_no_number(tmp_path):
    plain, kept = tmp_path / "plain", tmp_path / "kept"
    for frames in (150, 300):  # the second time the run resumes
        for folder, given in ((plain, {}), (kept, {"keep_screens": True})):
            nec_tf.train("CartPole-v1", frames=frames, run_dir=folder, **QUICK, **given)
    assert numbers(kept) == numbers(plain)
    assert len(numbers(kept)) > 3
    assert not (plain / "screens").exists(), "off costs nothing"
    screens = KeptScreens(kept / "screens")
    entries = nec_tf.load_run(kept).agent.dnd.entries()
    assert len(entries) > 100, "more than the replay holds"
    for state_id in entries.state_ids.tolist():
        state = screens.find(state_id)
        assert hash_states(state[None])[0] == state_id
    assert json.loads((kept / "config.json").read_text())["keep_screens"] is True


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"agent": "dqn"}, "keep_screens is for agents with a memory"),
        ({"recognise_by_key": True}, "with recognise_by_key there are none"),
    ],
)
def test_a_run_without_ids_of_states_is_refused_and_leaves_no_folder(tmp_path, given, reason):
    with pytest.raises(UserError, match=reason):
        nec_tf.train("CartPole-v1", 100, run_dir=tmp_path / "run", keep_screens=True, **given)
    assert not [path for path in (tmp_path / "run").glob("*") if path.name != "lock"]
