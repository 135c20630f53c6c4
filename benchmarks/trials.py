"""Throughput of sweeps: one trial on each core against one trial on all cores of this machine.

  python -m benchmarks.trials
  python -m benchmarks.trials --agent=nec --game=frostbite --frames=100000

Each trial is started as a sweep starts it (cores of its own, `nec_tf.experiments.sweep.launch`).
Prints frames per second of training, of each trial and of the machine. Run it on an idle machine;
docs/cluster.md has the figures from which the default of --cpus_per_trial and the costs follow.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from absl import app, flags

from nec_tf.experiments.evaluation_log import read_evaluations
from nec_tf.experiments.sweep import launch, worker
from nec_tf.experiments.sweep.plan import make_trials
from nec_tf.runtime import startup
from nec_tf.runtime.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("agent", "nec", "Agent to train.")
flags.DEFINE_string("game", "frostbite", "Atari game.")
flags.DEFINE_integer("frames", 40_000, "Emulator frames of each trial.", lower_bound=1_000)


def measure(trials: int, cores: int) -> list[tuple[float, float]]:
    """Runs trials side by side; returns frames/s of training and seconds in all, of each."""
    with tempfile.TemporaryDirectory() as folder:
        flags_of_all = [
            f"--eval_every_frames={FLAGS.frames}",
            "--eval_episodes=1",
            "--video=false",
        ]
        made = make_trials(
            FLAGS.game, FLAGS.agent, f"1-{trials}", FLAGS.frames, [], Path(folder), flags_of_all
        )
        processes = []
        for trial in made:
            trial.run_dir.mkdir(parents=True)
            with (trial.run_dir / worker.LOG).open("wb") as log:
                command = worker.start_command(launch.__file__, cores, trial.command())
                processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        for trial, process in zip(made, processes, strict=True):
            if process.wait():
                raise UserError((trial.run_dir / worker.LOG).read_text()[-2_000:])
        last = [read_evaluations(trial.run_dir)[-1] for trial in made]
        return [(record.frames_per_second or 0.0, record.wall_seconds) for record in last]


def main() -> None:
    """Measures both ways and prints a table."""
    cores = len(os.sched_getaffinity(0))
    print(f"{FLAGS.agent} on {FLAGS.game}, {FLAGS.frames:,} frames, {cores} cores\n")
    print(
        "| trials x cores | frames/s of each | frames/s of the machine | core-hours per 1M frames |"
    )
    print("| --- | --- | --- | --- |")
    for trials, each in ((cores, 1), (1, cores)):
        speeds = [speed for speed, _ in measure(trials, each)]
        shown = " ".join(f"{speed:.0f}" for speed in speeds)
        hours = cores * 1e6 / sum(speeds) / 3600
        print(f"| {trials} x {each} | {shown} | {sum(speeds):.0f} | {hours:.2f} |", flush=True)


if __name__ == "__main__":
    app.run(startup.guarded(main))
