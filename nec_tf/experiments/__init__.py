"""Runs: tasks, registry of agents, training loop, evaluation, run folders, results."""
