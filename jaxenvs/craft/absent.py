"""Ids of Craftax 1.6.1 that have no counterpart here; an error names what to use instead.

Craftax's automatically resetting environments (`craftax_env.py`) are replaced by `make_vec`.
"""

from ..core.registry import absent

for _game in ("Craftax-Classic", "Craftax"):
    for _obs in ("Symbolic", "Pixels"):
        absent(
            [f"{_game}-{_obs}-AutoReset-v1"],
            "here it is batches that reset themselves; make "
            f"jaxenvs.make_vec('{_game}-{_obs}-v1', num_envs)",
        )
