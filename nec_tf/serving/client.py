"""Clients of a policy in TF Serving, by gRPC or REST."""

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Protocol

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_service_pb2_grpc
from tf_agents.environments import py_environment
from tf_agents.trajectories import time_step as ts
from tqdm import tqdm

from nec_tf.runtime.errors import UserError

_MOST_BYTES = 1 << 26  # of an answer
# Answers after which a request is sent again: a decision changes nothing at the server.
_RETRIED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
_RETRIED_HTTP = (429, 502, 503, 504)
_FIRST_PAUSE = 0.05  # seconds before the second attempt; doubles with each


class ServerError(UserError):
    """A server that cannot be reached or whose answer cannot be used; says what to check."""


class Unavailable(ServerError):
    """A server that did not answer; the same request may succeed later."""


class RemotePolicy(Protocol):
    """From observations [B, ...] to actions int64 [B]."""

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Sends one request and returns the actions."""


class GrpcPolicy:
    """A gRPC client. Faster than REST: observations are sent as bytes."""

    def __init__(self, server: str, model: str, timeout: float = 10.0) -> None:
        """Makes a client of the newest version of a model on `server`, host:port."""
        self._channel = grpc.insecure_channel(server)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model, self._server, self._timeout = model, server, timeout

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """See `RemotePolicy`."""
        request = predict_pb2.PredictRequest(
            model_spec=model_pb2.ModelSpec(name=self._model, signature_name="serving_default"),
            inputs={"observation": tf.make_tensor_proto(observations)},
        )
        try:
            answer = self._stub.Predict(request, timeout=self._timeout)
        except grpc.RpcError as error:
            kind = Unavailable if error.code() in _RETRIED else ServerError
            raise kind(
                f"{self._server} did not answer for model {self._model!r}:"
                f" {error.code().name}, {error.details()}"
            ) from error
        if "action" not in answer.outputs:
            raise ServerError(f"{self._server} answered without an action: is it our export?")
        actions = tf.make_ndarray(answer.outputs["action"])
        return _checked(actions, len(observations), self._server)


class RestPolicy:
    """A REST client. Needs only HTTP: observations are sent as text."""

    def __init__(self, server: str, model: str, timeout: float = 10.0) -> None:
        """Makes a client of the newest version of a model on `server`, host:port."""
        self._url = f"http://{server}/v1/models/{model}:predict"
        self._timeout = timeout

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """See `RemotePolicy`."""
        body = json.dumps({"inputs": {"observation": observations.tolist()}}).encode()
        request = urllib.request.Request(
            self._url, body, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:
                answer = json.loads(self._read(response))
            actions = np.array(answer["outputs"]["action"])
        except (urllib.error.URLError, TimeoutError, http.client.HTTPException, OSError) as error:
            status = error.code if isinstance(error, urllib.error.HTTPError) else None
            detail = error.read().decode() if isinstance(error, urllib.error.HTTPError) else error
            kind = Unavailable if status is None or status in _RETRIED_HTTP else ServerError
            raise kind(f"{self._url} did not answer: {detail}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise ServerError(
                f"{self._url} did not answer as TF Serving does ({type(error).__name__}: {error})"
            ) from error
        return _checked(actions, len(observations), self._url)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Reads an answer; one that comes byte by byte must end within the timeout, too."""
        deadline, content = time.monotonic() + self._timeout, b""
        while block := response.read1(1 << 16):
            content += block
            if time.monotonic() > deadline:
                raise TimeoutError(f"the answer was not complete after {self._timeout} s")
            if len(content) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        return content


class Timed:
    """Measures the duration of each decision; repeats requests that were not answered.

    Attributes:
        milliseconds: Duration of each decision, with its repetitions.
        errors: Requests that were not answered.
    """

    def __init__(self, policy: RemotePolicy, deadline: float = 30.0) -> None:
        """Wraps a policy; after `deadline` seconds a decision is given up."""
        self._policy, self._deadline = policy, deadline
        self.milliseconds: list[float] = []
        self.errors = 0

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """See `RemotePolicy`."""
        started, pause = time.perf_counter(), _FIRST_PAUSE
        while True:
            try:
                actions = self._policy(observations)
                break
            except Unavailable:
                self.errors += 1
                if time.perf_counter() - started + pause > self._deadline:
                    raise
                time.sleep(pause)
                pause *= 2
        self.milliseconds.append((time.perf_counter() - started) * 1e3)
        return actions

    def summary(self) -> str:
        """Returns how many decisions there were, how long they took and how many errors."""
        p50, p95, p99 = np.percentile(self.milliseconds, [50, 95, 99])
        times = f"p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms"
        return f"{len(self.milliseconds)} decisions, {times}, {self.errors} errors"


def _checked(actions: np.ndarray, count: int, server: str) -> np.ndarray:
    """Returns actions as int64 [B]; refuses what is not one whole number for each observation."""
    if actions.shape != (count,) or actions.dtype.kind not in "iu" or (actions < 0).any():
        raise ServerError(
            f"{server} must answer with one integer action for each of {count} observations, not"
            f" {actions.dtype} of the shape {list(actions.shape)}: {actions.reshape(-1)[:3]}"
        )
    return actions.astype(np.int64)


def play(environment: py_environment.PyEnvironment, policy: RemotePolicy) -> float:
    """Returns the score of one game in a batch of one environment, which is closed."""
    step, score = environment.reset(), 0.0
    with tqdm(desc="playing", unit=" steps") as bar:
        while step.step_type[0] != ts.StepType.LAST:
            step = environment.step(policy(step.observation))
            score += float(step.reward[0])
            bar.update()
    environment.close()
    return score
