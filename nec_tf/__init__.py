"""Neural Episodic Control (Pritzel et al., 2017) for TensorFlow and TF-Agents.

What users import. Names are loaded on first use, so that `import nec_tf` takes no time.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nec_tf.runtime import legacy_keras as legacy_keras
from nec_tf.runtime import quiet as quiet
from nec_tf.runtime import version as _version

if TYPE_CHECKING:
    from nec_tf.agents.dqn.agent import DqnAgent as DqnAgent
    from nec_tf.agents.dqn.config import DqnConfig as DqnConfig
    from nec_tf.agents.mfec.agent import MfecAgent as MfecAgent
    from nec_tf.agents.mfec.config import MfecConfig as MfecConfig
    from nec_tf.agents.n_step_driver import NStepDriver as NStepDriver
    from nec_tf.agents.n_step_window import NStepObserver as NStepObserver
    from nec_tf.agents.nec.agent import NecAgent as NecAgent
    from nec_tf.agents.nec.config import NecConfig as NecConfig
    from nec_tf.environments.atari import make_atari_environment as make_atari_environment
    from nec_tf.environments.gymnasium_env import GymnasiumEnvironment as GymnasiumEnvironment
    from nec_tf.environments.gymnasium_env import (
        SingleGymnasiumEnvironment as SingleGymnasiumEnvironment,
    )
    from nec_tf.experiments.api import load_run as load_run
    from nec_tf.experiments.api import train as train
    from nec_tf.memory import kernels as kernels
    from nec_tf.memory.dnd import (
        DifferentiableNeuralDictionary as DifferentiableNeuralDictionary,
    )
    from nec_tf.memory.dnd import Neighbours as Neighbours
    from nec_tf.memory.keras_optimizer import WithMemory as WithMemory
    from nec_tf.memory.row_rmsprop import RowRMSProp as RowRMSProp
    from nec_tf.networks import encoders as encoders
    from nec_tf.serving.compacting import Compact as Compact
    from nec_tf.serving.exporting import export as export

__version__ = _version.VERSION

_MODULES = {
    "Compact": "serving.compacting",
    "DifferentiableNeuralDictionary": "memory.dnd",
    "DqnAgent": "agents.dqn.agent",
    "DqnConfig": "agents.dqn.config",
    "GymnasiumEnvironment": "environments.gymnasium_env",
    "MfecAgent": "agents.mfec.agent",
    "MfecConfig": "agents.mfec.config",
    "NStepDriver": "agents.n_step_driver",
    "NStepObserver": "agents.n_step_window",
    "NecAgent": "agents.nec.agent",
    "NecConfig": "agents.nec.config",
    "Neighbours": "memory.dnd",
    "RowRMSProp": "memory.row_rmsprop",
    "SingleGymnasiumEnvironment": "environments.gymnasium_env",
    "WithMemory": "memory.keras_optimizer",
    "encoders": "networks",
    "export": "serving.exporting",
    "kernels": "memory",
    "load_run": "experiments.api",
    "make_atari_environment": "environments.atari",
    "train": "experiments.api",
}

__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    if name in ("encoders", "kernels"):
        return importlib.import_module(f"{module.__name__}.{name}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
