"""Table of the benchmark commands; a command's purpose is the first line of its docstring."""

from .registry import table
from .text import Table

BENCH = "throughput"  # module of the command `jaxenvs bench`, which the table lists first


@table("commands", "benchmarks/*.py", "benchmarks/*/__main__.py")
def commands(modules: list[dict[str, str]], packages: list[dict[str, str]]) -> Table:
    """Build a table of the commands (modules with a function `main`) and their purposes."""
    every = (*modules, *packages)
    found = [m for m in every if "def main(" in m["source"] and m["name"] != "benchmarks"]
    rows = []
    for module in sorted(found, key=lambda module: (module["name"] != BENCH, module["name"])):
        name = "jaxenvs bench" if module["name"] == BENCH else module["name"]
        rows.append((f"`{name}`", module["summary"].removesuffix(".")))
    return Table(("`NAME`", "purpose"), rows)
