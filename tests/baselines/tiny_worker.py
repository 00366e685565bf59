"""A Ray actor without dependencies, controlled by a test."""

import os
import time


class Worker:
    """Actor with its slot and generation."""

    def __init__(self, slot: int, generation: int) -> None:
        self.name = {"slot": slot, "generation": generation}

    def do(self, what: str):
        """Answer, hang, break or die."""
        if what == "hang":
            time.sleep(1000)
        if what == "die":
            os._exit(1)
        return self.name | {"quotient": 1 / (what != "break")}, None
