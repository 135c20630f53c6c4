"""Films an episode: the game, the scores of its actions and the neighbours, side by side."""

from pathlib import Path
from typing import Any

import cv2
import imageio.v2 as imageio
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nec_tf.experiments.viewer.deciders import PROBABILITIES, Decision
from nec_tf.experiments.viewer.session import Moment
from nec_tf.experiments.viewer.watching import Watched
from nec_tf.runtime.errors import UserError

#: Most bytes of a GIF file: larger ones are slow to load in a README.
GIF_BYTES = 3_000_000
_WIDTH, _HEIGHT = 960, 540
# Of a GIF, from the best looking on: scale of its pictures, and every which moment it shows.
_GIF_STEPS = ((0.75, 1), (0.75, 2), (0.6, 2), (0.5, 2), (0.5, 3), (0.4, 3), (0.4, 5), (0.3, 8))
_BACKGROUND, _SURFACE, _TEXT, _QUIET = "#0e1217", "#1f2731", "#e6ebf1", "#93a0af"
_ACCENT, _BAR, _RANDOM = "#5aa7ff", "#31527a", "#f2a05c"
_COLUMNS, _THUMBNAIL = 6, 84  # neighbours in a row, and pixels of one
_LEFT = 424  # pixels of the game


def require_file(path: Path, seconds: int) -> None:
    """Raises `UserError` if no film can be written to a file."""
    if path.suffix not in (".mp4", ".gif"):
        raise UserError(f"a recording must be a *.mp4 or *.gif file, not {path}")
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the recording {path.name}")
    if seconds < 1:
        raise UserError(f"record_seconds must be at least 1, not {seconds}")


def record(watched: Watched, path: Path, seconds: int) -> str:
    """Plays the episode from its beginning, at most so many seconds, and writes a film of it.

    Returns:
        A line that describes the film.
    """
    session = watched.session
    if not session.task.renders:
        raise UserError(f"{session.task.name} does not render to arrays: there can be no film")
    if watched.replay is not None:
        watched.replay.wait()
    fps = session.task.steps_per_second
    frames, index = [], 0
    while index < fps * seconds:
        moment = session.moments[index]
        frames.append(compose(watched, moment))
        if moment.decision is None:
            break
        index = session.after(index).index
    unfinished = path.with_name(f"unfinished-{path.name}")
    if path.suffix == ".gif":
        _write_gif(frames, unfinished, fps)
    else:
        writer: Any = imageio.get_writer(unfinished, fps=fps, macro_block_size=2)
        with writer as video:
            for frame in frames:
                video.append_data(frame)
    unfinished.rename(path)
    score = session.moments[len(frames) - 1].score
    size = path.stat().st_size / 1e6
    return f"{path}: {len(frames) / fps:.0f} s, score {score:g}, {size:.1f} MB"


def compose(watched: Watched, moment: Moment) -> np.ndarray:
    """Returns the picture of one moment, uint8 [height, width, 3]."""
    image = Image.new("RGB", (_WIDTH, _HEIGHT), _BACKGROUND)
    pen = ImageDraw.Draw(image)
    assert moment.picture is not None
    game = cv2.imdecode(np.frombuffer(moment.picture, np.uint8), cv2.IMREAD_COLOR)
    _paste(image, cv2.cvtColor(game, cv2.COLOR_BGR2RGB), (16, 16, _LEFT - 8, _HEIGHT - 44))
    pen.text((16, _HEIGHT - 34), watched.subject.title, _QUIET, _font(15))
    score = f"score {moment.score:g}   step {moment.index}"
    pen.text((_LEFT - 8, _HEIGHT - 34), score, _TEXT, _font(15), anchor="ra")
    if moment.decision is None:
        pen.text((_LEFT + 16, 16), "the episode has ended", _TEXT, _font(17))
        return np.asarray(image)
    below = _draw_scores(pen, watched, moment.decision)
    if moment.decision.neighbours is not None:
        _draw_neighbours(image, pen, watched, moment.decision, below)
    return np.asarray(image)


def _draw_scores(pen: ImageDraw.ImageDraw, watched: Watched, decision: Decision) -> int:
    """Draws a bar for each action; returns the place below them."""
    names, scores = watched.session.action_names, decision.scores
    probabilities = watched.session.decider.kind == PROBABILITIES
    title = "Probability of each action" if probabilities else "Q-value of each action"
    pen.text((_LEFT + 16, 14), title, _TEXT, _font(15))
    how = "" if decision.greedy else ("drawn" if probabilities else "random")
    pen.text((_WIDTH - 16, 14), how, _RANDOM, _font(15), anchor="ra")
    height = min(26, 250 // len(names))
    low, high = float(scores.min()), float(scores.max())
    for action, (name, score) in enumerate(zip(names, scores.tolist(), strict=True)):
        top = 40 + action * height
        taken = action == decision.action
        share = score if probabilities else 0.04 + 0.96 * (score - low) / (high - low or 1.0)
        font, colour = _font(max(10, min(14, height - 3))), _TEXT if taken else _QUIET
        pen.text((_LEFT + 16, top + height / 2), name, colour, font, anchor="lm")
        left, right = _LEFT + 136, _WIDTH - 96
        box = (left, top + 3, right, top + height - 3)
        pen.rounded_rectangle(box, 3, _SURFACE)
        box = (left, top + 3, left + max(2.0, share * (right - left)), top + height - 3)
        pen.rounded_rectangle(box, 3, _ACCENT if taken else _BAR)
        text = f"{100 * score:.1f}%" if probabilities else f"{score:.4g}"
        pen.text((_WIDTH - 16, top + height / 2), text, colour, font, anchor="rm")
    return 40 + len(names) * height + 14


def _draw_neighbours(
    image: Image.Image, pen: ImageDraw.ImageDraw, watched: Watched, decision: Decision, top: int
) -> None:
    """Draws the entries behind the score of the action taken, as many as there is room for."""
    memory = watched.session.decider.memory
    assert memory is not None
    assert decision.neighbours is not None
    near = decision.neighbours[decision.action]
    name = watched.session.action_names[decision.action]
    pen.text((_LEFT + 16, top), f"Remembered moments that speak for {name}", _TEXT, _font(15))
    top += 26
    rows = max(1, (_HEIGHT - top) // (_THUMBNAIL + 22))
    for number, row in enumerate(near.rows[: rows * _COLUMNS].tolist()):
        place = memory.place(row)
        assert place is not None
        x = _LEFT + 16 + (number % _COLUMNS) * (_THUMBNAIL + 2)
        y = top + (number // _COLUMNS) * (_THUMBNAIL + 22)
        box = (x, y, x + _THUMBNAIL - 2, y + _THUMBNAIL - 2)
        picture = watched.pictures.array(int(memory.entries.state_ids[place]))
        if picture is None:
            pen.rectangle(box, _SURFACE)
            pen.text(
                (x + _THUMBNAIL / 2, y + _THUMBNAIL / 2), "no picture", _QUIET, _font(10), "mm"
            )
        else:
            _paste(image, picture, box)
        numbers = f"{near.values[number]:.4g} · {100 * near.weights[number]:.0f}%"
        pen.text((x + _THUMBNAIL / 2, y + _THUMBNAIL + 1), numbers, _QUIET, _font(11), anchor="ma")


def _paste(image: Image.Image, picture: np.ndarray, box: tuple[float, float, float, float]) -> None:
    """Puts a picture into the middle of a box, as large as fits."""
    left, top, right, bottom = box
    height, width = picture.shape[:2]
    scale = min((right - left) / width, (bottom - top) / height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    way = cv2.INTER_NEAREST if scale > 1 else cv2.INTER_AREA
    resized = cv2.resize(picture, size, interpolation=way)
    x, y = (left + right - size[0]) / 2, (top + bottom - size[1]) / 2
    image.paste(Image.fromarray(resized).convert("RGB"), (round(x), round(y)))


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def _write_gif(frames: list[np.ndarray], path: Path, fps: int) -> None:
    """Writes a GIF of at most `GIF_BYTES`: smaller, and with fewer moments, until it fits."""
    for scale, every in _GIF_STEPS:
        size = (round(_WIDTH * scale), round(_HEIGHT * scale))
        pictures = [
            Image.fromarray(cv2.resize(frame, size, interpolation=cv2.INTER_AREA)).quantize(64)
            for frame in frames[::every]
        ]
        duration = round(1000 * every / fps)
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=duration, loop=0)
        if path.stat().st_size <= GIF_BYTES:
            return
    path.unlink()
    raise UserError(
        f"{len(frames) / fps:.0f} s do not fit into a GIF of {GIF_BYTES / 1e6:.0f} MB: record"
        " fewer seconds (--record_seconds), or an mp4"
    )
