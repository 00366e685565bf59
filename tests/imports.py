"""Find the imports between the modules of the distribution, for the tests of imports."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# Folders next to `jaxenvs/`; symbolic links in `jaxenvs/` make them subpackages.
OUTSIDE = ("baselines", "benchmarks", "render")


class Import(NamedTuple):
    """One import statement by which a module of this distribution imports another."""

    module: str  # dotted name of the importing module
    line: int
    target: str  # dotted name of the imported module or member


def sources() -> Iterator[tuple[str, Path]]:
    """Yield the installed name and the path of every module of the distribution."""
    for folder in ("jaxenvs", *OUTSIDE):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts if folder == "jaxenvs" else ("jaxenvs", *parts)), path


def imports_of(module: str, tree: ast.Module) -> Iterator[Import]:
    """Yield a module's imports of this distribution, also those inside functions.

    Relative imports are resolved to absolute names.
    """
    for node in ast.walk(tree):
        for target in _targets(module, node):
            if target.split(".")[0] == "jaxenvs":
                yield Import(module, node.lineno, target)


def named_in(module: str, tree: ast.Module) -> Iterator[Import]:
    """Yield an `Import` for each string in which a module names a module of this distribution.

    Such names are imported later. A string may be a full name ("jaxenvs.render.play") or a relative
    name ("..run.loop"), which is resolved from the module's package or from `jaxenvs.baselines`.
    Names that are built at run time, for example by an f-string, are not found.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            known = [name for name in _full_names(module, node.value) if name in modules()]
            if known:
                yield Import(module, node.lineno, known[0])


def _full_names(module: str, name: str) -> list[str]:
    """Return the full names of the modules that the string `name` in a module may refer to."""
    rest = name.lstrip(".")
    if not re.fullmatch(r"\w+(\.\w+)*", rest):
        return []
    if level := len(name) - len(rest):
        return [".".join([*module.split(".")[:-level], rest]), f"jaxenvs.baselines.{rest}"]
    # Ignore the string "jaxenvs.baselines". It does not name a module to import, but the package
    # from which relative names are resolved.
    return [name] if name.startswith("jaxenvs.") and name != "jaxenvs.baselines" else []


@functools.cache
def modules() -> frozenset[str]:
    """Return the names by which modules and packages of the distribution are imported."""
    return frozenset(name.removesuffix(".__init__") for name, _ in sources())


def _targets(module: str, node: ast.AST) -> list[str]:
    """Return the dotted names of all modules and members that an import statement may load."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = module.split(".")[: -node.level] if node.level else []
        base += node.module.split(".") if node.module else []
        return [".".join([*base, alias.name]) for alias in node.names]
    return []


class WithoutTypeOnly(ast.NodeTransformer):
    """AST transformer that drops `if TYPE_CHECKING:` blocks, which never run."""

    def visit_If(self, node: ast.If) -> Any:
        return None if getattr(node.test, "id", "") == "TYPE_CHECKING" else node


def all_imports(types: bool = True) -> list[Import]:
    """Return all imports of this distribution; `types` includes those for type checkers only."""
    parsed = ((module, ast.parse(path.read_text())) for module, path in sources())
    if not types:
        parsed = ((module, WithoutTypeOnly().visit(tree)) for module, tree in parsed)
    return [found for module, tree in parsed for found in imports_of(module, tree)]


def all_named() -> list[Import]:
    """Return an `Import` for each string by which a module names another module."""
    return [
        found
        for module, path in sources()
        for found in named_in(module, ast.parse(path.read_text()))
    ]
