"""What the page asks, answered as JSON-ready dictionaries and arrays of bytes."""

import base64
import dataclasses
import math
from typing import Any

import numpy as np

from nec_tf.experiments.viewer.deciders import Decision
from nec_tf.experiments.viewer.pictures import Pictures
from nec_tf.experiments.viewer.remembered import Near
from nec_tf.experiments.viewer.session import Moment, Session
from nec_tf.runtime.errors import UserError

_SHOWN = 12  # neighbours with pictures; the rest are counted and weighed together
#: Blocks of `map_columns`, each a float32 for every entry on the map.
MAP_COLUMNS = ("row", "x", "y", "value", "age", "action")


@dataclasses.dataclass(frozen=True)
class Subject:
    """What is watched, in words.

    Attributes:
        title: Agent and task.
        origin: Run or export, checkpoint and frames.
        statistics: Names and figures of the memory from the training log.
    """

    title: str
    origin: str
    statistics: dict[str, float]


class Answers:
    """Answers from a session; not safe for several threads at once."""

    def __init__(self, session: Session, pictures: Pictures, subject: Subject) -> None:
        """Answers questions about a session."""
        self._session = session
        self._memory = session.decider.memory
        self._pictures = pictures
        self._subject = subject

    def about(self) -> dict[str, Any]:
        """Returns what does not change while the page is open."""
        memory, session = self._memory, self._session
        answer: dict[str, Any] = {
            "title": self._subject.title,
            "origin": self._subject.origin,
            "actions": session.action_names,
            "kind": session.decider.kind,
            "steps_per_second": session.task.steps_per_second,
            "renders": session.task.renders,
            "memory": None,
        }
        if memory is not None:
            count = len(memory.entries)
            answer["memory"] = {
                "entries": count,
                "counts": memory.entries.counts(len(session.action_names)).tolist(),
                "on_map": len(memory.on_map),
                "columns": list(MAP_COLUMNS),
                "explained": memory.explained,
                "statistics": _finite(self._subject.statistics),
            }
        return answer

    def moment(self, index: int, action: int | None = None) -> dict[str, Any]:
        """Returns a moment of the episode, with the neighbours of one action.

        Args:
            index: Of the moment.
            action: Whose neighbours; None for the action taken.

        Raises:
            UserError: There is no such moment or action.
        """
        if not 0 <= index < len(self._session.moments):
            raise UserError(f"there is no moment {index}")
        return self._moment(self._session.moments[index], action)

    def step(self, index: int, action: int | None = None) -> dict[str, Any]:
        """Returns the moment after `index`, which is played if it is new; see `moment`."""
        return self._moment(self._session.after(index), action)

    def restart(self, seed: int | None) -> dict[str, Any]:
        """Begins another episode and returns its first moment."""
        return self._moment(self._session.restart(seed), None)

    def history(self) -> dict[str, Any]:
        """Returns scores of actions, actions taken and rewards of all moments so far."""
        moments = self._session.moments
        return {
            "episode": self._session.episode,
            "seed": self._session.seed,
            "rewards": [moment.reward for moment in moments],
            "scores": [m.decision.scores.tolist() if m.decision else None for m in moments],
            "taken": [m.decision.action if m.decision else None for m in moments],
        }

    def entry(self, row: int) -> dict[str, Any]:
        """Returns an entry of the memory with its neighbours.

        Raises:
            UserError: There is no such entry.
        """
        memory = self._memory
        place = memory.place(row) if memory is not None else None
        if memory is None or place is None:
            raise UserError(f"there is no entry in row {row}")
        entries = memory.entries
        return {
            "row": row,
            "action": int(entries.actions[place]),
            "value": float(entries.values[place]),
            "age": int(entries.ages[place]),
            "position": memory.coordinates[place].tolist(),
            "picture": _as_url(self._pictures.find(int(entries.state_ids[place]))),
            "neighbours": self._described(memory.near(place)),
        }

    def map_columns(self) -> bytes:
        """Returns `MAP_COLUMNS` of the entries on the map, one after the other, little-endian.

        Rows are float32 like the rest: exact below 2**24, and a memory of the paper's size has
        fewer than 10 million.
        """
        memory = self._memory
        if memory is None:
            return b""
        entries, shown = memory.entries, memory.on_map
        x, y = memory.coordinates[shown].T
        columns = (entries.rows[shown], x, y, entries.values[shown], entries.ages[shown])
        return np.stack([*columns, entries.actions[shown]]).astype("<f4").tobytes()

    def _moment(self, moment: Moment, action: int | None) -> dict[str, Any]:
        decision = moment.decision
        answer: dict[str, Any] = {
            "episode": self._session.episode,
            "seed": self._session.seed,
            "index": moment.index,
            "reward": moment.reward,
            "score": moment.score,
            "picture": _as_url(moment.picture),
            "decision": None,
        }
        if decision is not None:
            answer["decision"] = self._decision(decision, action)
        return answer

    def _decision(self, decision: Decision, action: int | None) -> dict[str, Any]:
        shown = decision.action if action is None else action
        if not 0 <= shown < len(decision.scores):
            raise UserError(f"there is no action {shown}")
        answer: dict[str, Any] = {
            "action": decision.action,
            "greedy": decision.greedy,
            "scores": decision.scores.tolist(),
            "value": decision.value,
            "shown": shown,
            "position": None,
            "neighbours": None,
        }
        if decision.neighbours is not None:
            near = decision.neighbours[shown]
            answer["neighbours"] = self._described(near)
        if decision.key is not None and self._memory is not None:
            answer["position"] = self._memory.project(decision.key[None])[0].tolist()
        return answer

    def _described(self, near: Near) -> dict[str, Any]:
        """Returns the nearest entries one by one, and how many more there are."""
        memory = self._memory
        assert memory is not None
        listed = []
        for row, distance, weight, value in zip(
            near.rows[:_SHOWN].tolist(), near.distances, near.weights, near.values, strict=False
        ):
            place = memory.place(row)
            assert place is not None
            state_id = int(memory.entries.state_ids[place])
            listed.append(
                {
                    "row": row,
                    "distance": float(distance),
                    "weight": float(weight),
                    "value": float(value),
                    "age": int(memory.entries.ages[place]),
                    "picture": _as_url(self._pictures.find(state_id)),
                }
            )
        rest = near.weights[_SHOWN:]
        return {"listed": listed, "others": len(rest), "weight_of_others": float(rest.sum())}


def _as_url(picture: bytes | None) -> str | None:
    if picture is None:
        return None
    return "data:image/png;base64," + base64.b64encode(picture).decode()


def _finite(figures: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in figures.items() if math.isfinite(value)}
