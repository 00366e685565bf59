"""Memory that a search needs, and a check that the device has it."""

import jax

from ..core.memory import device_memory
from . import store
from .engine import Settings


def bytes_per_node(key_words: int, entries: int = 1) -> int:
    """Return the bytes per node that a search needs, with hash table slots and open list entries.

    `key_words` is the number of uint32 words of a key (a packed board), and `entries` is the number
    of open list entries per node.
    """
    return 4 * key_words + 4 + 4 + 2 + 1 + 4 * store.SLOTS_PER_ROW + 4 * entries + 2


def check_memory(where: str, rows: int, settings: Settings, actions: int, key_words: int) -> None:
    entries = actions if settings.by_action else 1
    if rows * entries >= 2**31:
        raise ValueError(
            f"{where}: node_budget={settings.node_budget} has more entries than 32 bits count; "
            f"give at most {(2**31 - 1) // entries - (rows - settings.node_budget)}"
        )
    each = bytes_per_node(key_words, entries)
    memory = device_memory(jax.devices()[0])
    if memory and rows * each > memory:
        raise ValueError(
            f"{where}: node_budget={settings.node_budget} needs {rows * each / 2**30:.1f} GiB "
            f"({each} bytes a node) and this device has {memory / 2**30:.1f} GiB; give at most "
            f"node_budget={max(1, int(0.8 * memory / each) - (rows - settings.node_budget))}"
        )
