"""The server answers its own page, and nothing else."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

import numpy as np
import pytest

from nec_tf.experiments.viewer.server import Server
from nec_tf.runtime.errors import UserError

from .conftest import OLD

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def port(nec):
    server = Server(nec.answers())
    server.start()
    yield urllib.parse.urlsplit(server.url).port
    server.close()


def ask(port, path, body=None, headers=(), method=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    content = None if body is None else json.dumps(body)
    connection.request(method or ("GET" if body is None else "POST"), path, content, dict(headers))
    response = connection.getresponse()
    return response.status, response.read(), response.headers


def test_an_episode_is_played_by_questions(port, nec):
    status, content, _ = ask(port, "/api/restart", {"seed": 4})
    assert status == 200
    assert json.loads(content)["index"] == 0
    for index in range(3):
        moment = json.loads(ask(port, "/api/step", {"index": index})[1])
        assert moment["index"] == index + 1
    decision = nec.session.moments[3].decision
    assert moment["decision"]["scores"] == pytest.approx(decision.scores.tolist())
    shown = moment["decision"]["neighbours"]["listed"]
    assert [near["row"] for near in shown] == decision.neighbours[decision.action].rows[
        :12
    ].tolist()
    other = 1 - decision.action
    moment = json.loads(ask(port, f"/api/moment?index=3&action={other}")[1])
    shown = moment["decision"]["neighbours"]
    near = decision.neighbours[other]
    assert [one["row"] for one in shown["listed"]] == near.rows[:12].tolist()
    assert shown["others"] == len(near.rows) - 12
    assert shown["weight_of_others"] == pytest.approx(near.weights[12:].sum(), rel=1e-4)
    history = json.loads(ask(port, "/api/history")[1])
    assert len(history["rewards"]) == 4
    assert history["taken"][3] == decision.action


def test_the_map_is_sent_as_columns_of_numbers(port, nec):
    memory = nec.session.decider.memory
    about = json.loads(ask(port, "/api/about")[1])["memory"]
    columns = np.frombuffer(ask(port, "/api/map")[1], "<f4").reshape(len(about["columns"]), -1)
    sent = dict(zip(about["columns"], columns, strict=True))
    np.testing.assert_array_equal(sent["row"], memory.entries.rows)
    np.testing.assert_array_equal(sent["value"], memory.entries.values)
    np.testing.assert_array_equal(sent["action"], memory.entries.actions)
    np.testing.assert_array_equal(np.stack([sent["x"], sent["y"]], 1), memory.coordinates)
    assert about["entries"] == len(memory.entries) == sum(about["counts"])


def test_an_entry_has_a_picture_and_neighbours(port, nec):
    entries = nec.session.decider.memory.entries
    entry = json.loads(ask(port, f"/api/entry?row={entries.rows[9]}")[1])
    assert entry["value"] == pytest.approx(entries.values[9])
    assert entry["age"] == entries.ages[9]
    assert entry["picture"].startswith("data:image/png;base64,")
    assert entries.rows[9] not in [near["row"] for near in entry["neighbours"]["listed"]]


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # a name that points to this machine
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Host": ""},
    ],
)
def test_pages_of_other_sites_are_refused(port, nec, headers):
    before = nec.session.episode
    assert ask(port, "/api/restart", {}, headers)[0] == 403
    assert ask(port, "/api/about", None, headers)[0] == 403
    assert nec.session.episode == before


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_its_own_page_is_answered(port, host):
    address = f"{host}:{port}"
    headers = {"Host": address, "Origin": f"http://{address}"}
    assert ask(port, "/api/restart", {}, headers)[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/server.py", "/../server.py", "/%2e%2e/server.py", "//etc/passwd", "/page.js/", "/api/"],
)
def test_no_other_file_is_served(port, path):
    assert ask(port, path)[0] == 404
    assert ask(port, path, {})[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/api/moment?index=99999", None, "no moment 99999"),
        ("/api/moment?index=x", None, "index must be a whole number"),
        ("/api/moment", None, "index must be a whole number"),
        ("/api/moment?index=0&action=7", None, "no action 7"),
        ("/api/entry?row=0", None, "no entry in row 0"),
        ("/api/step", [1], "JSON object"),
        ("/api/step", {"index": None}, "index must be a whole number"),
        ("/api/restart", {"seed": "one"}, "seed must be a whole number"),
        ("/api/restart", {"seed": -1}, "seed must be"),
        ("/api/restart", {"seed": 2**40}, "seed must be"),
    ],
)
def test_a_wrong_question_gets_a_sentence(port, path, body, reason):
    status, content, _ = ask(port, path, body)
    assert status == 400
    assert reason in json.loads(content)["error"]


@pytest.mark.parametrize("length", ["1000000", "-1", "many"])
def test_a_body_of_a_strange_length_is_not_read(port, length):
    assert ask(port, "/api/step", {}, {"Content-Length": length})[0] == 413


def test_the_page_may_load_nothing_from_elsewhere(port):
    _, content, headers = ask(port, "/")
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert b"http:" not in content
    assert b"https:" not in content


def test_a_port_that_is_taken_is_named(nec):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(UserError, match=f"{taken}: the port is taken: choose another --port"):
            Server(nec.answers(), port=taken)


def watch(*flags):
    command = [sys.executable, ROOT / "trainers" / "watch.py", *map(str, flags)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_program_serves_to_this_machine_and_ends_with_ctrl_c(ending):
    program = watch(f"--run_dir={OLD / 'nec'}", "--port=0", "--nobrowser")
    assert "newest checkpoint" in program.stdout.readline()
    url = program.stdout.readline().split()[0]
    port = urllib.parse.urlsplit(url).port
    assert ask(port, "/api/about")[0] == 200
    with pytest.raises(OSError, match="refused"):  # an address that only 0.0.0.0 includes
        socket.create_connection(("127.0.0.2", port), timeout=5)
    began = time.monotonic()
    program.send_signal(ending)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    assert "Traceback" not in errors
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ([], "either --run_dir or --export is required"),
        (["--run_dir=nowhere", "--export=nowhere"], "either --run_dir or --export is required"),
        (["--run_dir=nowhere"], "nowhere is not a run's folder"),
        (["--run_dir=nowhere", "--record=film.avi"], "must be a *.mp4 or *.gif file"),
    ],
)
def test_the_program_refuses_what_it_cannot_show(flags, reason):
    program = watch(*flags)
    _, errors = program.communicate(timeout=120)
    assert program.returncode == 2
    assert reason in errors
    assert "Traceback" not in errors
