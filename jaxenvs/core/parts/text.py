"""`TextPart`, a base class of `Env`: levels as text."""

import importlib
from typing import Any, ClassVar

from jaxtyping import Array, PyTree

from .part import Part


class TextPart(Part):
    """Members that read and write levels as text, see `jaxenvs.levels`."""

    # Module that reads and writes levels as text, imported when it is first used; "" if there is
    # none. It defines `FORMS`, `names(env)`, `read(env, block, strict)` and `write(env, level,
    # form)`, and optionally `block`, `split`, `layout`, `fields` and `mutate`; see the modules
    # `leveltext` of the families. The editor of levels also needs the functions that
    # `jaxenvs.levels.palette` lists.
    level_format: ClassVar[str] = ""
    # Module that finds shortest plans of levels, imported when it is first used; "" if there is
    # none. It defines `solve_levels`, and optionally `check`, `TAKES_STATES` and `first_actions`;
    # see `jaxenvs.levels.solving`.
    level_solver: ClassVar[str] = ""

    def read_level(self, text: str) -> PyTree[Array]:
        """Parse a level; raise `ValueError`, whose message gives the fault, line and column.

        The result is an argument of `reset_to`. `jaxenvs.levels.read` has more options.
        """
        return importlib.import_module("jaxenvs.levels").read(self, text)

    def level_text(self, level: Any) -> str:
        """Write a level, or a state, as text, in the format of `read_level`."""
        return importlib.import_module("jaxenvs.levels").write(self, level)
