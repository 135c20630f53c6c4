"""Memories that were exported come back to be trained on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nec_tf.runtime.errors import UserError
from nec_tf.serving import memory_files
from nec_tf.serving.exporting import versions


def import_memories(agent: Any, paths: Sequence[str], own: dict[str, Any] | None = None) -> int:
    """Puts exported memories, and the weights of their network, into an agent.

    What the agent holds already is merged with them, if its keys are of the same network. It does
    not explore at random as a new one does.

    Args:
        agent: An agent with a memory.
        paths: Folders: of a memory, of an exported version, or with the newest version in it.
        own: What the agent's own memory is, for a message.

    Returns:
        How many entries the agent holds now.

    Raises:
        UserError: Something does not fit; the message says what.
    """
    if not hasattr(agent, "dnd"):
        raise UserError("this agent has no memory: exported memories cannot be imported into it")
    memories = [memory_files.load(_find(Path(path))) for path in paths]
    if agent.dnd.sizes.any():
        memories.insert(0, memory_files.of_layer(agent.dnd, agent.embedding, own or {}))
    merged = memory_files.merge(memories, agent.dnd.capacity)
    memory_files.fill_layer(merged, agent.dnd, agent.embedding)
    agent.embedding_replaced()
    agent.exploration.end()
    return len(merged)


def _find(path: Path) -> Path:
    """Returns the folder with the manifest.

    Raises:
        UserError: There are compact exports only, which have no memory files.
    """
    # Not the link to the newest memory alone: it dangles after that version was removed.
    places = [path, *versions(path)]
    memories = [place / "memory" for place in places]
    found = [memory for memory in memories if (memory / "manifest.json").exists()]
    compact = [place for place in places if (place / "saved_model.pb").exists()]
    if not found and compact:
        raise UserError(
            f"{compact[0]} has no memory files: it is a compact export, or one of an agent without"
            " a memory. Export the run without --compact"
        )
    return found[0] if found else path
