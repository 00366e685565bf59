"""The peers, for README: words from their repositories, factors from the measurements."""

from typing import Any, NamedTuple

from .craft import FLOATS, OPTIMISTIC
from .registry import RESULTS, table
from .text import Table, ratio
from .turns import Turns, faster, turns

CPU_BATCH, GPU_BATCH = 1_024, 65_536


class Peer(NamedTuple):
    """A library of environments, as its documentation and sources describe it."""

    name: str  # with its address; a version that was not measured is typed
    worlds: str
    rules: str  # whose they are, and how that is checked
    reset: str  # what a step of a batch generates when an episode ends
    viewer: str


OURS = Peer(
    "**jaxenvs**",
    "MiniGrid, BabyAI, XLand-MiniGrid, Craftax, Craftax-Classic, 15 puzzles, classic control",
    "the originals', compared step by step",
    "a level for ended episodes, or for all environments where that is cheaper",
    "play, watch and take over from agents; films, web replays",
)
PEERS = (
    Peer(
        "[Craftax](https://github.com/MichaelTMatthews/Craftax)",
        "Craftax, Craftax-Classic",
        "its own; Classic is Crafter's, rewritten",
        "a world for every environment or, optimistically, one for 16",
        "play",
    ),
    Peer(
        "[NAVIX](https://github.com/epignatelli/navix)",
        "MiniGrid without BabyAI",
        "MiniGrid's, rewritten",
        "a level for every environment",
        "pictures",
    ),
    Peer(
        "[XLand-MiniGrid](https://github.com/dunnolab/xland-minigrid)",
        "XLand with up to 3 M tasks, MiniGrid without missions",
        "its own, and MiniGrid's, rewritten",
        "a level for every environment",
        "play, pictures",
    ),
    Peer(
        "[Jumanji](https://github.com/instadeepai/jumanji)",
        "over 20 puzzle, packing, routing and swarm problems",
        "its own versions of known problems",
        "a level for ended episodes, one by one",
        "pictures, animations",
    ),
    Peer(
        "[gymnax](https://github.com/RobertTLange/gymnax) 1.0",
        "classic control, bsuite, MinAtar, bandits",
        "the originals', classic control compared with Gymnasium",
        "a level for every environment",
        "animations",
    ),
    Peer(
        "[EnvPool](https://github.com/sail-sg/envpool)",
        "Atari, MuJoCo, Procgen, MiniGrid, BabyAI, Craftax and more, in C++",
        "the originals', compared with them",
        "a level for ended episodes",
        "a window, pictures",
    ),
)


@table(
    "readme-peers",
    f"{RESULTS}/bench_craft_symbolic.json",
    f"{RESULTS}/bench_craft_full.json",
    f"{RESULTS}/bench_doorkey.json",
    f"{RESULTS}/card/nvidia-h200-doorkey.json",
    f"{RESULTS}/bench_puzzles.json",
    f"{RESULTS}/bench_envpool.json",
)
def peers(*benches: dict[str, Any]) -> Table:
    """One row for each library."""
    craft, _, cpu, _, puzzles, envpool = (bench["versions"] for bench in benches)
    of_jax = craft["craftax"], cpu["navix"], cpu["xminigrid"], puzzles["jumanji"]
    versions = (*of_jax, "", envpool["envpool"])
    head = (
        "library",
        "worlds",
        "rules",
        "jaxenvs is faster by",
        "auto-reset generates",
        "search",
        "viewer",
    )
    search = "A*, Q*, beam, from both ends"
    rows = [[*OURS[:3], "-", OURS.reset, search, OURS.viewer]]
    for peer, version, factor in zip(PEERS, versions, _factors(*benches), strict=True):
        name = f"{peer.name} {version}".strip()
        rows.append([name, *peer[1:3], factor, peer.reset, "-", peer.viewer])
    return Table(head, rows)


def _factors(*benches: dict[str, Any]) -> list[str]:
    """The cell of each of `PEERS`."""
    craft, full, cpu, gpu, puzzles, envpool = map(turns, benches)
    doorkey, h200 = _at(cpu, CPU_BATCH), _at(gpu, GPU_BATCH)
    games = {  # with the observation that all contestants have
        "Classic": (_at(craft, CPU_BATCH), "exact"),
        "full game": (_at(full, CPU_BATCH), FLOATS),
    }

    def in_games(other: str) -> dict[str, str]:
        return {name: _times(group, ours, other) for name, (group, ours) in games.items()}

    return [
        _listed(in_games(OPTIMISTIC)),
        *(
            f"{_times(doorkey, 'auto', name)}; H200 {_times(h200, 'fresh', name, 'times_s')}"
            for name in ("NAVIX", "XLand-MiniGrid")
        ),
        f"{_span([_jumanji(group) for group in puzzles])} (four puzzles)",
        "not measured",
        _listed(
            {
                "grids": f"{_span([_per_core(group) for group in envpool])} per core",
                **in_games("EnvPool"),
            }
        ),
    ]


def _at(groups: list[Turns], num_envs: int) -> Turns:
    return next(group for group in groups if group.num_envs == num_envs)


def _times(group: Turns, ours: str, other: str, spent: str = "seconds") -> str:
    """How many times faster: in processor time, which load affects least, where it was measured."""
    rows = group.rows.get(ours, {}), group.rows.get(other, {})
    per_core = faster(*rows, "processor_seconds")
    return f"{ratio(per_core)} per core" if per_core else ratio(faster(*rows, spent))


def _listed(factors: dict[str, str]) -> str:
    """Factors with the place where each was measured; those that were not are left out."""
    return ", ".join(f"{factor} ({place})" for place, factor in factors.items() if factor)


def _jumanji(group: Turns) -> float | None:
    (ours,) = group.ours()
    return faster(group.rows[ours], group.rows["jumanji"])


def _per_core(group: Turns) -> float | None:
    """With the same observation, a dict."""
    ours = next(name for name in group.ours() if group.rows[name]["obs"] == "dict")
    return faster(group.rows[ours], group.rows["EnvPool"], "processor_seconds")


def _span(factors: list[float | None]) -> str:
    known = [factor for factor in factors if factor is not None]
    return f"{ratio(min(known))} to {ratio(max(known))}"
