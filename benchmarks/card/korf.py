"""A hundred 15-puzzles of R. Korf, with the lengths of their shortest solutions.

The puzzles are from "Depth-first iterative-deepening", Artificial Intelligence 27 (1985). The
lengths were recomputed with IDA*. Korf's goal has the blank first; the goal of this library has the
blank last. The boards are therefore rotated by 180 degrees, and every number n is replaced by
16 - n. Solutions stay equally long.
"""

from typing import NamedTuple


class Level(NamedTuple):
    """A start board and the number of moves in its shortest solutions."""

    numbers: tuple[int, ...]  # numbers on the board, row by row; 0 is the blank
    optimal: int


# Each entry is a board, row by row in hexadecimal digits, and the number of moves in a shortest
# solution. The puzzles that are easiest for IDA* come first.
_TEXT = """
    ecfa1d463720859b 53, 5ae46cb190f7d283 41, 01f69a43e8cb572d 46, 16a8ec42db3597f0 42,
    13560de9b48ca7f2 45, 23c8dea167f4509b 44, 457c9e03bd812f6a 47, 2bf0314e76d9ac58 49,
    1382dc9fe7456b0a 45, 61f85ad03427e9bc 42, d504a3c6ef189b27 44, b46efd907a815c32 56,
    156b90cdef84a273 46, 6e4b73cf1a02d859 46, 4f189cab2e305d76 49, 150db284a7ef639c 44,
    62975edacb0f3184 50, 573609db8c2fae14 47, 10c8249f6b75ed3a 45, d70ea8361245f9cb 50,
    2f4e58b607193adc 50, 35740ecdf981b62a 49, 6b80d3547cae219f 49, 14027d6fcbe3895a 52,
    509db7631e42fac8 49, 3e65ab8fc014972d 51, 3e497d562fac810b 51, 958743cf2106ebad 46,
    9851e6d70fbc4a23 52, 27f01b35ac46ed89 47, 9e2c6f81bda54703 53, 09c45328a176bedf 42,
    5f9e064b781ca32d 53, 8392015ae6bcf7d4 49, 31f695ce2bd8a074 50, 08ef1ab547d6329c 56,
    f1a2dc89706e53b4 53, 2d9f61e8043c7a5b 50, e8359ba4d12f6c07 49, a510f9de28476cb3 55,
    0bfc682e1793d54a 52, 3c06be581ad47f92 52, 2fb76c054da3e819 53, 96f2b73aec08d154 50,
    4a35b96d2cf1e087 54, 98b5d6f17a24ce30 54, 589413e7dfba60c2 48, 4b97ad352f01c8e6 56,
    d945683e7c2f1b0a 53, 3bd8e9c5671f420a 55, 7c125a08eb643fd9 51, 6b2e5873f1d9c0a4 52,
    1d9c42a8fe0365b7 52, e972acf6bd438105 57, d68cfe0ab7459132 57, 4b3d827a160f9ec5 52,
    08b94eadc67f3215 64, e73d16fb09c5a284 54, 659073bc81ed24af 55, 8a17d39e064c2fb5 54,
    9cb42ef0a1d57638 54, f27ad9cb13e68054 56, 4eba10278d36c9f5 54, 0a1e574b86fc32d9 54,
    c4e9532fb7a0d861 57, 89fc4e6073a51bd2 60, a7cd3fe80251964b 56, cde23a17b60549f8 58,
    82dfa354be760c19 57, f5e10c8649da237b 57, 5b9c3647d0ae18f2 53, bf691d8537e204ac 57,
    dbea40c319f25768 56, 17efd2943b6a80c5 54, ec53da7bf2409681 55, f76c1345da8902eb 51,
    5963728eba0c4df1 52, 7342b0165ad8cef9 50, fe4b2adc69107853 59, 40e137cd62b5f8a9 59,
    5ecfa76082314d9b 58, f6382b5ac41079ed 57, b7315c2fea9d4086 56, a4e03695bc81f7d2 59,
    ad87ef9302bc6514 56, 02d7f6849ac3b15e 52, 06d9e2ba178f4c53 62, c038fad56412eb97 57,
    d3be7c8450f69a21 57, 1fad0b47c653e892 59, a3c912687feb4d50 54, ab5d9fe068c13472 64,
    15df094e8ba3c762 59, 86230f749ca5be1d 55, 0cb14ad95873fe62 62, 08a6b791c4def325 66,
    46ed78b93af5c021 66, 82d197354afbce06 59, ec9736081fbd42a5 61, ca6098dfb73254e1 65
"""


def _read(text: str) -> tuple[Level, ...]:
    rows = (row.split() for row in text.split(","))
    return tuple(Level(tuple(int(n, 16) for n in board), int(best)) for board, best in rows)


LEVELS = _read(_TEXT)
