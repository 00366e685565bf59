"""The ids of craftax 1.6.1 that are not here (`craftax_env.py`)."""

from ..core.registry import absent

for _game in ("Craftax-Classic", "Craftax"):
    for _obs in ("Symbolic", "Pixels"):
        absent(
            [f"{_game}-{_obs}-AutoReset-v1"],
            "here it is batches that reset themselves; make "
            f"jaxenvs.make_vec('{_game}-{_obs}-v1', num_envs)",
        )
