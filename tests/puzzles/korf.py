"""Ten 15-puzzles of R. Korf, "Depth-first iterative-deepening", Artificial Intelligence 27 (1985).

Korf's goal has the blank in the first cell, and the goal here has it in the last cell. Each of
Korf's boards is therefore rotated by 180 degrees, and number n becomes 16 - n. The length of the
solutions stays the same; an IDA* search confirmed it.
"""

from typing import NamedTuple


class Instance(NamedTuple):
    """A board, the length of its shortest solutions, and a lower bound on this length."""

    board: tuple[int, ...]  # numbers on the board, row by row; 0 is the blank
    optimal: int  # number of moves in a shortest solution
    bound: int  # the lower bound: Manhattan distance with linear conflict


INSTANCES = (
    Instance((13, 6, 8, 12, 15, 14, 0, 10, 11, 7, 4, 5, 9, 1, 3, 2), 57, 43),
    Instance((10, 5, 1, 0, 15, 9, 13, 14, 2, 8, 4, 7, 6, 12, 11, 3), 55, 43),
    Instance((1, 15, 10, 13, 0, 11, 4, 7, 12, 6, 5, 3, 14, 8, 9, 2), 59, 41),
    Instance((10, 7, 12, 13, 3, 15, 14, 8, 0, 2, 5, 1, 9, 6, 4, 11), 56, 42),
    Instance((0, 8, 14, 15, 1, 10, 11, 5, 4, 7, 13, 6, 3, 2, 9, 12), 56, 44),
    Instance((3, 12, 0, 6, 11, 14, 5, 8, 1, 10, 13, 4, 7, 15, 9, 2), 52, 40),
    Instance((0, 2, 13, 7, 15, 6, 8, 4, 9, 10, 12, 3, 11, 1, 5, 14), 52, 30),
    Instance((9, 6, 15, 2, 11, 7, 3, 10, 14, 12, 0, 8, 13, 1, 5, 4), 50, 36),
    Instance((0, 1, 15, 6, 9, 10, 4, 3, 14, 8, 12, 11, 5, 7, 2, 13), 46, 36),
    Instance((15, 14, 4, 11, 2, 10, 13, 12, 6, 9, 1, 0, 7, 8, 5, 3), 59, 45),
)
