"""A run leaves as a SavedModel and its memory comes back; served without Python and by a server."""

import json
import shutil
import subprocess
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)
from tf_agents.trajectories import time_step as ts

import nec_tf
from nec_tf.agents.mfec.config import MfecConfig
from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.experiments import memory_import
from nec_tf.experiments.evaluation_log import EvaluationLog, EvaluationRecord
from nec_tf.experiments.exporting import _score, export_run, visited_states
from nec_tf.experiments.loop import Experiment
from nec_tf.experiments.run import Run, load_run
from nec_tf.experiments.settings import Settings
from nec_tf.experiments.tasks import atari_task
from nec_tf.memory.entries import Entries
from nec_tf.runtime.errors import UserError
from nec_tf.runtime.version import VERSION
from nec_tf.serving import checking, memory_files, native
from nec_tf.serving.client import GrpcPolicy, RestPolicy, ServerError
from nec_tf.serving.compacting import Compact
from nec_tf.serving.exporting import find_version
from nec_tf.serving.freezing import freeze_memory

ROOT = Path(__file__).parents[2]
FRAMES = 3_000
DATA = "variables.data-00000-of-00001"


def settings(**changes):
    defaults = dict(
        agent="nec",
        frames=FRAMES,
        seed=1,
        num_envs=1,
        eval_every_frames=FRAMES,
        eval_episodes=1,
        checkpoint_every_frames=FRAMES,
        log_every_frames=FRAMES,
        video=False,
    )
    return Settings(**defaults | changes)


# At the default learning rate the few stored keys become so outdated that all states look alike
# (docs/experiments.md): there would be nothing to compare.
CONFIG = NecLearnerConfig(
    capacity=5_000,
    learning_starts=200,
    epsilon_from=100,
    epsilon_until=400,
    learning_rate=1e-5,
)


def short_run(folder, config, **changes):
    """A short run of Pong, at its end."""
    run = Run(folder, atari_task("pong"), settings(**changes), config)
    run.learner.begin_evaluation(1)
    experiment = Experiment(run)
    experiment._evaluate = lambda bar: {}  # a whole game of Pong takes long and shows nothing here
    experiment.run()
    # So short a run may prefer one action everywhere: with values that rise along the keys, each
    # action's in a direction of its own and around 0, several are best somewhere.
    rng = np.random.default_rng(0)
    tables = run.learner.agent.dnd.tables
    rows = np.arange(1, int(tables.size))
    actions = tables.read(tables.actions, rows)
    for action in np.unique(actions):
        own = rows[actions == action]
        keys = tables.read(tables.keys, own)
        values = keys @ rng.normal(size=keys.shape[1])
        tables.put(tables.values, own, (values - values.mean()) / values.std())
    run.save()
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return short_run(tmp_path_factory.mktemp("run"), CONFIG)


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    output = tmp_path_factory.mktemp("exported") / "pong"
    return export_run(run, output, "ivf", 0.99, None)


@pytest.fixture(scope="module")
def states(run):
    return visited_states(run)


@pytest.fixture(scope="module")
def expected(run, states):
    return answers(run.learner.agent, states)


def answers(agent, states):
    """What the agent itself answers, 32 states at a time as it trains; NaN where two are right.

    The same state has keys that differ in the seventh digit in batches of other sizes. Where the
    last neighbour and the one after it are equally far within that, either may be the one.
    """
    keys = np.concatenate([agent.embedding(batch).numpy() for batch in np.split(states, 8)])
    q = np.concatenate([agent.dnd(b, training=False).numpy() for b in np.split(keys, 8)])
    assert len(set(q.argmax(axis=1))) > 1
    ambiguous = np.stack([last_are_tied(agent.dnd, keys, a) for a in range(q.shape[1])], axis=1)
    assert ambiguous.mean() < 0.01
    return np.where(ambiguous, np.nan, q)


def last_are_tied(dnd, keys, action):
    """Whether the p-th and the next neighbour of keys [B, key_size] are equally far, bool [B]."""
    tables, p = dnd.tables, dnd.num_neighbours
    rows = np.arange(1, int(tables.size))
    own = tables.read(tables.keys, rows[tables.read(tables.actions, rows) == action])
    if len(own) <= p:
        return np.zeros(len(keys), bool)
    d2 = np.square(keys[:, None].astype(np.float64) - own).sum(axis=-1)
    d2.sort(axis=1)
    return d2[:, p] - d2[:, p - 1] < 1e-5 * d2[:, p]


def assert_same_decisions(actions, q_values, expected):
    known = np.isfinite(expected)
    np.testing.assert_allclose(q_values[known], expected[known], atol=1e-4)
    best = np.sort(expected, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-4  # of two equal ones either may be called the best
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(actions[clear], expected.argmax(axis=1)[clear])


def test_the_layout_is_what_a_server_loads(exported):
    assert exported.name == "1"
    names = {path.name for path in exported.iterdir()}
    assert {"saved_model.pb", "variables", "assets", "assets.extra", "memory"} <= names
    assert (exported.parent / "memory").resolve() == (exported / "memory").resolve()
    assert not list(exported.parent.glob("unfinished*"))


def test_the_graph_holds_only_stock_operations(exported):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((exported / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    operations = {node.op for node in nodes}
    assert not [op for op in operations if "Py" in op or "Scann" in op or ">" in op]


@pytest.mark.parametrize("batch", [1, 32])
def test_a_c_program_decides_as_the_agent_does(exported, states, expected, tmp_path, batch):
    decisions = native.decide(native.build(tmp_path), exported, states, [batch])
    assert len(decisions.milliseconds[batch]) == len(states) // batch
    assert_same_decisions(decisions.actions, decisions.q_values, expected)


@pytest.mark.parametrize("batch", [1, 32])
def test_the_same_c_program_decides_as_mfec_does(mfec, tmp_path, batch):
    exported, states, expected = mfec
    decisions = native.decide(native.build(tmp_path), exported, states, [batch])
    assert_same_decisions(decisions.actions, decisions.q_values, expected)


@pytest.fixture(scope="module")
def mfec(tmp_path_factory):
    """An export of MFEC, states, and what the agent answers."""
    # Long enough for a whole game, since MFEC writes at its end.
    config = MfecConfig(capacity=5_000)
    run = short_run(tmp_path_factory.mktemp("run"), config, agent="mfec", frames=2 * FRAMES)
    states = visited_states(run)
    output = tmp_path_factory.mktemp("exported") / "pong"
    exported = export_run(run, output, "ivf", 0.99, None)
    return exported, states, answers(run.learner.agent, states)


ONLY_TENSORFLOW = """
import sys
import numpy as np
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
answer = model.signatures["serving_default"](observation=tf.constant(np.load(sys.argv[2])))
np.savez(sys.argv[3], **{name: tensor.numpy() for name, tensor in answer.items()})
assert not [name for name in sys.modules if name.startswith(("nec_tf", "tf_agents", "scann"))]
"""


def test_a_process_that_imports_only_tensorflow_decides_the_same(
    exported, states, expected, tmp_path
):
    np.save(tmp_path / "states.npy", states)
    files = [str(exported), str(tmp_path / "states.npy"), str(tmp_path / "answer.npz")]
    command = [sys.executable, "-c", ONLY_TENSORFLOW, *files]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    answer = np.load(tmp_path / "answer.npz")
    assert_same_decisions(answer["action"], answer["q_values"], expected)


def test_it_loads_as_a_policy_of_tf_agents(exported, states, expected):
    policy = tf.saved_model.load(str(exported))
    step = ts.restart(tf.constant(states), len(states))
    actions = policy.action(step, policy.get_initial_state(len(states))).action
    assert_same_decisions(actions.numpy(), expected, expected)
    assert int(policy.get_train_step()) >= FRAMES


def test_explain_names_the_entries_behind_an_answer(exported, states):
    answer = tf.saved_model.load(str(exported)).signatures["explain"](
        observation=tf.constant(states[:5])
    )
    q = tf.reduce_sum(answer["weights"] * answer["values"], axis=-1)
    served = tf.saved_model.load(str(exported)).signatures["serving_default"](
        observation=tf.constant(states[:5])
    )
    np.testing.assert_allclose(q, served["q_values"], atol=1e-5)
    values = np.load(exported / "memory" / "values.npy")
    rows = answer["rows"].numpy()
    there = rows > 0
    np.testing.assert_allclose(answer["values"].numpy()[there], values[rows[there] - 1])
    assert (
        np.diff(np.where(there, answer["distances"], np.inf), axis=-1)[there[..., 1:]] >= 0
    ).all()


@pytest.mark.parametrize(
    "wrong", [np.zeros((1, 84, 84, 3), np.uint8), np.zeros((1, 84, 84, 4), np.float32)]
)
def test_a_wrong_observation_is_an_error_and_never_an_answer(exported, wrong):
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError, ValueError)):
        serve(observation=tf.constant(wrong))


def test_warmup_requests_parse_and_are_answered(exported):
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    sizes = []
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        assert request.model_spec.name == "pong"
        observation = tf.make_ndarray(request.inputs["observation"])
        sizes.append(len(serve(observation=tf.constant(observation))["action"]))
    assert sizes == [1, 8]


def test_the_next_export_is_the_next_version(run, exported):
    second = export_run(run, exported.parent, "exact", 0.99, None)
    assert second.name == "2"
    with pytest.raises(UserError, match="exists already"):
        export_run(run, exported.parent, "exact", 0.99, 2)


def test_the_manifest_says_what_was_exported_and_how_fast_it_answers(run, exported):
    about = json.loads((exported / "export.json").read_text())
    assert about["version"] == 1
    assert about["nec_tf"] == VERSION
    assert about["source"]["frames"] == run.progress.frames
    assert about["source"]["commit"].startswith("commit ")
    assert {"score", "best_evaluation"} <= {*about["source"]}
    (exporting,) = about["source"]["commands"]  # none before it: no program trained this run
    assert exporting.startswith("commit ")
    assert about["megabytes"] > 1
    assert 0 < about["latency"]["p50_ms"] <= about["latency"]["p99_ms"]


def test_the_score_is_that_of_the_exported_checkpoint_and_not_of_another(run):
    """The best evaluation may be of an older checkpoint, and a lost session of later frames."""
    frames, folder = run.progress.frames, run.folder.path
    assert _score(run) is None
    log = EvaluationLog(folder, frames)
    log.write(EvaluationRecord(frames - 10, [9.0, 9.0], 1.0))
    log.write(EvaluationRecord(frames, [1.0, 2.0, 6.0], 2.0))
    log.write(EvaluationRecord(frames + 10, [7.0], 3.0))
    assert _score(run) == {"mean": 3.0, "episodes": 3, "frames": frames}
    (folder / "evaluations.jsonl").unlink()


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: cut(folder / "saved_model.pb"),
        lambda folder: (folder / "saved_model.pb").write_bytes(b""),
        lambda folder: [cut(path) for path in folder.glob("variables/*data*")],
        lambda folder: [path.unlink() for path in folder.glob("variables/*index")],
        lambda folder: cut(folder / "check.npz"),
        lambda folder: np.savez(folder / "check.npz", states=np.zeros(3)),
        lambda folder: np.savez(folder / "check.npz", states=np.zeros(3), action=0, logits=0),
    ],
)
def test_a_check_names_what_is_damaged(exported, tmp_path, damage):
    shutil.copytree(exported, tmp_path / "1")
    damage(tmp_path / "1")
    with pytest.raises(UserError, match="is damaged"):
        checking.check(tmp_path / "1")


def test_a_check_finds_an_export_whose_answers_changed(exported, tmp_path):
    assert "32 of 32 actions are the same" in checking.check(exported)
    shutil.copytree(exported, tmp_path / "1")
    with np.load(exported / "check.npz") as file:
        kept = dict(file)
    np.savez(tmp_path / "1" / "check.npz", **{**kept, "q_values": kept["q_values"] + 0.1})
    with pytest.raises(UserError, match="does not answer as it did"):
        checking.check(tmp_path / "1")
    np.savez(tmp_path / "1" / "check.npz", **{**kept, "q_values": kept["q_values"] * np.nan})
    with pytest.raises(UserError, match="does not answer as it did"):
        checking.check(tmp_path / "1")
    (tmp_path / "1" / "check.npz").unlink()
    with pytest.raises(UserError, match=r"check\.npz is missing"):
        checking.check(tmp_path / "1")


@pytest.fixture(scope="module")
def small(run, tmp_path_factory):
    output = tmp_path_factory.mktemp("exported") / "pong"
    return export_run(run, output, compact=Compact(key_bits=4))


def test_a_compact_export_is_small_and_says_what_that_changed(run, exported, small, states):
    about = json.loads((small / "export.json").read_text())
    assert not (small / "memory").exists()
    assert not (small.parent / "memory").is_symlink()
    size = sum(path.stat().st_size for path in small.rglob("*") if path.is_file())
    assert about["megabytes"] == pytest.approx(size / 1e6, abs=0.01)
    stored, full = ((f / "variables" / DATA).stat().st_size for f in (small, exported))
    entries = about["entries"]
    assert entries == len(run.learner.agent.dnd.entries())
    assert full - stored > entries * (64 * 4 - 64 // 2)
    answers = [
        tf.saved_model.load(str(f)).signatures["serving_default"](observation=tf.constant(states))
        for f in (small, exported)
    ]
    same = np.mean(answers[0]["action"] == answers[1]["action"])
    assert same == pytest.approx(about["export"]["action_agreement"], abs=0.01)
    assert same > 0.8
    difference = np.abs(answers[0]["q_values"] - answers[1]["q_values"])
    assert difference.max() == pytest.approx(about["export"]["largest_q_difference"], rel=0.05)


def test_a_compact_export_holds_only_stock_operations_and_passes_its_check(small, exported):
    test_the_graph_holds_only_stock_operations(small)
    assert "32 of 32 actions are the same" in checking.check(small)


def test_a_c_program_runs_a_compact_export(small, states, tmp_path):
    decisions = native.decide(native.build(tmp_path), small, states, [32])
    served = tf.saved_model.load(str(small)).signatures["serving_default"](
        observation=tf.constant(states[:32])
    )
    np.testing.assert_allclose(decisions.q_values[:32], served["q_values"], atol=1e-4)


def test_a_compact_export_is_not_imported(small):
    with pytest.raises(UserError, match="Export the run without --compact"):
        memory_import._find(small.parent)


def test_an_agent_is_exported_with_states_of_its_own(run, states, tmp_path):
    agent = run.learner.agent
    with pytest.raises(UserError, match=r"states are required: .* uint8 \[n, 84, 84, 4\]"):
        nec_tf.export(agent, tmp_path / "pong")
    with pytest.raises(UserError, match="must be observations of the agent"):
        nec_tf.export(agent, tmp_path / "pong", states[:, :-1])
    with pytest.raises(UserError, match="must be observations of the agent"):
        nec_tf.export(agent, tmp_path / "pong", states.astype(np.float32))
    with pytest.raises(UserError, match="at least one"):
        nec_tf.export(agent, tmp_path / "pong", states[:0])
    assert not (tmp_path / "pong").exists()
    version = nec_tf.export(agent, tmp_path / "pong", tf.constant(states))
    assert {"serving_default", "explain"} <= {*tf.saved_model.load(str(version)).signatures}


def test_a_folder_without_an_export_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no export: `nec-tf export`"):
        find_version(tmp_path / "nowhere")
    for version in ("2", "10"):
        (tmp_path / version).mkdir()
    assert find_version(tmp_path).name == "10"


def test_a_memory_is_found_after_the_newest_version_was_removed(exported, tmp_path):
    for version in ("1", "2"):
        shutil.copytree(exported / "memory", tmp_path / version / "memory")
    (tmp_path / "memory").symlink_to("2/memory")
    assert memory_import._find(tmp_path) == tmp_path / "memory"
    shutil.rmtree(tmp_path / "2")
    assert memory_import._find(tmp_path) == tmp_path / "1" / "memory"


# A large memory, on which an inverted file pays.


@pytest.fixture(scope="module")
def large(run):
    """A memory of 60,000 clustered keys over three actions, its layer and network, and queries."""
    rng = np.random.default_rng(0)
    counts = [40_000, 0, 20_000]
    centres = rng.normal(size=(200, 64))
    keys = centres[rng.integers(0, 200, 60_000)] + 0.3 * rng.normal(size=(60_000, 64))
    entries = Entries(
        actions=np.repeat(np.arange(3), counts),
        keys=keys.astype(np.float32),
        values=rng.normal(size=60_000).astype(np.float32),
        state_ids=np.arange(60_000),
        ages=np.zeros(60_000, np.int64),
        rows=np.arange(1, 60_001),
    )
    memory = memory_files.Memory(entries, [], {"configuration": {"num_actions": 3}})

    class Identity:
        def predict(self, states, verbose):
            return states

        def __call__(self, states, training):
            return states

    queries = centres[rng.integers(0, 200, 64)] + 0.3 * rng.normal(size=(64, 64))
    return memory, (run.learner.agent.dnd, Identity()), queries.astype(np.float32)


@pytest.mark.parametrize("recall", [0.5, 0.9, 0.99])
def test_probes_are_chosen_for_the_recall_that_was_asked_for(large, recall):
    memory, parts, queries = large
    network, measured = freeze_memory(memory, *parts, "ivf", recall, queries)
    assert measured["lookup"] == "ivf"
    assert recall <= measured["recall"] <= 1.0
    assert measured["probes"] < measured["blocks"] / 3
    exact, _ = freeze_memory(memory, *parts, "exact", 1.0, queries)
    _, mine = network(queries)
    _, true = exact(queries)
    same = np.mean(np.argmax(mine, axis=1) == np.argmax(true, axis=1))
    assert same == pytest.approx(measured["action_agreement"])
    assert (np.asarray(mine)[:, 1] == 0).all()


def test_scann_s_operations_find_the_neighbours_of_each_action(large):
    memory, parts, queries = large
    network, measured = freeze_memory(memory, *parts, "scann", 0.99, queries)
    assert measured["recall"] > 0.9
    exact, _ = freeze_memory(memory, *parts, "exact", 1.0, queries)
    np.testing.assert_allclose(network(queries)[1], exact(queries)[1], atol=0.2)


# The memory comes back.


def test_a_new_run_begins_with_an_exported_memory(run, exported, states, expected, tmp_path):
    changed = settings(seed=2, init_memory=str(exported.parent))
    second = Run(tmp_path / "second", atari_task("pong"), changed, CONFIG)
    agent = second.learner.agent
    q, known = agent.dnd(agent.embedding(states[:32]), training=False), np.isfinite(expected[:32])
    np.testing.assert_allclose(q.numpy()[known], expected[:32][known], atol=1e-4)
    for trained, own in zip(
        agent.online_network.get_weights(), agent.embedding.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(trained, own)
    assert float(agent.exploration.epsilon_at(agent.exploration.steps)) == pytest.approx(
        CONFIG.epsilon_end
    )


def program(name, *flags):
    command = [sys.executable, str(ROOT / "export" / f"{name}.py"), *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_programs_export_and_import(run, tmp_path):
    run_dir, output = str(run.folder.path), str(tmp_path / "out")
    done = program("export_policy", f"--run_dir={run_dir}", f"--output_dir={output}")
    assert done.returncode == 0, done.stderr
    assert "action_agreement 1.0" in done.stdout
    again = Run(tmp_path / "second", atari_task("pong"), settings(seed=3), CONFIG)
    again.folder.write_config()
    again.save()
    done = program("import_memory", f"--memory={output}", f"--run_dir={tmp_path / 'second'}")
    assert done.returncode == 0, done.stderr
    (noted,) = (tmp_path / "second" / "commands.txt").read_text().splitlines()
    assert "python export/import_memory.py --memory=" in noted
    done = program("export_policy", "--check", f"--output_dir={output}")
    assert "32 of 32 actions are the same" in done.stdout, done.stderr
    restored = load_run(tmp_path / "second").learner.agent.dnd
    np.testing.assert_array_equal(restored.sizes, run.learner.agent.dnd.sizes)


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("export_policy", ["--run_dir=nowhere", "--output_dir=out"], "not a run's folder"),
        ("export_policy", ["--output_dir=out"], "--run_dir is required"),
        ("import_memory", ["--run_dir=nowhere"], "--memory is required"),
        ("serving_client", ["--model=m"], "either --game or --env"),
    ],
)
def test_a_mistake_gets_a_sentence(name, flags, message):
    done = program(name, *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# A server on loopback, which answers from the export.


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, serve):
        self._serve = serve

    def Predict(self, request, context):
        if request.model_spec.name != "pong":
            context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
        observation = tf.make_ndarray(request.inputs["observation"])
        answer = self._serve(observation=tf.constant(observation))
        outputs = {name: tf.make_tensor_proto(tensor) for name, tensor in answer.items()}
        return predict_pb2.PredictResponse(outputs=outputs)


@pytest.fixture(scope="module")
def grpc_server(exported):
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(serve), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(None)


@pytest.fixture(scope="module")
def rest_server(exported):
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = self.path == "/v1/models/pong:predict"
            self.send_response(200 if found else 404)
            self.end_headers()
            if found:
                observation = np.array(body["inputs"]["observation"], np.uint8)
                answer = serve(observation=tf.constant(observation))
                outputs = {name: tensor.numpy().tolist() for name, tensor in answer.items()}
                self.wfile.write(json.dumps({"outputs": outputs}).encode())
            else:
                self.wfile.write(b'{"error": "no such model"}')

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"localhost:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("kind", ["grpc", "rest"])
def test_a_client_gets_the_actions_of_the_export(kind, states, expected, request):
    server = request.getfixturevalue(f"{kind}_server")
    client = {"grpc": GrpcPolicy, "rest": RestPolicy}[kind]
    assert_same_decisions(client(server, "pong")(states[:16]), expected[:16], expected[:16])
    with pytest.raises(ServerError, match="no such model"):
        client(server, "breakout")(states[:1])
    with pytest.raises(ServerError, match="did not answer"):
        client("localhost:1", "pong", timeout=1.0)(states[:1])


def test_the_client_plays_a_game_and_shows_score_and_latency(tmp_path):
    """CartPole, whose games are short, with a server that pushes to where the pole leans."""

    def lean(observation):
        action = tf.cast(observation[:, 2] + observation[:, 3] > 0, tf.int64)
        return {"action": action, "q_values": tf.one_hot(action, 2)}

    class Leaning(Service):
        def Predict(self, request, context):
            request.model_spec.name = "pong"
            return super().Predict(request, context)

    server = grpc.server(futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Leaning(lean), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    flags = [f"--server=localhost:{port}", "--model=cartpole", "--env=CartPole-v1"]
    done = program("serving_client", *flags)
    server.stop(None)
    assert done.returncode == 0, done.stderr
    score = float(done.stdout.split()[1])
    assert score > 100
    assert f"{score:g} decisions, p50" in done.stdout
    done = program("serving_client", *flags, "--deadline=0.2")  # the server is gone
    assert done.returncode == 2
    assert "did not answer" in done.stderr
    assert done.stdout.startswith("0 decisions, ")
