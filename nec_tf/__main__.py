"""nec-tf: trains, evaluates, exports and compares agents with a memory.

  nec-tf train --game=Pong --frames=400000
  nec-tf train --help

`nec-tf COMMAND` and `python -m nec_tf COMMAND` run the programs of trainers/ and export/.
"""

import sys

from nec_tf.runtime import programs
from nec_tf.runtime.errors import did_you_mean
from nec_tf.runtime.version import VERSION

# Packages that only some commands need, and the extra of the wheel that installs each of them.
_EXTRAS = {
    "ale_py": "atari",
    "cv2": "atari",
    "grpc": "serving",
    "matplotlib": "report",
    "optuna": "sweep",
    "playwright": "dev",
    "plotly": "report",
    "ray": "sweep",
    "reverb": "reverb",
    "rich": "sweep",
    "rliable": "report",
    "scipy": "report",
    "tensorflow_serving": "serving",
    "wandb": "wandb",
}


def main() -> None:
    """Runs the command that the first argument names."""
    command, *arguments = sys.argv[1:] or ["--help"]
    if command in ("--help", "-h", "help"):
        print(help_text())
    elif command == "--version":
        print(f"nec_tf {VERSION}")
    else:
        _run(command, arguments)


def _run(command: str, arguments: list[str]) -> None:
    known = programs.commands()
    if command not in known:
        hint = did_you_mean(command, known) or f"there are {', '.join(known)}"
        sys.exit(_refuse(f"unknown command {command!r}: {hint}"))
    try:
        programs.run(known[command], arguments)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        wanted = f"pip install 'nec_tf[{_EXTRAS[package]}]'"
        sys.exit(_refuse(f"{command} needs {package}, which is not installed: {wanted}"))


def _refuse(message: str) -> int:
    print(f"nec-tf: {message}", file=sys.stderr)
    return 2


def help_text() -> str:
    """Returns what there is, with one line for each command."""
    lines = [f"  {name:12s}{programs.summary(file)}" for name, file in programs.commands().items()]
    more = "nec-tf COMMAND --help shows the flags of a command; nec-tf --version the version."
    return "\n".join([__doc__ or "", "Commands:", *lines, "", more])


if __name__ == "__main__":
    main()
