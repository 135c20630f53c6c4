"""Prioritised Replay (Schaul et al., 2016): Double DQN on steps drawn by their TD errors."""
