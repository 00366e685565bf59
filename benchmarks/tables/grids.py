"""Steps per second of grid worlds on a CPU."""

from collections.abc import Callable
from typing import Any

from .registry import RESULTS, of_turns, table
from .text import Column, Table, ratio, tabulated
from .turns import ENVS, ID, Turns, conditions, factor, lead, speed, turns

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
_PER_CORE = {
    f"{before}{name}": factor("auto", name, "processor_seconds")
    for before, name in zip(("per core: auto / ", "auto / "), JAX_PEERS, strict=True)
}


of_turns("grids", f"{RESULTS}/bench.json", {**ID, **_SPEEDS})
of_turns("doorkey", f"{RESULTS}/bench_doorkey.json", {**_SPEEDS, **_PER_CORE}, dated=True)


@table(
    "envpool",
    f"{RESULTS}/bench_envpool.json",
    command="jaxenvs bench --ids Grid-DoorKey-8x8-v0 Grid-KeyCorridorS3R3-v0 BabyAI-GoToLocal-v0 "
    "BabyAI-BossLevel-v0 --batches 1024 --obs image dict",
)
def envpool(bench: dict[str, Any]) -> Table:
    """Ours with two observations beside a C++ engine, which returns the dict."""

    def ours(obs: str, column: Callable[[str], Column]) -> Column:
        def cell(group: Turns) -> str:
            names = [name for name in group.ours() if group.rows[name]["obs"] == obs]
            return column(names[0])(group) if names else ""

        return cell

    def per_core(name: str) -> Column:
        return factor(name, "EnvPool", "processor_seconds")

    columns = {
        **ID,
        **ENVS,
        "jaxenvs (image)": ours("image", speed),
        "jaxenvs (dict)": ours("dict", speed),
        "EnvPool": speed("EnvPool"),
        "minigrid": speed("minigrid"),
        "per core: image / EnvPool": ours("image", per_core),
        "dict / EnvPool": ours("dict", per_core),
    }
    return tabulated(turns(bench), columns)._replace(note=conditions(bench))
