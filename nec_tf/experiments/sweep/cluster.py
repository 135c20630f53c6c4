"""Ray for sweeps: quiet, without a dashboard, on this machine or on an existing cluster."""

import contextlib
import os
import socket
import warnings
from collections.abc import Iterator
from typing import Any

from nec_tf.runtime.errors import UserError

# Read when Ray is imported or starts its processes.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # sends nothing
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # no warning about a future default
    "RAY_enable_metrics_collection": "0",
}
# Makes Ray listen on the loopback address, which is its default on other systems than Linux.
_LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_OBJECT_STORE = 80 * 2**20  # bytes; trials exchange nothing but exit codes, and Ray wants 75 MB
GIGABYTE = 2**30


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connects to Ray and yields its module; on this machine alone, Ray ends with the block.

    Args:
        address: Of an existing cluster, `auto` for the one that this machine is part of; empty for
            a Ray of its own on this machine, which listens on localhost only.

    Raises:
        UserError: There is no cluster at that address.
    """
    if address not in ("", "auto"):
        _require_listener(address)
    for name, value in {**_QUIET, **({} if address else _LOCAL)}.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"ray\.")
    import ray  # after the variables
    from ray._private import worker

    # Prints what happens to workers even with `log_to_driver=False`; the driver says it itself.
    worker.print_to_stdstream = lambda data, ignore_prefix: None

    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            ray.init(address=address, **common)
        else:
            ray.init(
                address="local",
                num_cpus=len(os.sched_getaffinity(0)),
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE,
                _node_ip_address="127.0.0.1",
                **common,
            )
    except ConnectionError as error:
        raise _no_cluster(address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_listener(address: str) -> None:
    """Raises `UserError` if nothing listens at an address: Ray would wait for over a minute."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> UserError:
    return UserError(
        f"no Ray cluster at --address={address}: {str(error).splitlines()[0]}. Start one with"
        " `ray start --head` (docs/cluster.md), or leave --address out to run on this machine"
    )


def require_room(ray: Any, cpus: int, memory: int) -> None:
    """Raises `UserError` if no node is large enough for a trial: Ray would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= cpus and node.get("memory", 0) >= memory for node in nodes):
        return
    most_cpus = max((node.get("CPU", 0) for node in nodes), default=0)
    most_memory = max((node.get("memory", 0) for node in nodes), default=0)
    raise UserError(
        f"no node has {cpus} cores and {memory / GIGABYTE:.3g} GB for a trial: the largest has"
        f" {most_cpus:.0f} cores and Ray may use {most_memory / GIGABYTE:.3g} GB of its memory."
        " Lower --cpus_per_trial or --memory_per_trial"
    )
