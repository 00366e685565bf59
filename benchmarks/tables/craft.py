"""Steps per second of Craft on a CPU, beside craftax and crafter."""

from .registry import RESULTS, of_turns
from .turns import ENVS, ID, compilation, factor, speed

OPTIMISTIC, PLAIN = "craftax (optimistic 16)", "craftax (no reset)"
_OURS = {"jaxenvs (exact)": "exact", "jaxenvs (no reset)": "none"}
_SPEEDS = {"jaxenvs (exact)": speed("exact"), OPTIMISTIC: speed(OPTIMISTIC)}
_RATIO = {"ratio": factor("exact", OPTIMISTIC)}
_COMPILATION = {"compilation": compilation("exact"), "of craftax": compilation(OPTIMISTIC)}
_PER_CORE = {"of processor time": factor("exact", OPTIMISTIC, "processor_seconds")}

of_turns(
    "craft-symbolic",
    f"{RESULTS}/bench_craft_symbolic.json",
    {
        **ENVS,
        **{name: speed(source) for name, source in _OURS.items()},
        **{name: speed(name) for name in (OPTIMISTIC, PLAIN, "crafter")},
        "exact / optimistic": factor("exact", OPTIMISTIC),
        "no reset / no reset": factor("none", PLAIN),
        "exact / crafter": factor("exact", "crafter"),
    },
)
of_turns(
    "craft-pixels",
    f"{RESULTS}/bench_craft_pixels.json",
    {**ENVS, **_SPEEDS, **_RATIO, **_COMPILATION},
)
for _name in ("full", "full-pixels"):
    of_turns(
        f"craft-{_name}",
        f"{RESULTS}/bench_craft_{_name.replace('-', '_')}.json",
        {**ID, **ENVS, **_SPEEDS, **_RATIO, **_PER_CORE, **_COMPILATION},
    )
of_turns(
    "craft-compilation",
    f"{RESULTS}/bench_craft_symbolic.json",
    {
        **ENVS,
        **{name: compilation(source) for name, source in _OURS.items()},
        **{name: compilation(name) for name in (OPTIMISTIC, PLAIN)},
    },
)
