"""The ids of craftax 1.6.1 that are not here (`craftax_env.py`)."""

from ..core.registry import absent

for _obs in ("Symbolic", "Pixels"):
    absent(
        [f"Craftax-{_obs}-v1", f"Craftax-{_obs}-AutoReset-v1"],
        "of craftax, jaxenvs has the classic game and not the full one; make "
        f"'Craftax-Classic-{_obs}-v1', or take the package itself",
    )
    absent(
        [f"Craftax-Classic-{_obs}-AutoReset-v1"],
        "here it is batches that reset themselves; make "
        f"jaxenvs.make_vec('Craftax-Classic-{_obs}-v1', num_envs)",
    )
