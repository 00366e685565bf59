"""Ids of Craftax 1.6.1 that have no counterpart here: `make` raises an error for them.

They are Craftax's automatically resetting environments; the error says to call `make_vec` instead.
"""

from ..core.registry import absent

for _game in ("Craftax-Classic", "Craftax"):
    for _obs in ("Symbolic", "Pixels"):
        absent(
            [f"{_game}-{_obs}-AutoReset-v1"],
            "here it is batches that reset themselves; make "
            f"jaxenvs.make_vec('{_game}-{_obs}-v1', num_envs)",
        )
