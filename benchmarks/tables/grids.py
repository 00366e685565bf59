"""Steps per second of grid worlds on a CPU."""

from typing import Any

from .registry import RESULTS, table
from .text import Table, layout, ratio, whole
from .turns import ENVS, ID, factor, lead, speed, turns

JAX_PEERS = ("NAVIX", "XLand-MiniGrid")
_SPEEDS = {
    **ENVS,
    "jaxenvs (auto)": speed("auto"),
    "jaxenvs (pool)": speed("pool"),
    "NAVIX": speed("NAVIX"),
    "XLand-MiniGrid": speed("XLand-MiniGrid"),
    "minigrid": speed("minigrid"),
    "auto / better JAX peer": lambda group: ratio(lead(group, "auto", JAX_PEERS)),
    "auto / minigrid": factor("auto", "minigrid"),
}


@table("grids", f"{RESULTS}/bench.json")
def grids(bench: dict[str, Any]) -> Table:
    """Three levels, batches of three sizes."""
    return layout(turns(bench), {**ID, **_SPEEDS})


@table("doorkey", f"{RESULTS}/bench_doorkey.json")
def doorkey(bench: dict[str, Any]) -> Table:
    """DoorKey-8x8 with less beside it."""
    return layout(turns(bench), _SPEEDS)


@table("readme-speed", f"{RESULTS}/bench_doorkey.json")
def readme_speed(bench: dict[str, Any]) -> Table:
    """The same for README: what a newcomer compares."""
    columns = {
        "environments": lambda group: whole(group.num_envs),
        "jaxenvs": speed("auto"),
        "NAVIX": speed("NAVIX"),
        "XLand-MiniGrid": speed("XLand-MiniGrid"),
        "minigrid (NumPy)": speed("minigrid"),
        "jaxenvs / NAVIX": factor("auto", "NAVIX"),
        "/ XLand-MiniGrid": factor("auto", "XLand-MiniGrid"),
        "/ minigrid": factor("auto", "minigrid"),
    }
    return layout(turns(bench), columns)
