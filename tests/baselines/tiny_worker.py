"""Ray actor without dependencies, whose behaviour a test controls."""

import os
import time


class Worker:
    """Ray actor that knows its slot in the pool, and its generation: how often it was replaced."""

    def __init__(self, slot: int, generation: int) -> None:
        self.name = {"slot": slot, "generation": generation}

    def do(self, what: str):
        """Return the slot and the generation or, as `what` says, hang, raise or exit."""
        if what == "hang":
            time.sleep(1000)
        if what == "die":
            os._exit(1)
        return self.name | {"quotient": 1 / (what != "break")}, None
