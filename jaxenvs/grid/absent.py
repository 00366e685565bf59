"""The levels of MiniGrid that are not here."""

from ..core.registry import absent

# MiniGrid 3.2's presets of wave function collapse (`wfc.py`), which its package has as an extra.
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
