"""Environments: the paper's Atari protocol, and any Gymnasium environment under TF-Agents.

- `nec_tf.environments.games`: the 57 games, their scores and human-normalised scores.
- `nec_tf.environments.atari`: the paper's Atari protocol as Gymnasium and TF-Agents environments.
- `nec_tf.environments.gymnasium_env`: Gymnasium environments as one batched TF-Agents environment.
"""
