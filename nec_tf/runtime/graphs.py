"""Python functions as TensorFlow graphs with little overhead per call."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tf_agents.utils import common


class Graph:
    """A function as one graph, for arguments of the same shapes and dtypes at every call.

    `tf.function` compares its arguments at every call, which can take longer than the graph: 1.4 ms
    for a step of a policy. `Graph` compares nothing and computes the attributes of the call once.
    It uses a private interface of TensorFlow (`execute`); the version of TensorFlow is pinned.

    The graph runs in the calling thread. TensorFlow runs a function that is called by name in a
    shared thread pool and waits for it: 0.10 ms for twenty small operations that take 0.013 ms, and
    more if an update occupies the pool. The operation `StatefulPartitionedCall` runs the function
    in the calling thread (docs/experiments.md).

    >>> import tensorflow as tf
    >>> from nec_tf.runtime.graphs import Graph
    >>> double = Graph(lambda x: 2.0 * x)
    >>> double(tf.constant([1.0, 2.0])).numpy()
    array([2., 4.], dtype=float32)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wraps a function; the first call traces it.

        Args:
            function: Takes nests of tensors and returns one, `tf.IndexedSlices` included, or None.
        """
        self._function = function
        self._run: Callable[[list[tf.Tensor]], list[tf.Tensor]] | None = None
        self._result: Any = None
        self._lock = threading.Lock()  # so that only one thread traces

    def __call__(self, *arguments: Any) -> Any:
        """Runs the graph; shapes and dtypes must be those of the first call, which traces it.

        Args:
            *arguments: Nests of tensors or NumPy arrays.
        """
        flat = tf.nest.flatten(arguments, expand_composites=True)
        flat = [tf.convert_to_tensor(array) for array in flat]
        with self._lock:
            if self._run is None:
                self._run = self._trace(arguments, flat)
        outputs = self._run(flat)
        if self._result is None:
            return None
        return tf.nest.pack_sequence_as(self._result, outputs, expand_composites=True)

    def _trace(
        self, arguments: Any, flat: list[tf.Tensor]
    ) -> Callable[[list[tf.Tensor]], list[tf.Tensor]]:
        def traced(*given: tf.Tensor) -> list[tf.Tensor]:
            packed = tf.nest.pack_sequence_as(arguments, given, expand_composites=True)
            self._result = self._function(*packed)
            return tf.nest.flatten(self._result, expand_composites=True)

        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in flat]
        concrete = common.function(traced).get_concrete_function(*specs)
        self._concrete = concrete  # keeps captured tensors alive
        captured, now = concrete.captured_inputs, context.context()
        inputs = [tensor.dtype.as_datatype_enum for tensor in [*flat, *captured]]
        outputs = [tensor.dtype.as_datatype_enum for tensor in concrete.outputs]
        call = {"Tin": inputs, "Tout": outputs, "f": concrete._inference_function, "config": ""}
        options = now.function_call_options.as_attrs()
        attributes = tuple(itertools.chain(*call.items(), *options.items()))
        return lambda given: execute.execute(
            "StatefulPartitionedCall", len(outputs), [*given, *captured], attributes, now
        )


def to_numpy(nest: Any) -> Any:
    """Returns a nest of tensors as one of NumPy arrays."""
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), nest)
