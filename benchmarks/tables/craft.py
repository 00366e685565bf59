"""Steps per second of Craft on a CPU, beside craftax and crafter."""

from typing import Any

from .registry import RESULTS, table
from .text import Table, tabulated
from .turns import ENVS, ID, compilation, factor, speed, turns

OPTIMISTIC, PLAIN = "craftax (optimistic 16)", "craftax (no reset)"
_OURS = {"jaxenvs (exact)": "exact", "jaxenvs (no reset)": "none"}


@table("craft-symbolic", f"{RESULTS}/bench_craft_symbolic.json")
def symbolic(bench: dict[str, Any]) -> Table:
    """The symbolic view, with and without resets."""
    columns = {
        **ENVS,
        **{name: speed(source) for name, source in _OURS.items()},
        **{name: speed(name) for name in (OPTIMISTIC, PLAIN, "crafter")},
        "exact / optimistic": factor("exact", OPTIMISTIC),
        "no reset / no reset": factor("none", PLAIN),
        "exact / crafter": factor("exact", "crafter"),
    }
    return tabulated(turns(bench), columns)


@table("craft-pixels", f"{RESULTS}/bench_craft_pixels.json")
def pixels(bench: dict[str, Any]) -> Table:
    """Pictures."""
    columns = {
        **ENVS,
        "jaxenvs (exact)": speed("exact"),
        OPTIMISTIC: speed(OPTIMISTIC),
        "ratio": factor("exact", OPTIMISTIC),
        "compilation": compilation("exact"),
        "of craftax": compilation(OPTIMISTIC),
    }
    return tabulated(turns(bench), columns)


@table("craft-full", f"{RESULTS}/bench_craft_full.json")
def full(bench: dict[str, Any]) -> Table:
    """The whole game: per second, per second of processor time, and compilation."""
    columns = {
        **ID,
        **ENVS,
        "jaxenvs (exact)": speed("exact"),
        OPTIMISTIC: speed(OPTIMISTIC),
        "ratio": factor("exact", OPTIMISTIC),
        "of processor time": factor("exact", OPTIMISTIC, "processor_seconds"),
        "compilation": compilation("exact"),
        "of craftax": compilation(OPTIMISTIC),
    }
    return tabulated(turns(bench), columns)


@table("craft-compilation", f"{RESULTS}/bench_craft_symbolic.json")
def compiled(bench: dict[str, Any]) -> Table:
    """Seconds of compilation of the symbolic rollouts."""
    ours = {name: compilation(source) for name, source in _OURS.items()}
    theirs = {name: compilation(name) for name in (OPTIMISTIC, PLAIN)}
    return tabulated(turns(bench), {**ENVS, **ours, **theirs})
