"""Presets of the learners for puzzles. docs/learners/ has measured results."""

from ..core.preset import EIGHT_PUZZLE, rows

# Settings for puzzles with too many boards for a small network. They are meant for a GPU: batches
# of EfficientCube's size, and a network of about 10 M weights.
DEEP = {"walks": 1000, "width": 1500, "blocks": 2, "total_steps": 2_000_000_000}

PRESETS = (
    *rows(
        "davi",
        (r"Puzzle-Cube-2x2-v\d+", {"total_steps": 8_000_000, "target_every": 4}),
        (r"Puzzle-Cube-3x3-.*", {**DEEP, "scramble": 30}),
        # DeepCubeA's walks. They are long, so a gradient step has fewer of them.
        (r"Puzzle-SlidingTile-5x5-.*", {**DEEP, "scramble": 500, "walks": 100, "target_every": 2}),
    ),
    *rows(
        "last-move",
        (r"Puzzle-Cube-2x2-.*", {"total_steps": 8_000_000, "scramble": 14}),
        (r"Puzzle-Cube-3x3-.*", {**DEEP, "scramble": 26}),
        (r"Puzzle-SlidingTile-4x4-.*", {"scramble": 60}),
        (r"Puzzle-SlidingTile-5x5-.*", {**DEEP, "scramble": 200}),
    ),
    *rows(
        "world",
        (r"Puzzle-.*", {"total_steps": 5_000, "model_share": 0.4}),
        (EIGHT_PUZZLE, {"transitions": 20_000, "hidden": 32, "views": 3, "width": 96}),
        (r"Puzzle-SlidingTile-4x4-v\d+", {"scramble": 30, "walks": 24}),
        (r"Puzzle-Cube-.*", {"bits": 6, "views": 2, "scramble": 14, "walks": 24}),
        (r"Puzzle-LightsOut-.*", {"bits": 2, "views": 1, "scramble": 16, "walks": 12}),
        (r"Puzzle-Sokoban-.*", {"bits": 6, "views": 6, "model_share": 0.8}),
    ),
)
