"""A policy that is served elsewhere: asks TF Serving by gRPC or by REST."""

import json
import time
import urllib.error
import urllib.request
from typing import Protocol

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_service_pb2_grpc


class ServerError(ValueError):
    """A server that cannot be reached or refuses; the message says what to check."""


class RemotePolicy(Protocol):
    """From observations [B, ...] to actions int64 [B]."""

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Asks the server."""


class GrpcPolicy:
    """Asks by gRPC, which is fast: observations travel as bytes."""

    def __init__(self, server: str, model: str, timeout: float = 10.0) -> None:
        """A client of `server`, host:port, for the newest version of a model."""
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
            raise ServerError(
                f"{self._server} did not answer for model {self._model!r}:"
                f" {error.code().name}, {error.details()}"
            ) from error
        return tf.make_ndarray(answer.outputs["action"])


class RestPolicy:
    """Asks by REST, which needs nothing but HTTP: observations travel as text."""

    def __init__(self, server: str, model: str, timeout: float = 10.0) -> None:
        """A client of `server`, host:port, for the newest version of a model."""
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
                answer = json.load(response)
        except (urllib.error.URLError, TimeoutError) as error:
            detail = error.read().decode() if isinstance(error, urllib.error.HTTPError) else error
            raise ServerError(f"{self._url} did not answer: {detail}") from error
        return np.array(answer["outputs"]["action"], np.int64)


class Timed:
    """Notes how long each question took.

    Attributes:
        milliseconds: One number for each.
    """

    def __init__(self, policy: RemotePolicy) -> None:
        """Stands before a policy."""
        self._policy = policy
        self.milliseconds: list[float] = []

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """See `RemotePolicy`."""
        started = time.perf_counter()
        actions = self._policy(observations)
        self.milliseconds.append((time.perf_counter() - started) * 1e3)
        return actions
