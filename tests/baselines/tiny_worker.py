"""Ray actor without dependencies, whose behaviour a test controls."""

import os
import time


class Worker:
    """Ray actor that stores its slot in a pool of actors, and its generation.

    The generation is the number of earlier actors in this slot that were replaced.
    """

    def __init__(self, slot: int, generation: int) -> None:
        self.name = {"slot": slot, "generation": generation}

    def do(self, what: str):
        """Hang, exit or raise if `what` says so; else return the slot and the generation."""
        if what == "hang":
            time.sleep(1000)
        if what == "die":
            os._exit(1)
        return self.name | {"quotient": 1 / (what != "break")}, None
