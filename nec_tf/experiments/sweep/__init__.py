"""Many runs on Ray: a trial for each combination of game, agent, settings and seed.

plan (what is run) -> driver (which trial is started, tried again, recorded) -> worker (one process
of trainers/train_atari.py on a node, started by launch) ; status and table show how far they are.
"""
