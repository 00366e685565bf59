"""`Games`: the episodes of many clients, each under the name of a session, in bounded memory."""

import collections
import math
import os
import secrets
import threading
from collections.abc import Mapping
from typing import Any

import jax

from ..commands.parser import UsageError
from ..core import registry
from ..core.env import Env
from .episode import Episode

PER_CLIENT, IN_ALL = 8, 64  # maximum numbers of open sessions, of one client and of all clients
MAX_STATE_BYTES = 2**20  # maximum size of one state of an environment, in bytes
MAX_BITS = 256  # maximum size of a whole number in a field, in bits
MAX_DEPTH = 8  # maximum depth of lists in a field
REMEMBERED = 1000  # maximum number of closed sessions for which the reason of closing is stored
Key = tuple[str | None, str]  # (client, name of the session)


def check_id(id: str) -> None:
    """Raise `UsageError` for an id that is unknown or that names a module, as in `module:Id`."""
    if ":" in id:
        raise UsageError(
            f"{id!r} names a module, which clients cannot load; start the server with "
            f"`--module {id.partition(':')[0]}` and give the id alone"
        )
    try:
        registry.spec(id)
    except registry.UnknownIdError as error:
        raise UsageError(f"{error}; list_environments finds ids") from error


def environment(id: str, fields: Mapping[str, Any]) -> Env:
    """Make the environment of an id for a client.

    `fields` are constructor fields and params, as JSON values; lists become tuples. Raises
    `UsageError` for an unknown id, a bad field, an id or a field that names a file or a module, and
    an environment whose state is larger than `MAX_STATE_BYTES`.
    """
    check_id(id)
    # `id` and `self` are parameters of `make`, so no field can have these names.
    for name in sorted({"id", "self"} & {*fields}):
        raise UsageError(f"fields: {id} has no field {name!r}; rules lists its fields")
    given = {name: _value(name, value) for name, value in fields.items()}
    try:
        env = registry.make(id, **given)
        size = _state_bytes(env)
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    if size > MAX_STATE_BYTES:
        raise UsageError(
            f"{id} with these fields has a state of {size:,} bytes; at most {MAX_STATE_BYTES:,} "
            "are allowed: choose a smaller size"
        )
    return env


def _value(name: str, value: Any, depth: int = 0) -> Any:
    """Return a JSON value as the value of a field.

    Raises `UsageError` for a string that can name a file, a JSON object, an integer of more than
    `MAX_BITS` bits, and lists that are nested deeper than `MAX_DEPTH`.
    """
    if isinstance(value, dict) or depth > MAX_DEPTH:
        raise UsageError(
            f"fields: {name} must be a number, a text, true, false or a list of these, at most "
            f"{MAX_DEPTH} lists deep; rules lists the fields"
        )
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise UsageError(f"fields: {name} has more than {MAX_BITS} bits; give a smaller number")
    if isinstance(value, list):
        return tuple(_value(name, part, depth + 1) for part in value)
    if isinstance(value, str) and _names_a_file(value):
        raise UsageError(
            f"fields: {name}={value!r} names a file of the server's machine, which clients cannot "
            "read; leave it out or give another value"
        )
    return value


def _names_a_file(value: str) -> bool:
    """Return whether a value can be the name of a file; `~` and `~user` name home folders."""
    is_path = value.startswith("~") or "/" in value or "\\" in value
    return is_path or os.path.lexists(value)


def _state_bytes(env: Env) -> int:
    leaves = jax.tree.leaves(env.state_shape)
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


class Games:
    """The open sessions of all clients, by name. A session is one `Episode` of one client.

    `client` is a string that identifies a client. A client reaches only sessions that were opened
    with its string. All clients without a known identity have `client` None, so each of them can
    reach any session that was opened with None, if it knows the session's name. Names cannot be
    guessed.

    If a client with a known identity opens more than `per_client` sessions, its least recently used
    session is closed. If all clients together open more than `in_all` sessions, the least recently
    used of all sessions is closed. Methods may be called from several threads.
    """

    def __init__(self, per_client: int = PER_CLIENT, in_all: int = IN_ALL) -> None:
        self.per_client, self.in_all = per_client, in_all
        # Open sessions, the least recently used first.
        self._open: collections.OrderedDict[Key, Episode] = collections.OrderedDict()
        # Closed session -> reason why it was closed.
        self._closed: collections.OrderedDict[Key, str] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, client: str | None, episode: Episode, session: str = "") -> str:
        """Add an episode and return the name of its session.

        If `session` is "", open a session with a new name. Otherwise `session` must name an open
        session of the client; the new episode replaces the episode of this session. Raises
        `UsageError` if the client has no open session of this name.
        """
        if session:
            self.find(client, session)
        key = client, session or secrets.token_hex(8)
        with self._lock:
            self._open[key] = episode
            self._open.move_to_end(key)
            mine = self._of(client)
            if client is not None and len(mine) > self.per_client:
                self._close((client, mine[0]), f"this client opened {self.per_client} others")
            if len(self._open) > self.in_all:
                others = f"the clients of this server opened {self.in_all} others"
                self._close(next(iter(self._open)), others)
        return key[1]

    def find(self, client: str | None, session: str) -> Episode:
        """Return the episode of a session and mark it as used.

        Raises `UsageError` if the session is not open; the message tells why it was closed.
        """
        key = client, session
        with self._lock:
            episode = self._open.get(key)
            if episode is not None:
                self._open.move_to_end(key)
                return episode
            why = self._closed.get(key)
        if why:
            raise UsageError(f"session {session!r} was closed: {why}; reset opens a new one")
        raise UsageError(
            f"session {session!r} is not open; give a name that reset returned, or call reset"
        )

    def latest(self, client: str) -> str:
        """Return the name of the session that a client used last.

        Raises `UsageError` if the client has no open session.
        """
        with self._lock:
            mine = self._of(client)
        if not mine:
            raise UsageError("no session is open; call reset first")
        return mine[-1]

    def close(self, client: str | None, session: str) -> None:
        """Close a session. Raises `UsageError` if the session is not open."""
        self.find(client, session)
        with self._lock:
            self._close((client, session), "the client closed it")

    def _of(self, client: str | None) -> list[str]:
        return [session for owner, session in self._open if owner == client]

    def _close(self, key: Key, why: str) -> None:
        self._open.pop(key, None)
        self._closed[key] = why
        if len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)
