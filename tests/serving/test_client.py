"""Servers that answer other than TF Serving does: a sentence, within the timeout."""

import contextlib
import http.server
import json
import threading
import time

import numpy as np
import pytest

from nec_tf.serving.client import RestPolicy, ServerError, Timed, Unavailable

OBSERVATIONS = np.zeros((2, 3), np.float32)


@contextlib.contextmanager
def server(answer, drip=0.0):
    """A server on localhost that gives one answer to everything, byte by byte if it drips."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the client may have left
                for start in range(0, len(answer), 1 if drip else len(answer)):
                    self.wfile.write(answer[start : start + 1] if drip else answer)
                    self.wfile.flush()
                    time.sleep(drip)

        def log_message(self, *_):
            pass

    own = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own.daemon_threads = True
    threading.Thread(target=own.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{own.server_port}"
    finally:
        own.shutdown()


def answering(action):
    return json.dumps({"outputs": {"action": action}}).encode()


def test_actions_of_tf_serving_are_returned():
    with server(answering([3, 0])) as address:
        actions = RestPolicy(address, "pong")(OBSERVATIONS)
    assert actions.dtype == np.int64
    assert actions.tolist() == [3, 0]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>hello</html>",
        b"[]",
        b'"text"',
        b"{}",
        b'{"outputs": 4}',
        b'{"outputs": {"action": null}}',
        b"\xff\xfe",
        answering([1]),
        answering([[1, 2]]),
        answering([0.5, 1.0]),
        answering([1, -1]),
        answering(["1", "2"]),
        answering([1, [2, 3]]),
    ],
)
def test_other_answers_are_refused_in_a_sentence(answer):
    with server(answer) as address, pytest.raises(ServerError, match="answer"):
        RestPolicy(address, "pong")(OBSERVATIONS)


def test_an_answer_that_drips_does_not_outlast_the_timeout():
    with server(answering([3, 0]) + b" " * 200, drip=0.1) as address:
        began = time.monotonic()
        with pytest.raises(ServerError, match="not complete"):
            RestPolicy(address, "pong", timeout=0.5)(OBSERVATIONS)
    assert time.monotonic() - began < 5


def test_unanswered_requests_are_repeated_until_the_deadline_and_counted():
    failures = [Unavailable("later"), Unavailable("later")]

    def policy(observations):
        if failures:
            raise failures.pop()
        return np.zeros(len(observations), np.int64)

    timed = Timed(policy, deadline=5.0)
    assert timed(np.zeros([1, 4])).tolist() == [0]
    assert timed.errors == 2
    assert "1 decisions, p50" in timed.summary()
    assert "p95" in timed.summary()
    assert timed.summary().endswith("2 errors")
    failures[:] = [Unavailable("for ever")] * 9
    with pytest.raises(Unavailable, match="for ever"):
        Timed(policy, deadline=0.1)(np.zeros([1, 4]))
    failures[:] = [ServerError("wrong answer")]
    with pytest.raises(ServerError, match="wrong answer"):  # repeating would not help
        timed(np.zeros([1, 4]))
    assert timed.errors == 2
