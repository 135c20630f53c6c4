"""Neural Episodic Control (Pritzel et al., 2017) for TensorFlow and TF-Agents."""

from nec_tf.dnd import DifferentiableNeuralDictionary, Neighbours
from nec_tf.keras_optimizer import WithMemory
from nec_tf.n_step_driver import NStepDriver, NStepObserver
from nec_tf.nec_agent import NecAgent
from nec_tf.nec_config import NecConfig
from nec_tf.row_rmsprop import RowRMSProp

__all__ = [
    "DifferentiableNeuralDictionary",
    "NStepDriver",
    "NStepObserver",
    "NecAgent",
    "NecConfig",
    "Neighbours",
    "RowRMSProp",
    "WithMemory",
]
