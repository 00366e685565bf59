"""Ids of MiniGrid levels that jaxenvs does not have, with a message that explains why."""

from ..core.registry import absent

# Presets of MiniGrid 3.2's wave function collapse (`wfc.py`), an optional extra of MiniGrid.
WFC = (
    "MazeSimple",
    "DungeonMazeScaled",
    "RoomsFabric",
    "ObstaclesBlackdots",
    "ObstaclesAngular",
    "ObstaclesHogs3",
)
absent(
    [f"{package}-WFC-{name}-v0" for package in ("MiniGrid", "Grid") for name in WFC],
    "the six levels that MiniGrid makes by wave function collapse are not in jaxenvs; take the "
    "package itself, or other mazes (`jaxenvs list maze`)",
)
