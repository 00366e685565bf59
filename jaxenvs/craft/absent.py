"""Ids of craftax 1.6.1 (`craftax_env.py`) without a counterpart: `make_vec` replaces them."""

from ..core.registry import absent

for _game in ("Craftax-Classic", "Craftax"):
    for _obs in ("Symbolic", "Pixels"):
        absent(
            [f"{_game}-{_obs}-AutoReset-v1"],
            "here it is batches that reset themselves; make "
            f"jaxenvs.make_vec('{_game}-{_obs}-v1', num_envs)",
        )
