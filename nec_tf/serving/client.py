"""Clients of a policy in TF Serving, by gRPC or REST."""

import contextlib
import http.client
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import numpy as np
import tensorflow as tf
from absl import logging
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_service_pb2_grpc
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tqdm import tqdm

from nec_tf.runtime.errors import UserError
from nec_tf.runtime.streams import Unbreakable

_MOST_BYTES = 1 << 26  # of an answer
_LARGEST_ACTION = np.iinfo(np.int64).max  # an unsigned number beyond it would become negative
_MOST_SHOWN = 500  # bytes of an error that a server reports
# Answers after which a request is sent again: a decision changes nothing at the server.
_RETRIED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
_RETRIED_HTTP = (429, 502, 503, 504)
_FIRST_PAUSE = 0.05  # seconds before the second attempt; doubles with each
_SHORTEST = 0.001  # seconds that an attempt has; timeouts of 0 and less are not valid


class ServerError(UserError):
    """A server that cannot be reached or whose answer cannot be used; says what to check."""


class Unavailable(ServerError):
    """A server that did not answer; the same request may succeed later."""


class RemotePolicy(Protocol):
    """From observations [B, ...] to actions int64 [B]."""

    def __call__(self, observations: np.ndarray, most_seconds: float = math.inf) -> np.ndarray:
        """Sends one request and returns the actions, after `most_seconds` or the own timeout."""


class GrpcPolicy:
    """A gRPC client. Faster than REST: observations are sent as bytes."""

    def __init__(self, server: str, model: str, timeout: float = 10.0, label: str = "") -> None:
        """Makes a client of a model on `server`, host:port.

        Args:
            server: host:port.
            model: Name of the model.
            timeout: Seconds that a request has.
            label: Label of the version that answers, such as "canary"; empty for the newest.
        """
        self._channel = grpc.insecure_channel(server)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model, self._server, self._timeout = model, server, timeout
        self._spec = model_pb2.ModelSpec(name=model, signature_name="serving_default")
        if label:  # one of a oneof: an empty label would be sent, too
            self._spec.version_label = label

    def __call__(self, observations: np.ndarray, most_seconds: float = math.inf) -> np.ndarray:
        """See `RemotePolicy`."""
        request = predict_pb2.PredictRequest(
            model_spec=self._spec,
            inputs={"observation": tf.make_tensor_proto(observations)},
        )
        try:
            answer = self._stub.Predict(request, timeout=min(self._timeout, most_seconds))
        except grpc.RpcError as error:
            kind = Unavailable if error.code() in _RETRIED else ServerError
            raise kind(
                f"{self._server} did not answer for model {self._model!r}:"
                f" {error.code().name}, {error.details()}"
            ) from error
        if "action" not in answer.outputs:
            raise ServerError(f"{self._server} answered without an action: is it our export?")
        proto = answer.outputs["action"]
        # Before the array is made: a shape of 10**12 would be allocated.
        shape = [dimension.size for dimension in proto.tensor_shape.dim]
        try:
            if shape != [len(observations)]:
                raise ValueError(f"the shape {shape}")
            actions = tf.make_ndarray(proto)
        except (TypeError, ValueError, KeyError) as error:
            raise ServerError(
                f"{self._server} did not answer with one action for each of {len(observations)}"
                f" observations ({error})"
            ) from error
        return _checked(actions, len(observations), self._server)


class RestPolicy:
    """A REST client. Needs only HTTP: observations are sent as text."""

    def __init__(self, server: str, model: str, timeout: float = 10.0, label: str = "") -> None:
        """Makes a client of a model; for the arguments see `GrpcPolicy`."""
        version = f"/labels/{label}" if label else ""
        self._server, self._path = server, f"/v1/models/{model}{version}:predict"
        self._url = f"http://{server}{self._path}"
        self._timeout = timeout

    def __call__(self, observations: np.ndarray, most_seconds: float = math.inf) -> np.ndarray:
        """See `RemotePolicy`."""
        body = json.dumps({"inputs": {"observation": observations.tolist()}}).encode()
        try:
            status, content = self._post(body, min(self._timeout, most_seconds))
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self._url} did not answer: {error}") from error
        except ValueError as error:
            raise ServerError(f"{self._url} did not answer: {error}") from error
        if status != http.HTTPStatus.OK:
            kind = Unavailable if status in _RETRIED_HTTP else ServerError
            detail = content[:_MOST_SHOWN].decode(errors="replace")
            raise kind(f"{self._url} did not answer: status {status}, {detail}")
        try:
            actions = np.array(json.loads(content)["outputs"]["action"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ServerError(
                f"{self._url} did not answer as TF Serving does ({type(error).__name__}: {error})"
            ) from error
        return _checked(actions, len(observations), self._url)

    def _post(self, body: bytes, timeout: float) -> tuple[int, bytes]:
        """Sends one request and returns status and content of the answer.

        Raises:
            TimeoutError: The answer, head and content, was not complete within the timeout. The
                timeout of a socket is for each block, so a server could send byte by byte for ever.
            ValueError: The answer or the address is not valid.
        """
        connection = http.client.HTTPConnection(self._server, timeout=timeout)
        late = threading.Event()

        def cut() -> None:
            late.set()
            with contextlib.suppress(OSError):  # closed already
                stream.shutdown(socket.SHUT_RDWR)

        with contextlib.closing(connection):
            connection.connect()
            stream: Any = connection.sock
            timer = threading.Timer(timeout, cut)
            timer.daemon = True
            timer.start()
            try:
                headers = {"Content-Type": "application/json"}
                connection.request("POST", self._path, body, headers)
                response = connection.getresponse()
                answer = response.status, _read(response)
            except (OSError, http.client.HTTPException, ValueError):
                if not late.is_set():
                    raise
            finally:
                timer.cancel()
        if late.is_set():  # what was cut off may look like an empty answer
            raise TimeoutError(f"the answer was not complete after {timeout:.3g} s")
        return answer


def _read(response: http.client.HTTPResponse) -> bytes:
    """Returns the whole content of an answer, at most `_MOST_BYTES`."""
    content = response.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"more than {_MOST_BYTES:,} bytes")
    if response.length:  # `read` with a limit does not report it
        raise http.client.IncompleteRead(content, response.length)
    return content


class Timed:
    """Measures the duration of each decision; repeats requests that were not answered.

    Attributes:
        milliseconds: Duration of each decision, with its repetitions.
        errors: Requests that were not answered.
    """

    def __init__(self, policy: RemotePolicy, deadline: float = 30.0) -> None:
        """Wraps a policy; after `deadline` seconds a decision is given up, with its requests."""
        if not 0.0 < deadline < math.inf:
            raise UserError(f"deadline must be finite and above 0, not {deadline}")
        self._policy, self._deadline = policy, deadline
        self.milliseconds: list[float] = []
        self.errors = 0

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Returns actions int64 [B] of observations [B, ...]."""
        started, pause = time.perf_counter(), _FIRST_PAUSE
        while True:
            try:
                left = self._deadline - (time.perf_counter() - started)
                actions = self._policy(observations, max(left, _SHORTEST))
                break
            except Unavailable:
                self.errors += 1
                if time.perf_counter() - started + pause >= self._deadline:
                    raise
                time.sleep(pause)
                pause *= 2
        self.milliseconds.append((time.perf_counter() - started) * 1e3)
        return actions

    def summary(self) -> str:
        """Returns how many decisions there were, how long they took and how many errors."""
        if not self.milliseconds:
            return f"0 decisions, {self.errors} errors"
        p50, p95, p99 = np.percentile(self.milliseconds, [50, 95, 99])
        times = f"p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms"
        return f"{len(self.milliseconds)} decisions, {times}, {self.errors} errors"


def _checked(actions: np.ndarray, count: int, server: str) -> np.ndarray:
    """Returns actions as int64 [B]; refuses what is not one whole number for each observation."""
    whole = actions.shape == (count,) and actions.dtype.kind in "iu"
    if not whole or (actions < 0).any() or (actions > _LARGEST_ACTION).any():
        raise ServerError(
            f"{server} must answer with one integer action for each of {count} observations, not"
            f" {actions.dtype} of the shape {list(actions.shape)}: {actions.reshape(-1)[:3]}"
        )
    return actions.astype(np.int64)


def play(
    environment: py_environment.PyEnvironment,
    policy: Callable[[np.ndarray], np.ndarray],
    max_steps: int,
) -> float:
    """Returns the score of one game in a batch of one environment, which is closed.

    Args:
        environment: What is played.
        policy: From observations [1, ...] to actions [1].
        max_steps: Most steps; an environment may be endless.
    """
    step, score = environment.reset(), 0.0
    last = environment.action_spec().maximum
    with tqdm(desc="playing", unit=" steps", file=Unbreakable(sys.stderr)) as bar:
        while step.step_type[0] != ts.StepType.LAST:
            actions = policy(step.observation)
            if actions[0] > last:
                raise ServerError(
                    f"the server answered with action {actions[0]}, and the environment has"
                    f" actions 0 to {last}: is the model of another game?"
                )
            step = environment.step(actions)
            score += float(step.reward[0])
            bar.update()
            if bar.n >= max_steps:
                logging.warning("the game was ended after %d steps (--eval_max_steps)", bar.n)
                break
    environment.close()
    return score
