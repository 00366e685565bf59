"""Table of the speedruns.

Each row gives a task, its bar, and the learner that is timed unless the user gives other flags.
`benchmarks.tables` reads the rows of this file as text, so their values are literals.
"""

from typing import NamedTuple

POLICY, HEURISTIC, SEARCH = KINDS = ("policy", "heuristic", "search")


class Entry(NamedTuple):
    """A speedrun: the task, the learner, and the bar that the result must reach."""

    name: str  # name on the command line
    id: str  # environment or puzzle
    bar: float  # least mean of `measure`, here and in the replay
    measure: str  # quantity in words; its mean over the episodes or boards of the final check
    budget: int  # largest number of steps (for a search: stored nodes) of an attempt
    package: str  # original package of the replay; "" if plain Python replays the solutions
    # POLICY trains a policy and replays it in `package`. HEURISTIC trains a cost-to-go, and a
    # search with it solves boards. SEARCH trains nothing.
    kind: str = POLICY
    flags: tuple[str, ...] = ()  # arguments of `jaxenvs train`, such as the learner
    every: int = 0  # steps between evaluations during training; 0: the whole budget is used
    episodes: int = 256  # episodes or boards of each evaluation and of the final check

    @property
    def trains(self) -> bool:
        """True if the entry trains a network, and therefore takes flags of `jaxenvs train`."""
        return self.kind != SEARCH


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            name="cartpole",
            id="Classic-CartPole-v0",
            bar=475.0,
            measure="return",
            budget=500_000,
            package="gymnasium",
            every=8_192,
        ),
        Entry(
            name="pendulum",
            id="Classic-Pendulum-v0",
            bar=-200.0,
            measure="return",
            budget=1_000_000,
            package="gymnasium",
            every=8_192,
        ),
        Entry(
            name="doorkey-8x8",
            id="Grid-DoorKey-8x8-v0",
            bar=0.95,
            measure="return",
            budget=3_000_000,
            package="minigrid",
            every=40_960,
        ),
        Entry(
            name="gotoredball-grey",
            id="BabyAI-GoToRedBallGrey-v0",
            bar=0.85,
            measure="return",
            budget=1_000_000,
            package="minigrid",
            every=32_768,
        ),
        Entry(
            name="memory-s7",
            id="Grid-MemoryS7-v0",
            bar=0.95,
            measure="return",
            budget=4_000_000,
            package="minigrid",
            flags=("--algo", "ppo-rnn"),
            every=81_920,
        ),
        Entry(
            name="cube-2x2",
            id="Puzzle-Cube-2x2-v0",
            bar=0.9,
            measure="share of cubes solved with the fewest turns",
            budget=8_000_000,
            package="",
            kind="heuristic",
            flags=("--algo", "davi"),
            every=672_000,
            episodes=1024,  # with 256, the interval of a share near the bar is 7 % wide
        ),
        Entry(
            name="15-puzzle-korf",
            id="Puzzle-SlidingTile-4x4-v0",
            bar=1.0,
            measure="share of Korf's boards solved with proven, published length",
            budget=2_000_000_000,
            package="",
            kind="search",
            episodes=100,
        ),
        Entry(
            name="classic-90",
            id="Craft-Classic-Ids-v0",
            bar=19.8,
            measure="return",
            budget=1_000_000_000,
            package="craftax",
            flags=("--algo", "ppo-rnn", "--preset", "gpu"),
            every=4_194_304,
        ),
        Entry(
            name="craft-1b",
            id="Craft-Ids-v0",
            bar=41.358,
            measure="return",
            budget=1_000_000_000,
            package="craftax",
            flags=("--algo", "ppo-rnn", "--preset", "gpu"),
        ),
    )
}
