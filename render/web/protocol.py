"""Messages between the server and a page.

A message from a page is a JSON array: a name in `MESSAGES`, then its arguments. Positions are in
pixels of the picture that the page shows. A message from the server is an update of this picture:
the length of its head (four bytes, little-endian), the head (JSON, see `viewer.js`), and a PNG of
the blocks of the picture that have changed, see diffs.py.
"""

import json
import math
import struct
from collections.abc import Callable
from typing import Any

MAX_BYTES = 4096  # maximum size of a message that a page sends, in bytes
MAX_SIDE = 16_384  # largest coordinate that a page may send, in pixels
# Minimum width and height of a picture, and its maximum number of pixels.
MIN_SIDE, MAX_PIXELS = 64, 2560 * 1600
MAX_RATIO = 4.0  # maximum number of the picture's pixels per CSS pixel
LONGEST_KEY = 20  # maximum length of the name of a key, in characters
LONGEST_TEXT = 300  # maximum length of a typed text, in characters


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_KEY and value.isprintable()


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_pixel(value: Any) -> bool:
    return type(value) is int and abs(value) <= MAX_SIDE


def _is_length(value: Any) -> bool:
    return _is_pixel(value) and value > 0


def _is_ratio(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 < value <= 16


def _is_text(value: Any) -> bool:
    return (
        isinstance(value, str) and len(value) <= LONGEST_TEXT and (value.isprintable() or not value)
    )


def _is_button(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 3


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


# Name of each message that a page can send -> a check for each argument.
MESSAGES: dict[str, tuple[Callable[[Any], bool], ...]] = {
    "key": (_is_key,),  # name of a pressed key
    "click": (_is_pixel, _is_pixel),  # x and y
    # Coordinates x and y, then 1 (left), 2 (middle) or 3 (right button).
    "button": (_is_pixel, _is_pixel, _is_button),
    "text": (_is_text,),  # text of the input field
    "move": (_is_pixel, _is_pixel),
    "release": (),
    "size": (_is_length, _is_length, _is_ratio),  # width and height (pixels), pixels per CSS pixel
    "shown": (_is_count,),  # number of the update that the page has drawn
    "words": (_is_switch,),  # whether to send descriptions in words
}


def parsed(text: str) -> tuple[str, tuple[Any, ...]] | None:
    """Return the name and the arguments of a message; None if it is malformed."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, list) or not message or not isinstance(message[0], str):
        return None
    name, given = message[0], tuple(message[1:])
    checks = MESSAGES.get(name)
    if checks is None or len(checks) != len(given):
        return None
    passes = (check(value) for check, value in zip(checks, given, strict=True))
    return (name, given) if all(passes) else None


def bounded(width: int, height: int, ratio: float) -> tuple[tuple[int, int], float]:
    """Return the (size, ratio) of the picture for a page that requests `width`, `height`, `ratio`.

    The picture has the requested size and ratio, within limits: larger requests are scaled down to
    at most `MAX_PIXELS` pixels and a ratio of `MAX_RATIO`.
    """
    shrink = min(1.0, MAX_RATIO / ratio, (MAX_PIXELS / (width * height)) ** 0.5)
    size = (max(MIN_SIDE, int(width * shrink)), max(MIN_SIDE, int(height * shrink)))
    return size, max(0.5, ratio * shrink)


def update(head: dict[str, Any], picture: bytes = b"") -> bytes:
    """Return an update for a page as bytes: the length of the head, the head, the picture."""
    words = json.dumps(head, separators=(",", ":")).encode()
    return struct.pack("<I", len(words)) + words + picture
