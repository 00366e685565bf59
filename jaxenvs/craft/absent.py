"""Environment ids of Craftax 1.6.1 that `make` rejects with an error.

In Craftax, the environments with these ids reset themselves. Here only batches reset themselves, so
the error says to call `make_vec`.
"""

from ..core.registry import absent

for _game in ("Craftax-Classic", "Craftax"):
    for _obs in ("Symbolic", "Pixels"):
        absent(
            [f"{_game}-{_obs}-AutoReset-v1"],
            "here it is batches that reset themselves; make "
            f"jaxenvs.make_vec('{_game}-{_obs}-v1', num_envs)",
        )
