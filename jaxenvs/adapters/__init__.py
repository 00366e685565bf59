"""Adapters to the interfaces of other packages; each package is imported at its first use.

env = jaxenvs.adapters.to_gymnasium("Grid-DoorKey-8x8-v0")
"""

import importlib
from typing import TYPE_CHECKING, Any

from ..core.typed import installation

if TYPE_CHECKING:
    from .dm_env import to_dm_env
    from .gymnasium import register_in_gymnasium, to_gymnasium
    from .gymnasium_vec import to_gymnasium_vec
    from .gymnax import to_gymnax
    from .mctx import mctx_recurrent_fn, mctx_root_fn
    from .pytorch import to_torch_vec
    from .sb3 import to_sb3_vec

_HOMES = {
    "mctx_recurrent_fn": "mctx",
    "mctx_root_fn": "mctx",
    "register_in_gymnasium": "gymnasium",
    "to_dm_env": "dm_env",
    "to_gymnasium": "gymnasium",
    "to_gymnasium_vec": "gymnasium_vec",
    "to_gymnax": "gymnax",
    "to_sb3_vec": "sb3",
    "to_torch_vec": "pytorch",
}
_PACKAGES = {  # module of this folder -> (package that it imports, extra that installs the package)
    "dm_env": ("dm_env", "dm"),
    "gymnasium": ("gymnasium", "gym"),
    "gymnasium_vec": ("gymnasium", "gym"),
    "gymnax": ("gymnax", "gymnax"),
    "mctx": ("mctx", "search"),
    "pytorch": ("torch", "torch"),
    "sb3": ("stable_baselines3", "sb3"),
}
__all__ = [
    "mctx_recurrent_fn",
    "mctx_root_fn",
    "register_in_gymnasium",
    "to_dm_env",
    "to_gymnasium",
    "to_gymnasium_vec",
    "to_gymnax",
    "to_sb3_vec",
    "to_torch_vec",
]


def __getattr__(name: str) -> Any:
    """Import an adapter when it is first used.

    Raises `ImportError` if the adapter's package is missing. The message names the extra of jaxenvs
    that installs the package.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    package, extra = _PACKAGES[home]
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"jaxenvs.adapters.{name} needs {package}, which cannot be imported here ({error}): "
            f"run {installation(extra)}"
        ) from error
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
