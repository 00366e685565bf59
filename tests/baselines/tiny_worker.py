"""A Ray actor without dependencies, which obeys the test."""

import os
import time


class Worker:
    """It knows who it is."""

    def __init__(self, slot: int, generation: int) -> None:
        self.name = {"slot": slot, "generation": generation}

    def do(self, what: str):
        """Answer, hang, break or die."""
        if what == "hang":
            time.sleep(1000)
        if what == "die":
            os._exit(1)
        return self.name | {"quotient": 1 / (what != "break")}, None
