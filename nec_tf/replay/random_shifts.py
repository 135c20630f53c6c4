"""Random shifts of screens in updates, a data augmentation (Yarats et al., 2021)."""

import numpy as np


def shifted(screens: np.ndarray, mean: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Shifts what differs from the mean screen; the mean screen stays where it is.

    A network that subtracts the mean screen would otherwise get the edges of everything that never
    moves. Pixels that come from outside the screen are those of the mean screen.

    Args:
        screens: uint8 [B, height, width, frames].
        mean: The mean screen, [height, width, frames].
        shifts: Pixels down and to the right, integers [B, 2].

    Returns:
        uint8 [B, height, width, frames], rounded and limited to 0 to 255.
    """
    mean = np.rint(mean).astype(np.int16)
    height, width = screens.shape[1:3]
    result = np.empty_like(screens)
    for screen, (down, right), place in zip(screens, shifts, result, strict=True):
        rest = np.zeros(screen.shape, np.int16)
        to = _span(down, height), _span(right, width)
        source = _span(-down, height), _span(-right, width)
        rest[to] = screen[source] - mean[source]
        np.clip(mean + rest, 0, 255, out=rest)
        place[...] = rest
    return result


def _span(shift: int, size: int) -> slice:
    """Returns the places that a shifted line of `size` places covers."""
    return slice(max(shift, 0), size + min(shift, 0))
