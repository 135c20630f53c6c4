"""Commands that documents and deployments name: parsed, and checked against programs and flags."""

import functools
import re
import shlex
import subprocess
import sys
from typing import NamedTuple

from documents import ROOT, code, documents, text

from nec_tf.runtime import programs

PROGRAM = re.compile(r"(?:trainers|export|examples|benchmarks)/\w+\.py|-m benchmarks\.\w+")
OURS = re.compile(rf"python3? (?:{PROGRAM.pattern})|nec-tf [a-z]|make [a-z]")
OF_ABSL = {"flagfile", "help", "helpfull", "helpshort"}


class Command(NamedTuple):
    """A command of a document: a program with its flags, or `make` with its arguments."""

    document: str
    line: str
    program: str
    arguments: list[str]


def lines(markdown: str) -> list[str]:
    """Returns the lines of shell blocks, continued lines as one, and commands inside sentences."""
    blocks = "\n".join(code(markdown, "sh", ""))
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", markdown)]
    return [
        *re.sub(r" *\\\n *", " ", blocks).splitlines(),
        *(span for span in spans if OURS.match(span)),
    ]


def in_documents() -> list[Command]:
    """Returns our commands in all documents, in their order."""
    return [
        command
        for document in documents()
        for line in lines(text(document))
        for command in parse(document.name, line)
    ]


def parse(document: str, line: str) -> list[Command]:
    """Returns our commands in a line of a shell."""
    found = []
    for part in re.split(r"&&|\|\||[|;] ", line):
        if OURS.search(part):
            words = shlex.split(part.replace("[", "").replace("]", ""), comments=True)
            start = next((i for i, word in enumerate(words) if is_program(word)), None)
            if start is not None:
                program, arguments = resolve(words[start:])
                found.append(Command(document, line.strip(), program, arguments))
    return found


def is_program(word: str) -> bool:
    return word in ("make", "-m") or word.endswith("nec-tf") or bool(PROGRAM.fullmatch(word))


def resolve(words: list[str]) -> tuple[str, list[str]]:
    """Returns the file of a program, or "make", and the words that follow."""
    first, *rest = words
    if first == "-m":
        return f"{rest[0].replace('.', '/')}.py", rest[1:]
    if first.endswith("nec-tf"):
        file = programs.commands().get(rest[0]) if rest else None
        return (str(file.relative_to(ROOT)) if file else f"nec-tf {rest}"), rest[1:]
    return first, rest


@functools.cache
def flags_of(program: str) -> set[str]:
    """Returns the flags of a program, from its help."""
    as_module = ["-m", program.removesuffix(".py").replace("/", ".")]
    start = as_module if program.startswith("benchmarks/") else [program]
    shown = subprocess.run(
        [sys.executable, *start, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=300
    ).stdout
    names = set(re.findall(r"^ *--(?:\[no\])?(\w+):", shown, re.M))
    switches = set(re.findall(r"^ *--\[no\](\w+):", shown, re.M))
    plain = set(re.findall(r"^ *(?:-\w, )?--(\w+)\b(?!:)", shown, re.M))  # argparse
    return names | {f"no{name}" for name in switches} | plain | OF_ABSL


def wrong(command: Command) -> list[str]:
    """Returns a sentence for each name in a command that does not exist."""
    if command.program == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
        variables = set(re.findall(r"^([A-Z0-9]+) \?=", makefile, re.M))
        names = [word.partition("=")[0] for word in command.arguments]
        return [f"make: no {name}" for name in names if name not in targets | variables]
    if not (ROOT / command.program).is_file():
        return [f"no program {command.program}"]
    flags = [word[2:].partition("=")[0] for word in command.arguments if word.startswith("--")]
    known = flags_of(command.program) if flags else set()
    return [f"{command.program} has no flag --{flag}" for flag in flags if flag not in known]
