"""Warm-up requests, which TF Serving runs before an export takes traffic."""

from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import model_pb2, predict_pb2, prediction_log_pb2


def write_warmup(folder: Path, model_name: str, states: np.ndarray) -> None:
    """Writes `assets.extra/tf_serving_warmup_requests`: batches of 1 and of all states [n, ...]."""
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for batch in (states[:1], states):
            request = predict_pb2.PredictRequest(
                model_spec=model_pb2.ModelSpec(name=model_name, signature_name="serving_default"),
                inputs={"observation": tf.make_tensor_proto(batch)},
            )
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())
