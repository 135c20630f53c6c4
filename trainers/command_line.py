"""Flags that the programs share: the same name for the same thing everywhere."""

import dataclasses
from collections.abc import Callable
from typing import Any

from absl import flags

from nec_tf.experiments import provenance
from nec_tf.experiments.loop import Experiment
from nec_tf.experiments.registry import AGENTS, find_agent
from nec_tf.experiments.run import Run, Settings, default_run_dir
from nec_tf.experiments.run_lock import RunLock
from nec_tf.experiments.tasks import Task

FLAGS = flags.FLAGS


def define_run_flags(frames: int, eval_every_frames: int, log_every_frames: int, unit: str) -> None:
    """Defines the flags of a training program, with its defaults."""
    flags.DEFINE_string("agent", "nec", f"Agent to train: {', '.join(AGENTS)}.")
    flags.DEFINE_integer("frames", frames, f"How long to train, in {unit}; a run goes on to more.")
    flags.DEFINE_integer("seed", 1, "Seed of everything that is chance.")
    flags.DEFINE_string(
        "run_dir",
        None,
        "Folder of the run; the same command resumes it. (default: runs/<agent>-<task>-<seed>)",
    )
    flags.DEFINE_integer("num_envs", 1, "Environments that are played side by side.")
    flags.DEFINE_integer(
        "eval_every_frames", eval_every_frames, f"From one evaluation to the next, in {unit}."
    )
    flags.DEFINE_integer("eval_episodes", 30, "Episodes of an evaluation.")
    flags.DEFINE_integer(
        "checkpoint_every_frames", eval_every_frames, f"Between checkpoints, in {unit}."
    )
    flags.DEFINE_integer(
        "log_every_frames", log_every_frames, f"Between rows of metrics.csv, in {unit}."
    )
    flags.DEFINE_string(
        "init_memory",
        "",
        "Begin with the memory and network of these exports (folders, commas between them).",
    )
    flags.DEFINE_bool("video", True, "Film the best evaluation to videos/best.mp4.")


def define_agent_flags(**defaults: Any) -> None:
    """Defines a flag for every setting of every agent.

    Args:
        **defaults: Settings for which this program has a default of its own.
    """
    define: dict[type, Callable[..., Any]] = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    for name, field in _settings_of_agents().items():
        values = {
            agent: defaults.get(name, own.default)
            for agent, kind in AGENTS.items()
            for own in dataclasses.fields(kind.config)
            if own.name == name
        }
        told = ", ".join(f"{agent} {value}" for agent, value in values.items())
        define[type(field.default)](name, None, f"{field.metadata['help']} (default: {told})")


def _settings_of_agents() -> dict[str, dataclasses.Field]:
    """Returns the settings of all agents by name, each once, as the first agent explains it."""
    fields: dict[str, dataclasses.Field] = {}
    for kind in AGENTS.values():
        for field in dataclasses.fields(kind.config):
            fields.setdefault(field.name, field)
    return fields


def settings_from_flags() -> Settings:
    """Returns the settings that the flags say."""
    values: dict[str, Any] = {f.name: FLAGS[f.name].value for f in dataclasses.fields(Settings)}
    return Settings(**values)


def agent_config_from_flags(**defaults: Any) -> Any:
    """Returns the configuration of the chosen agent: its defaults, and what flags say instead."""
    kind = find_agent(FLAGS.agent)
    names = [field.name for field in dataclasses.fields(kind.config)]
    given = {name for name in _settings_of_agents() if FLAGS[name].value is not None}
    foreign = sorted(given - set(names))
    if foreign:
        raise ValueError(
            f"--{', --'.join(foreign)} cannot be given: agent {FLAGS.agent!r} has no such setting"
        )
    chosen = {name: FLAGS[name].value for name in names if name in given}
    own = {name: value for name, value in defaults.items() if name in names}
    return kind.config(**{**own, **chosen})


def train(task: Task, **defaults: Any) -> None:
    """Trains what the flags say on a task, and says where everything is.

    Args:
        task: What is played.
        **defaults: Settings of the agent for which the program has a default of its own.
    """
    config = agent_config_from_flags(**defaults)
    run_dir = FLAGS.run_dir or default_run_dir(FLAGS.agent, task, FLAGS.seed)
    with RunLock(run_dir):
        run = Run(run_dir, task, settings_from_flags(), config)
        provenance.note(run.folder.path)
        if run.progress.frames:
            print(f"Going on with {run_dir} at {run.progress.frames:,} frames.")
        finished = Experiment(run).run()
    state = "finished" if finished else "saved; the same command goes on"
    print(f"{run_dir}: {run.progress.frames:,} frames, {state}.")
