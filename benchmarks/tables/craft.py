"""Steps per second of Craft on a CPU, beside craftax, EnvPool and crafter."""

from .registry import RESULTS, of_turns
from .turns import ENVS, ID, compilation, factor, speed

OPTIMISTIC, PLAIN = "craftax (optimistic 16)", "craftax (no reset)"
BYTES, FLOATS = "exact", "exact, symbolic"  # our rows in the whole game
_CPU = "processor_seconds"
_OURS = {"jaxenvs (exact)": "exact", "jaxenvs (no reset)": "none"}
_SPEEDS = {"jaxenvs (exact)": speed("exact"), OPTIMISTIC: speed(OPTIMISTIC)}
_RATIO = {"ratio": factor("exact", OPTIMISTIC)}
_COMPILATION = {"compilation": compilation("exact"), "of craftax": compilation(OPTIMISTIC)}

of_turns(
    "craft-symbolic",
    f"{RESULTS}/bench_craft_symbolic.json",
    {
        **ENVS,
        **{name: speed(source) for name, source in _OURS.items()},
        **{name: speed(name) for name in (OPTIMISTIC, PLAIN, "EnvPool", "crafter")},
        "exact / optimistic": factor("exact", OPTIMISTIC),
        "no reset / no reset": factor("none", PLAIN),
        "exact / crafter": factor("exact", "crafter"),
        "per core: exact / optimistic": factor("exact", OPTIMISTIC, _CPU),
        "exact / EnvPool": factor("exact", "EnvPool", _CPU),
    },
    dated=True,
)
of_turns(
    "craft-pixels",
    f"{RESULTS}/bench_craft_pixels.json",
    {**ENVS, **_SPEEDS, **_RATIO, **_COMPILATION},
)
of_turns(
    "craft-full",
    f"{RESULTS}/bench_craft_full.json",
    {
        **ENVS,
        "jaxenvs (bytes)": speed(BYTES),
        "jaxenvs (symbolic)": speed(FLOATS),
        **{name: speed(name) for name in (OPTIMISTIC, "EnvPool")},
        "bytes / optimistic": factor(BYTES, OPTIMISTIC),
        "per core: bytes / optimistic": factor(BYTES, OPTIMISTIC, _CPU),
        "symbolic / optimistic": factor(FLOATS, OPTIMISTIC, _CPU),
        "bytes / EnvPool": factor(BYTES, "EnvPool", _CPU),
        "symbolic / EnvPool": factor(FLOATS, "EnvPool", _CPU),
        **_COMPILATION,
    },
    dated=True,
)
of_turns(
    "craft-full-pixels",
    f"{RESULTS}/bench_craft_full_pixels.json",
    {
        **{**ID, **ENVS, **_SPEEDS, **_RATIO},
        "of processor time": factor("exact", OPTIMISTIC, _CPU),
        **_COMPILATION,
    },
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
