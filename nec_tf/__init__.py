"""Neural Episodic Control (Pritzel et al., 2017) for TensorFlow and TF-Agents."""

from nec_tf.dnd import DifferentiableNeuralDictionary, Neighbours
from nec_tf.row_rmsprop import RowRMSProp

__all__ = ["DifferentiableNeuralDictionary", "Neighbours", "RowRMSProp"]
