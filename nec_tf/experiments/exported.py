"""An exported policy that is played through the signatures of its SavedModel."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.policies import py_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts
from tf_agents.typing import types

from nec_tf.experiments.evaluation import Evaluation, evaluate
from nec_tf.experiments.settings import EVAL_MAX_STEPS
from nec_tf.experiments.tasks import Task, task_from
from nec_tf.memory import kernels
from nec_tf.memory.entries import Entries
from nec_tf.runtime.errors import UserError
from nec_tf.serving import checking, compact_memory, memory_files
from nec_tf.serving.exporting import find_version


class Exported:
    """A version of an export, full or compact.

    Attributes:
        folder: Its folder.
        about: Its export.json.
    """

    def __init__(self, folder: str | Path) -> None:
        """Loads a version folder, or the newest version of a folder of versions.

        Raises:
            UserError: There is no export.
        """
        self.folder = find_version(Path(folder))
        self.about = _read_about(self.folder)
        try:
            self._model = tf.saved_model.load(str(self.folder))
        except checking.DAMAGE as error:
            raise UserError(f"{self.folder} cannot be loaded as a SavedModel: {error}") from error
        self._signatures = self._model.signatures

    @property
    def source(self) -> dict[str, Any]:
        """Where the policy comes from: its run, frames and task, as far as they are known."""
        return self.about["source"]

    @functools.cached_property
    def task(self) -> Task:
        """What it plays.

        Raises:
            UserError: The export does not say.
        """
        if not {"game", "env"} & {*self.source}:
            raise UserError(
                f"{self.folder / 'export.json'} names no task: a script that exports names it by"
                ' source={"env": "CartPole-v1"} or source={"game": "pong", "protocol": "paper"}'
            )
        return task_from(self.source)

    @property
    def outputs(self) -> set[str]:
        """Names of what `answer` returns."""
        return {*self._signatures["serving_default"].structured_outputs}

    def answer(self, observation: np.ndarray) -> dict[str, tf.Tensor]:
        """Returns the outputs of `serving_default` for observations [B, ...]."""
        return self._signatures["serving_default"](observation=tf.constant(observation))

    def explain(self, observation: np.ndarray) -> dict[str, tf.Tensor]:
        """Returns the neighbours behind answers, by name, [B, A, p]; only with a memory."""
        return self._signatures["explain"](observation=tf.constant(observation))

    def keys(self, observation: np.ndarray) -> np.ndarray:
        """Returns the keys of observations [B, ...], [B, key_size]; only with a memory."""
        return self._model.network.embedding(tf.constant(observation)).numpy()

    def memory(self) -> tuple[Entries, kernels.Kernel, int] | None:
        """Returns the entries, the kernel and the number of neighbours; None without a memory.

        Ages and state ids of a compact export are 0: it does not keep them.
        """
        if "explain" not in self._signatures:
            return None
        if "key_bits" in self.about["export"]:
            bits, configuration = self.about["export"]["key_bits"], self.about["configuration"]
            entries = compact_memory.read_entries(self._model.network.memory, bits)
        else:
            saved = memory_files.load(self.folder / "memory")
            entries, configuration = saved.entries, saved.about["configuration"]
        return entries, kernels.get(configuration["kernel"]), configuration["num_neighbours"]

    def evaluate(
        self,
        episodes: int = 30,
        seed: int = 1,
        video: str | Path | None = None,
        on_finished: Callable[[int], Any] = lambda count: None,
        max_steps: int | None = None,
    ) -> Evaluation:
        """Plays whole episodes; see `TrainedRun.evaluate`. The policy has no random actions."""
        policy = _SignaturePolicy(self)
        limit = EVAL_MAX_STEPS if max_steps is None else max_steps
        return evaluate(self.task, policy, episodes, seed, video, on_finished, limit)


class _SignaturePolicy(py_policy.PyPolicy):
    """Acts by `serving_default`."""

    def __init__(self, exported: Exported) -> None:
        """Makes a policy for the task of an export."""
        self._exported = exported
        environment = exported.task.environment(1, seed=1, evaluation=True)
        super().__init__(environment.time_step_spec(), environment.action_spec())
        environment.close()

    def _action(
        self, time_step: ts.TimeStep, policy_state: types.NestedArray, seed: Any = None
    ) -> policy_step.PolicyStep:
        del seed
        action = self._exported.answer(time_step.observation)["action"].numpy()
        return policy_step.PolicyStep(action, policy_state)


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "export.json"
    if not path.exists():
        raise UserError(f"{path} is missing: export the run again")
    try:
        about = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    whole = isinstance(about, dict) and all(
        isinstance(about.get(name), dict) for name in ("source", "export")
    )
    if not whole:
        raise UserError(f"{path} is damaged: it has no source or no export")
    return about
