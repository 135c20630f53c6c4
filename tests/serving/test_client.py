"""Servers that answer other than TF Serving does: a sentence, within the timeout."""

import contextlib
import socket
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from served import answering, grpc_server, rest_server
from small_environments import Counting
from tensorflow.core.framework import tensor_pb2, types_pb2

from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
from nec_tf.runtime.errors import UserError
from nec_tf.serving.client import GrpcPolicy, RestPolicy, ServerError, Timed, Unavailable, play

OBSERVATIONS = np.zeros((2, 3), np.float32)


def test_actions_of_tf_serving_are_returned():
    with rest_server(answering([3, 0])) as address:
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
        answering([1, 2**63]),  # as int64 it would be negative
        answering([1, 10**30]),
        answering(["1", "2"]),
        answering([1, [2, 3]]),
        b"[" * 200_000,
    ],
)
def test_other_answers_are_refused_in_a_sentence(answer):
    with rest_server(answer) as address, pytest.raises(ServerError, match="answer"):
        RestPolicy(address, "pong")(OBSERVATIONS)


def test_a_label_is_part_of_the_path_of_rest():
    paths = []
    with rest_server(answering([3, 0]), paths=paths) as address:
        for label in ("canary", ""):
            RestPolicy(address, "pong", label=label)(OBSERVATIONS)
    assert paths == ["/v1/models/pong/labels/canary:predict", "/v1/models/pong:predict"]


def test_a_label_is_part_of_the_model_of_grpc():
    models = []
    with grpc_server(tf.make_tensor_proto(np.array([3, 0])), models) as address:
        for label in ("canary", ""):
            GrpcPolicy(address, "pong", label=label)(OBSERVATIONS)
    assert [(model.name, model.version_label) for model in models] == [
        ("pong", "canary"),
        ("pong", ""),
    ]
    # TF Serving answers with the newest version only if no version is asked for at all.
    assert [model.HasField("version_label") for model in models] == [True, False]


def test_an_answer_that_drips_does_not_outlast_the_timeout():
    with rest_server(answering([3, 0]) + b" " * 200, drip=0.1) as address:
        began = time.monotonic()
        with pytest.raises(ServerError, match="not complete"):
            RestPolicy(address, "pong", timeout=0.5)(OBSERVATIONS)
    assert time.monotonic() - began < 5


@contextlib.contextmanager
def raw_server(blocks, pause=0.0):
    """A server on localhost that sends some blocks of bytes, whatever it is asked."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):  # the client may have left
            connection, _ = listening.accept()
            connection.recv(1 << 16)
            for block in blocks:
                connection.sendall(block)
                time.sleep(pause)
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    with listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize(
    "blocks",
    [
        [b"HTTP/1.1 200 OK\r\n", *[b"X-Line: 1\r\n"] * 90],
        [b"HTTP/1.1 100 Continue\r\n\r\n"] * 90,
        [b"HTTP/1.1 500 Error\r\nContent-Length: 300\r\n\r\n", *[b"x"] * 90],
    ],
)
def test_heads_and_errors_that_drip_do_not_outlast_the_timeout(blocks):
    with raw_server(blocks, pause=0.1) as address:
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"not complete after 0\.5 s"):
            RestPolicy(address, "pong", timeout=0.5)(OBSERVATIONS)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"hello\r\n",
        b"HTTP/1.1 500 Error\r\nContent-Length: 2\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + answering([3, 0]),
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_reported_in_a_sentence(block):
    with raw_server([block]) as address, pytest.raises(ServerError, match="did not answer"):
        RestPolicy(address, "pong")(OBSERVATIONS)


@pytest.mark.parametrize("address", ["", "[::1", "localhost:abc", "a b:1"])
def test_wrong_addresses_are_reported_in_a_sentence(address):
    with pytest.raises(ServerError, match="did not answer"):
        RestPolicy(address, "pong", timeout=1.0)(OBSERVATIONS)


def tensor(dtype, *shape, **content):
    proto = tensor_pb2.TensorProto(dtype=dtype, **content)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


@pytest.mark.parametrize(
    "proto",
    [
        tensor(types_pb2.DT_INVALID),
        tensor(99, 2),
        tensor(types_pb2.DT_INT64, 2, tensor_content=b"abc"),
        tensor(types_pb2.DT_INT64, -1, int64_val=[1, 2]),
        tensor(types_pb2.DT_INT64, 10**12, int64_val=[1]),
        tensor(types_pb2.DT_UINT64, 2, uint64_val=[1, 2**63]),
        tensor(types_pb2.DT_STRING, 2, string_val=[b"1", b"2"]),
        tensor(types_pb2.DT_VARIANT, 2),
        tensor(types_pb2.DT_FLOAT, 2, float_val=[0.5, 1.0]),
    ],
)
def test_tensors_that_are_no_actions_are_refused_in_a_sentence(proto):
    with grpc_server(proto) as address, pytest.raises(ServerError, match="answer with one"):
        GrpcPolicy(address, "pong")(OBSERVATIONS)


def test_actions_of_another_game_are_refused():
    environment = GymnasiumEnvironment([Counting(3)], seed=1)
    with pytest.raises(ServerError, match="actions 0 to 1"):
        play(environment, lambda observations: np.array([7]), 10)


def test_an_endless_game_is_ended(caplog):
    environment = GymnasiumEnvironment([Counting(1_000_000)], seed=1)
    assert play(environment, lambda observations: np.array([1]), 7) == sum(range(8))
    assert "was ended after 7 steps (--eval_max_steps)" in caplog.text


@pytest.mark.parametrize("deadline", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_deadline_is_a_number_of_seconds(deadline):
    with pytest.raises(UserError, match="deadline"):
        Timed(lambda observations: np.zeros(1, np.int64), deadline)


def test_unanswered_requests_are_repeated_until_the_deadline_and_counted():
    failures = [Unavailable("later"), Unavailable("later")]

    def policy(observations, most_seconds):
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


@pytest.mark.parametrize("kind", [RestPolicy, GrpcPolicy])
def test_a_server_that_hangs_does_not_outlast_the_deadline(kind):
    """The timeout of a request, 10 s, is longer here: the deadline of the decision cuts it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        timed = Timed(kind(f"127.0.0.1:{silent.getsockname()[1]}", "pong"), deadline=0.5)
        began = time.monotonic()
        with pytest.raises(Unavailable, match="did not answer"):
            timed(OBSERVATIONS)
    assert time.monotonic() - began < 5
    assert timed.errors >= 1
    assert timed.summary() == f"0 decisions, {timed.errors} errors"
