"""Figures in README.md: a table of GPU speeds, a sentence on CPU speed, a table of libraries."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .card import COMMAND, Documents, faster, rows_of
from .cpu import FLOATS, OPTIMISTIC
from .registry import RESULTS, table
from .text import Table, ratio, short, whole
from .turns import CORE, OWN, Turns, turns
from .turns import faster as turns_faster

# Reset sources (where the levels of new episodes come from) that generate a level for each episode.
SOURCES = ("stock", "exact", "fresh", "auto")
CPU_BATCH, GPU_BATCH = 1_024, 65_536


class Line(NamedTuple):
    """A row of README's GPU table: its label, and the measurement that it shows.

    `job` is the name of a job of the benchmark command `card`.
    """

    label: str
    job: str
    # Entries (name -> value) of the rows to show; other rows of the job's results are left out.
    where: Mapping[str, Any]
    unit: str = "steps/s"
    others: Mapping[str, str] = {}  # name of another library's contestant -> label in the table


GRIDS = {"NAVIX": "NAVIX", "XLand-MiniGrid": "XLand-MiniGrid"}
CRAFTAX = {OPTIMISTIC: "craftax"}
LINES = (
    Line("MiniGrid, DoorKey-8x8", "doorkey", {"num_envs": 65_536}, others=GRIDS),
    Line("the same", "doorkey", {"num_envs": 1_048_576}, others=GRIDS),
    Line("BabyAI, GoToLocal", "babyai", {"id": "BabyAI-GoToLocal-v0", "num_envs": 65_536}),
    Line("XLand rule worlds, 13x13", "rules", {"num_envs": 4096}, others=GRIDS),
    Line(
        "Craftax-Classic, symbolic",
        "craft",
        {"id": "Craft-Classic-Symbolic-v0", "num_envs": 4096},
        others=CRAFTAX,
    ),
    Line("Craftax-Classic, ids", "craft", {"id": "Craft-Classic-Ids-v0", "num_envs": 65_536}),
    Line("Craftax, symbolic", "full-symbolic", {"num_envs": 4096}, others=CRAFTAX),
    Line("Craftax, ids", "full", {"num_envs": 65_536}),
    Line("PPO, trained on DoorKey-8x8", "training", {"id": "Grid-DoorKey-8x8-v0"}),
    Line("PPO, trained on Craftax-Classic", "training", {"id": "Craft-Classic-Ids-v0"}),
    Line("A* on the 15-puzzle", "puzzles", {"id": "Puzzle-SlidingTile-4x4-v0"}, "nodes/s"),
)


@table("readme-gpu", f"{RESULTS}/card/*.json", command=COMMAND)
def gpu(documents: Documents) -> Table:
    """Build README's GPU table: a row for each of `LINES`, from the newest file of its job.

    Lines that were not measured are left out.
    """
    rows = [cells for line in LINES if (cells := _line(line, documents))]
    devices = list(dict.fromkeys(row[0] for row in rows))
    head = ["GPU", "", "environments", "levels", "per second", "others on the same GPU"]
    if len(devices) == 1:  # if there is only one device, name it in the heading, not in every row
        head, rows = [f"one {devices[0]}", *head[2:]], [row[1:] for row in rows]
    return Table(head, rows)


def _line(line: Line, documents: Documents) -> list[str]:
    """Return the cells of a row of the table, or an empty list if the row was not measured."""
    made = [document for document in documents if document["job"] == line.job]
    for document in sorted(made, key=lambda document: document["date"], reverse=True):
        rows = [r for r in rows_of([document]) if line.where.items() <= r.items()]
        best = _ours(rows)
        if best:
            others = [
                f"{line.others[row['contestant']]} {short(_speed(row))} "
                f"({ratio(faster(best, row))} x)"
                for row in rows
                if row.get("contestant") in line.others
            ]
            return [
                document["device"],
                line.label,
                whole(best.get("num_envs")),
                best.get("reset_source") or "",
                f"{short(_speed(best))} {line.unit}",
                ", ".join(others),
            ]
    return []


def _ours(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the fastest of this library's rows, or None.

    Rows with a reset source that is not in `SOURCES` are ignored.
    """
    ours = [
        row
        for row in rows
        if row.get("contestant", OWN) == OWN and row.get("reset_source") in (*SOURCES, None)
    ]
    return max(ours, key=_speed, default=None)


def _speed(row: dict[str, Any]) -> float:
    return row.get("steps_per_second") or row["nodes_per_second"]


@table(
    "readme-cpu",
    f"{RESULTS}/bench_doorkey.json",
    f"{RESULTS}/bench_craft_symbolic.json",
    f"{RESULTS}/bench_craft_pixels.json",
)
def cpu(grid: dict[str, Any], craft: dict[str, Any], pictures: dict[str, Any]) -> str:
    """Return a sentence that compares 1,024 environments on a CPU with other packages.

    The packages are minigrid, crafter and craftax.
    """
    doorkey, symbolic, pixels = (_at(turns(file), CPU_BATCH) for file in (grid, craft, pictures))

    def times(group: Turns, ours: str, other: str) -> str:
        """Return how many times faster this library is, to two digits; more digits are noise."""
        found = turns_faster(group.rows[ours], group.rows[other])
        return "" if found is None else f"{float(f'{found:.2g}'):,.0f}"

    return (
        f"On {grid['cpus']} CPU cores 1,024 DoorKey-8x8 environments make "
        f"{short(_speed(doorkey.rows['auto']))} steps/s including resets, "
        f"{times(doorkey, 'auto', 'minigrid')} times the speed of minigrid in one process. 1,024 "
        f"Craft-Classic environments with symbolic observations make "
        f"{short(_speed(symbolic.rows['exact']))} steps/s with a new world for every episode, "
        f"{times(symbolic, 'exact', 'crafter')} times the speed of crafter; with pictures they "
        f"are {times(pixels, 'exact', OPTIMISTIC)} times the speed of craftax."
    )


class Peer(NamedTuple):
    """A row of the table of peers: an environment library, according to its docs and source."""

    name: str  # name as a Markdown link, with the version if the library was not measured
    worlds: str
    rules: str  # where the rules of its environments come from, and how they were checked
    reset: str  # which levels the auto-reset generates in one step of a batch
    viewer: str


OURS = Peer(
    "**jaxenvs**",
    "MiniGrid, BabyAI, XLand-MiniGrid, Craftax, Craftax-Classic, puzzles, PuzzleScript, "
    "classic control",
    "the originals', compared step by step",
    "a level for ended episodes, or for all environments where that is cheaper",
    "play, watch and take over from agents; animations, web replays",
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
    """Build a table that compares this library with others, one row for each library."""
    craft, _, doorkey, _, puzzles, envpool = (bench["versions"] for bench in benches)
    of_jax = craft["craftax"], doorkey["navix"], doorkey["xminigrid"], puzzles["jumanji"]
    versions = (*of_jax, "", envpool["envpool"])
    names = ("library", "environments", "rules", "jaxenvs is faster by", "auto-reset generates")
    head = (*names, "search", "viewer")
    search = "A*, Q*, beam, from both ends"
    rows = [[*OURS[:3], "-", OURS.reset, search, OURS.viewer]]
    for peer, version, factor in zip(PEERS, versions, _factors(*benches), strict=True):
        name = f"{peer.name} {version}".strip()
        rows.append([name, *peer[1:3], factor, peer.reset, "-", peer.viewer])
    return Table(head, rows)


def _factors(*benches: dict[str, Any]) -> list[str]:
    """Return the cells of the column `jaxenvs is faster by`, one for each of `PEERS`."""
    craft, full, cpu, gpu, puzzles, envpool = map(turns, benches)
    doorkey, h200 = _at(cpu, CPU_BATCH), _at(gpu, GPU_BATCH)
    # Name of the game -> a pair: the rows that were measured in turns at one batch size, and the
    # name of this library's row with the peers' observation.
    games = {
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
    """Return how many times faster row `ours` is than row `other`, as text.

    If both rows have CPU times, the result is `N per core`, the ratio of CPU times: they depend
    less on the machine's load. Otherwise the result is the ratio of the times in the entry `spent`.
    """
    rows = group.rows.get(ours, {}), group.rows.get(other, {})
    per_core = turns_faster(*rows, CORE)
    return f"{ratio(per_core)} per core" if per_core else ratio(turns_faster(*rows, spent))


def _listed(factors: dict[str, str]) -> str:
    """Return the measured speed-ups as text: `2.5 (Classic), 3.1 (full game)`."""
    return ", ".join(f"{factor} ({place})" for place, factor in factors.items() if factor)


def _jumanji(group: Turns) -> float | None:
    (ours,) = group.ours()
    return turns_faster(group.rows[ours], group.rows["jumanji"])


def _per_core(group: Turns) -> float | None:
    """Return the ratio of CPU times of EnvPool and this library, both with dict observations."""
    ours = next(name for name in group.ours() if group.rows[name]["obs"] == "dict")
    return turns_faster(group.rows[ours], group.rows["EnvPool"], CORE)


def _span(factors: list[float | None]) -> str:
    known = [factor for factor in factors if factor is not None]
    return f"{ratio(min(known))} to {ratio(max(known))}"
