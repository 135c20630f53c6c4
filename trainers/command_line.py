"""Flags that the training programs share, their help, and the call that trains."""

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from absl import app, flags

from nec_tf.experiments.registry import AGENTS
from nec_tf.experiments.settings import Settings, defaults
from nec_tf.runtime import startup, streams

if TYPE_CHECKING:
    from nec_tf.experiments.tasks import Task

FLAGS = flags.FLAGS
_HELP = {"--help", "-help", "-h", "--helpshort", "-helpshort"}
_TASK, _RUN, _SHARED = "Task", "Run", "Settings that several agents share"
_DEFINE: dict[type, Callable[..., Any]] = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}


def define_task_flag(name: str, default: str, explanation: str) -> None:
    """Defines a flag that says what is played."""
    flags.DEFINE_string(name, default, explanation, module_name=_TASK)


def define_preset_flag() -> None:
    """Defines the flag that chooses the settings which are not given."""
    flags.DEFINE_enum(
        "preset",
        "atari",
        ["atari", "paper"],
        "Settings of the agent that are not given: atari (the defaults shown below), or paper (the"
        " paper's own, and those reported from its authors; for NEC).",
        module_name=_RUN,
    )


def define_flags(preset: str, unit: str) -> None:
    """Defines a flag for every setting of a run and of every agent.

    Args:
        preset: Preset of settings, "atari" or "small", whose defaults the help shows.
        unit: What a frame is.
    """
    _define_run_flags(preset, unit)
    for name, field in _settings_of_agents().items():
        agents = [agent for agent, kind in AGENTS.items() if name in _names(kind.config)]
        values = {agent: getattr(_preset(agent, preset), name) for agent in agents}
        _DEFINE[type(field.default)](
            name,
            None,
            f"{field.metadata['help']} (default: {_describe(values)})",
            module_name=_SHARED if len(agents) > 1 else _heading(agents[0]),
        )


def _define_run_flags(preset: str, unit: str) -> None:
    values = defaults(preset)
    for field in dataclasses.fields(Settings):
        explanation = field.metadata["help"].format(unit=unit)
        if field.name == "agent":
            explanation += f": {', '.join(AGENTS)}"
        if field.name == "num_envs":
            explanation += " (default: 1; a3c one for each core)"
        default = values[field.name]
        # Without a number of environments the agent chooses, see `default_num_envs`.
        shown = None if field.name == "num_envs" else default
        _DEFINE[type(default)](field.name, shown, f"{explanation}.", module_name=_RUN)
    flags.DEFINE_string(
        "run_dir",
        None,
        "Folder of the run; the same command resumes it. (default: runs/<agent>-<task>-<seed>)",
        module_name=_RUN,
    )


def _settings_of_agents() -> dict[str, dataclasses.Field]:
    """Returns the settings of all agents by name, each once, as the first agent explains it."""
    fields: dict[str, dataclasses.Field] = {}
    for kind in AGENTS.values():
        for field in dataclasses.fields(kind.config):
            fields.setdefault(field.name, field)
    return fields


def _names(config: type) -> set[str]:
    return {field.name for field in dataclasses.fields(config)}


def _preset(agent: str, preset: str) -> Any:
    return getattr(AGENTS[agent].config, preset)()


def _describe(values: dict[str, Any]) -> str:
    """Returns one value if all agents share it, else that of each agent."""
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{agent} {value}" for agent, value in values.items())


def _heading(agent: str) -> str:
    return f"Settings of {agent} alone"


def run(main: Callable[[], None]) -> None:
    """Runs a training program; `--help` shows its flags by group."""
    app.run(startup.guarded(main), flags_parser=_parse)


def _parse(arguments: list[str]) -> list[str]:
    if _HELP & {*arguments[1:]}:
        print(help_text())
        sys.exit(0)
    return app.parse_flags_with_usage(arguments)


def help_text() -> str:
    """Returns what the program does and its flags: task, run, shared settings, each agent's own."""
    groups = [_TASK, _RUN, _SHARED, *map(_heading, AGENTS)]
    defined = FLAGS.flags_by_module_dict()
    helps = [FLAGS.module_help(group) for group in groups if group in defined]
    return "\n".join([sys.modules["__main__"].__doc__ or "", *helps])


def train(task: "Task") -> None:
    """Trains as the flags say, and prints where everything is.

    Args:
        task: What is played.
    """
    from nec_tf.experiments.trained_run import train_task

    names = [*(field.name for field in dataclasses.fields(Settings)), *_settings_of_agents()]
    given = {name: FLAGS[name].value for name in names if FLAGS[name].value is not None}
    if "preset" in FLAGS:
        given["preset"] = FLAGS.preset
    run, finished = train_task(task, FLAGS.run_dir, given, streams.say)
    state = "finished" if finished else "saved; run the same command to resume"
    streams.say(f"{run.run_dir}: {run.frames:,} {run.task.unit}, {state}.")
