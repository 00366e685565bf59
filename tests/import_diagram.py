"""Diagram of the imports between packages, for CONTRIBUTING.md, as Mermaid text.

python tests/import_diagram.py           prints it
python tests/import_diagram.py --write   writes it into CONTRIBUTING.md

An arrow from A to B means that A imports B. An arrow is left out if B can also be reached from A
through other arrows. A dotted arrow from A to B means that a string in A names a module of B, which
A imports only when it is needed. There is no dotted arrow if solid arrows lead from A to B. Dotted
arrows may close a cycle.
"""

import graphlib
import sys
from pathlib import Path

from imports import ROOT, Import, all_imports, all_named, sources
from test_packaging import BUILT_ON, WORLDS

PAGE = ROOT / "CONTRIBUTING.md"
# Families of environments that import another family, or that another family imports. All remaining
# families share one node, so a new family that imports only `jaxenvs.core` adds none.
LINKED = {*BUILT_ON, *(used for families in BUILT_ON.values() for used in families)} & WORLDS
BEGIN, END = "<!-- imports: python tests/import_diagram.py --write -->", "<!-- end of imports -->"


def packages() -> dict[str, str]:
    """Return module name -> node of the diagram, for all modules of the distribution."""
    return {name.removesuffix(".__init__"): node_of(name, path) for name, path in sources()}


def node_of(module: str, path: Path) -> str:
    """Return the node to which a module belongs: its package, or a name for single modules.

    For example `jaxenvs.core` for `jaxenvs.core.env`, and `baselines.core` for
    `jaxenvs.baselines.core.rollouts`.
    """
    parts = path.relative_to(ROOT).parts
    if parts[0] == "jaxenvs":
        if len(parts) == 2:
            return "jaxenvs"
        if parts[1] in WORLDS - LINKED:
            return "other families"
        return f"family {parts[1]}" if parts[1] in LINKED else f"jaxenvs.{parts[1]}"
    if len(parts) > 2:
        return f"{parts[0]}.{parts[1]}"
    if parts[0] == "baselines":
        return "baselines.old_names" if parts[1] == "old_names.py" else "baselines.registry"
    return parts[0]


def graph(imports: list[Import]) -> dict[str, set[str]]:
    """Return a dict from each node to the nodes that it imports."""
    nodes = packages()
    found: dict[str, set[str]] = {node: set() for node in nodes.values()}
    for one in imports:
        target = nodes.get(one.target) or nodes.get(one.target.rpartition(".")[0])
        node = nodes[one.module.removesuffix(".__init__")]
        if target and target != node:
            found[node].add(target)
    return found


def reached(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the nodes that each node reaches through one or more arrows.

    Raises `CycleError` if the graph has a cycle.
    """
    reach: dict[str, set[str]] = {}
    for node in graphlib.TopologicalSorter(found).static_order():
        reach[node] = found[node].union(*(reach[each] for each in found[node]))
    return reach


def reduced(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Drop each arrow from A to B if other arrows also lead from A to B; return the graph.

    Raises `CycleError` if the graph has a cycle.
    """
    reach = reached(found)
    return {
        node: {each for each in direct if not any(each in reach[other] for other in direct)}
        for node, direct in found.items()
    }


def diagram() -> str:
    """Return the diagram as a Mermaid code block in Markdown."""
    lines = ["```mermaid", "graph BT"]
    imports = graph(all_imports(types=False))
    reach, named = reached(imports), graph(all_named())
    for node, targets in sorted(reduced(imports).items()):
        lines += [f'  {_id(node)}["{node}"] --> {_id(each)}["{each}"]' for each in sorted(targets)]
        late = sorted(named[node] - reach[node])
        lines += [f'  {_id(node)}["{node}"] -.-> {_id(each)}["{each}"]' for each in late]
    return "\n".join([*lines, "```"])


def _id(node: str) -> str:
    return node.replace(".", "_").replace(" ", "_")


def written(page: str) -> str:
    """Return the page with the diagram between its marks replaced by the current one."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE.name} lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
    else:
        print(diagram())
