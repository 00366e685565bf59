"""`TextPart`, a base class of `Env`: levels as text."""

import importlib
from typing import Any, ClassVar

from jaxtyping import Array, PyTree

from .part import Part


class TextPart(Part):
    """Members that read and write levels as text, see `jaxenvs.levels`."""

    # Name of the module that reads and writes levels as text, such as "jaxenvs.xland.leveltext"; ""
    # if there is none. It is imported at its first use. It must define `FORMS`, the names of its
    # formats, and the functions `names(env)`, `read(env, block, strict)` and
    # `write(env, level, form)`. It may define `block`, `split`, `layout`, `fields` and `mutate`.
    # `jaxenvs.levels.api` calls these functions. For the editor of levels, the module must also
    # define the functions that `jaxenvs.levels.palette` lists.
    level_format: ClassVar[str] = ""
    # Name of the module that finds shortest plans of levels; "" if there is none. It is imported at
    # its first use. It must define `solve_levels`, and may define `check`, `TAKES_STATES` and
    # `first_actions`; see `jaxenvs.levels.solving`.
    level_solver: ClassVar[str] = ""

    def read_level(self, text: str) -> PyTree[Array]:
        """Parse the text of a level, and return the level for `reset_to`.

        Raises `ValueError` for a bad text; the message gives the fault, line and column.
        `jaxenvs.levels.read` has more options.
        """
        return importlib.import_module("jaxenvs.levels").read(self, text)

    def level_text(self, level: Any) -> str:
        """Write a level, or a state, as text, in the format of `read_level`."""
        return importlib.import_module("jaxenvs.levels").write(self, level)
