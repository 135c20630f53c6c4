"""The agents that the programs can train, by the name that `--agent` takes.

A new agent is one folder with a configuration and a learner, and one line here. Learners are
imported when they are needed: programs show their flags without TensorFlow.
"""

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nec_tf.agents.a3c.config import A3cConfig
from nec_tf.agents.dqn.config import DqnConfig
from nec_tf.agents.lambda_returns.config import QStarLambdaConfig, RetraceLambdaConfig
from nec_tf.agents.mfec.config import MfecConfig, MfecVaeConfig
from nec_tf.agents.nec.config import NecLearnerConfig
from nec_tf.agents.prioritised.config import PrioritisedConfig
from nec_tf.runtime.cores import num_cores
from nec_tf.runtime.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from nec_tf.agents.learner import Learner
    from nec_tf.environments.gymnasium_env import GymnasiumEnvironment
    from nec_tf.experiments.tasks import Task


@dataclasses.dataclass(frozen=True)
class AgentKind:
    """An agent of the registry.

    Attributes:
        config: Class of its configuration.
        learner: Its `Learner`, as "module:class".
        encoder: Function from an observation's shape, key size and seed to its network, as
            "module:function"; empty for the network of the task.
        num_envs: Returns the number of environments of a new run that asks for no number.
    """

    config: type
    learner: str
    encoder: str = ""
    num_envs: Callable[[], int] = lambda: 1


#: Presets of settings: for Atari games, for small problems, and the paper's own.
PRESETS = ("atari", "small", "paper")

AGENTS = {
    "nec": AgentKind(NecLearnerConfig, "nec_tf.agents.nec.learner:NecLearner"),
    "mfec": AgentKind(
        MfecConfig,
        "nec_tf.agents.mfec.learner:MfecLearner",
        "nec_tf.networks.encoders:random_projection",
    ),
    "mfec_vae": AgentKind(
        MfecVaeConfig,
        "nec_tf.agents.mfec.vae_learner:MfecVaeLearner",
        "nec_tf.networks.vae:vae_encoder",
    ),
    "dqn": AgentKind(DqnConfig, "nec_tf.agents.dqn.learner:DqnLearner"),
    "prioritised": AgentKind(
        PrioritisedConfig, "nec_tf.agents.prioritised.learner:PrioritisedLearner"
    ),
    "q_star_lambda": AgentKind(
        QStarLambdaConfig, "nec_tf.agents.lambda_returns.learner:QStarLambdaLearner"
    ),
    "retrace_lambda": AgentKind(
        RetraceLambdaConfig, "nec_tf.agents.lambda_returns.learner:RetraceLambdaLearner"
    ),
    "a3c": AgentKind(
        A3cConfig,
        "nec_tf.agents.a3c.learner:A3cLearner",
        "nec_tf.networks.actor_critic:body",
        num_envs=num_cores,
    ),
}


def find_agent(name: str) -> AgentKind:
    """Returns an agent by its name; a wrong name gets the nearest ones."""
    if name not in AGENTS:
        suggestion = did_you_mean(name, AGENTS) or f"agents are {', '.join(AGENTS)}"
        raise UserError(f"unknown agent {name!r}: {suggestion}")
    return AGENTS[name]


def make_config(agent: str, preset: str, **given: Any) -> Any:
    """Returns the configuration of an agent.

    Args:
        agent: Its name.
        preset: One of `PRESETS`.
        **given: Settings that differ from the preset.

    Raises:
        UserError: The agent has no such preset or setting, or a value is not valid.
    """
    config = find_agent(agent).config
    if preset not in PRESETS:
        raise UserError(f"preset must be {', '.join(PRESETS)}, not {preset!r}")
    if not hasattr(config, preset):
        raise UserError(
            f"agent {agent!r} has no preset {preset!r}: its defaults are the published settings"
        )
    names = [field.name for field in dataclasses.fields(config)]
    unknown = sorted({*given} - {*names})
    if unknown:
        suggestion = did_you_mean(unknown[0], names)
        raise UserError(
            f"agent {agent!r} has no setting {', '.join(unknown)}. {suggestion}".strip()
        )
    return getattr(config, preset)(**given)


def make_learner(
    kind: AgentKind, task: "Task", environment: "GymnasiumEnvironment", config: Any, seed: int
) -> "Learner":
    """Returns a new learner for a task and its environment's specs."""
    if kind.encoder:
        shape = environment.observation_spec().shape
        embedding = _load(kind.encoder)(shape, config.key_size, seed)
    else:
        embedding = task.make_embedding(config.key_size, seed)
    return _load(kind.learner)(
        environment.time_step_spec(), environment.action_spec(), embedding, config, seed
    )


def _load(path: str) -> Any:
    """Imports "module:name"."""
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)
