"""Python functions as TensorFlow graphs, called often and with little to do between."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, execute
from tf_agents.utils import common


class Graph:
    """A function as one graph, for arguments that are alike at every call.

    A `tf.function` compares all its arguments with those it was traced for, which takes longer than
    many a graph of ours runs: 1.4 ms for a policy's step. Here nothing is compared, and how to run
    is said once and not at every call, by a way into TensorFlow that is not public; the version
    that it was written for is pinned.

    The graph runs in the thread that calls it. TensorFlow hands a function that is called by its
    name to a thread of a pool that all share, and waits: 0.10 ms for twenty small operations, where
    they take 0.013; and an update that is under way stands in the way of an action. An operation
    that calls the function, `StatefulPartitionedCall`, stays where it is (docs/experiments.md).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Traces nothing yet.

        Args:
            function: Takes and returns nests of tensors, `tf.IndexedSlices` among them, or returns
                nothing.
        """
        self._function = function
        self._run: Callable[[list[tf.Tensor]], list[tf.Tensor]] | None = None
        self._answer: Any = None
        self._lock = threading.Lock()  # two threads would both trace

    def __call__(self, *arguments: Any) -> Any:
        """Runs the graph; the first call traces it, and later ones have its shapes and dtypes.

        Args:
            *arguments: Nests of tensors or NumPy arrays.
        """
        flat = tf.nest.flatten(arguments, expand_composites=True)
        flat = [tf.convert_to_tensor(array) for array in flat]
        with self._lock:
            if self._run is None:
                self._run = self._trace(arguments, flat)
        answer = self._run(flat)
        if self._answer is None:
            return None
        return tf.nest.pack_sequence_as(self._answer, answer, expand_composites=True)

    def _trace(
        self, arguments: Any, flat: list[tf.Tensor]
    ) -> Callable[[list[tf.Tensor]], list[tf.Tensor]]:
        def traced(*given: tf.Tensor) -> list[tf.Tensor]:
            packed = tf.nest.pack_sequence_as(arguments, given, expand_composites=True)
            self._answer = self._function(*packed)
            return tf.nest.flatten(self._answer, expand_composites=True)

        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in flat]
        concrete = common.function(traced).get_concrete_function(*specs)
        self._concrete = concrete  # what it captured lives as long as it does
        captured, now = concrete.captured_inputs, context.context()
        inputs = [tensor.dtype.as_datatype_enum for tensor in [*flat, *captured]]
        outputs = [tensor.dtype.as_datatype_enum for tensor in concrete.outputs]
        call = {"Tin": inputs, "Tout": outputs, "f": concrete._inference_function, "config": ""}
        how = (*call.items(), *now.function_call_options.as_attrs().items())
        attributes = tuple(itertools.chain(*how))
        return lambda given: execute.execute(
            "StatefulPartitionedCall", len(outputs), [*given, *captured], attributes, now
        )


def to_numpy(nest: Any) -> Any:
    """Returns a nest of tensors as one of NumPy arrays."""
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), nest)
