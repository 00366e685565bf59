"""Handlers of the messages of a page: keys, mouse, size of the page."""

from collections.abc import Callable

from ..shown import PRESS
from . import protocol
from .clients import MOST_IGNORED, Client
from .show import Show


def receive(show: Show, client: Client, text: str) -> bool:
    """Handle a message of a page; return False if the page has sent too many bad messages."""
    found = protocol.parsed(text) if client.accepts() else None
    if found is None:
        client.ignored += 1
        return client.ignored < MOST_IGNORED
    _HANDLERS[found[0]](show, client, *found[1])
    return True


def _key(show: Show, client: Client, name: str) -> None:
    show.queue(lambda viewer: viewer.run(PRESS, name))


def _click(show: Show, client: Client, x: int, y: int) -> None:
    _point(show, client, client.pointer.click, (x, y))


def _button(show: Show, client: Client, x: int, y: int, button: int) -> None:
    if client.frame is not None:
        height, width, _ = client.frame.picture.shape
        given = ((x, y), (width, height), client.frame.ratio, button)
        show.queue(lambda viewer: client.pointer.click(viewer, *given))


def _text(show: Show, client: Client, text: str) -> None:
    show.queue(lambda viewer: viewer.type(text))


def _move(show: Show, client: Client, x: int, y: int) -> None:
    _point(show, client, client.pointer.move, (x, y))


def _point(show: Show, client: Client, command: Callable[..., None], at: tuple[int, int]) -> None:
    """Queue a mouse command at the position `at` of the picture that the page shows."""
    if client.frame is not None:
        height, width, _ = client.frame.picture.shape
        size, ratio = (width, height), client.frame.ratio
        show.queue(lambda viewer: command(viewer, at, size, ratio))


def _release(show: Show, client: Client) -> None:
    show.queue(client.pointer.release)


def _resize(show: Show, client: Client, width: int, height: int, ratio: float) -> None:
    client.size, client.ratio = protocol.bounded(width, height, float(ratio))
    show.wake()


def _shown(show: Show, client: Client, number: int) -> None:
    client.drawn(number)
    show.wake()


def _words(show: Show, client: Client, wanted: bool) -> None:
    client.wants_words = wanted
    show.wake()


_HANDLERS: dict[str, Callable[..., None]] = {
    "key": _key,
    "click": _click,
    "button": _button,
    "text": _text,
    "move": _move,
    "release": _release,
    "size": _resize,
    "shown": _shown,
    "words": _words,
}
