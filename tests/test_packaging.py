"""Tests of the distribution: imports between packages, cost of an import, shipped files."""

import ast
import fnmatch
import functools
import graphlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import setuptools
from imports import OUTSIDE, ROOT, Import, all_imports, imports_of, sources

import jaxenvs
from jaxenvs import registry

EXTRAS = {"cuda", "train", "play", "web", "widget", "search", "gym", "gymnax", "dm", "ray", "docs"}
EXTRAS |= {"export", "minigrid", "notebooks", "sb3", "tensorboard", "wandb", "test", "dev", "all"}
EXTRAS |= {"bench", "demos", "mcp", "openenv", "torch"}

WORLDS = {home.removeprefix("jaxenvs.") for home in jaxenvs.registry.homes()}
# Family -> other packages that it may import: families, or `search`.
BUILT_ON = {
    "babyai": {"grid"},
    "grid": {"puzzles", "search"},  # its oracle uses both
    "puzzlescript": {"puzzles"},
    "xland": {"puzzles", "search"},  # its solver uses both
}
TABLE = "jaxenvs.commands.table"  # module that names the modules of all commands
LIBRARY = {"core", "demos", "levels", *WORLDS, "search", "adapters", "testing"}
# Unit of the package -> other units that it may import. A unit is a folder; modules outside the
# named folders form the unit "".
ARROWS = {
    "core": set(),
    "demos": {"core"},
    "levels": {"core"},
    **{world: {"core", "levels", *BUILT_ON.get(world, ())} for world in WORLDS},
    "search": {"core", "levels", *WORLDS},
    "adapters": {"core", *WORLDS, "search"},
    "testing": {"core"},
    "commands": {"", *LIBRARY},
    "agents": {"", "commands", "render", *LIBRARY},
    "": {"commands", *LIBRARY},
    **{folder: {"", "commands", *LIBRARY, *OUTSIDE} for folder in OUTSIDE},
}

# Import (module, unit) that is allowed in addition to `ARROWS`. Only type checkers read it: at
# run time `jaxenvs.render` is imported when it is first used (see tests/import_check.py).
TYPES_OF_THE_FACE = ("jaxenvs.__init__", "render")


def unit(module: str) -> str:
    """Return the unit of a module, a key of `ARROWS`.

    The unit of `jaxenvs.core.env` is `core`. The unit of `jaxenvs` and its single modules is "".
    """
    name = module.split(".")[1:2]
    return name[0] if name and name[0] in ARROWS else ""


def test_type_checkers_know_every_family():
    """`jaxenvs/__init__.py` imports every family of the registry in its `TYPE_CHECKING` block."""
    tree = ast.parse((ROOT / "jaxenvs" / "__init__.py").read_text())
    blocks = [n for n in tree.body if isinstance(n, ast.If)]
    (block,) = (n for n in blocks if getattr(n.test, "id", "") == "TYPE_CHECKING")
    imports = [n for n in block.body if isinstance(n, ast.ImportFrom) and n.module is None]
    listed = {alias.name for node in imports for alias in node.names}
    assert listed - {"adapters", "demos", "levels", "search", "text"} == WORLDS


def test_only_the_compiler_package_of_craft_calls_barriers_of_xla():
    craft = ROOT / "jaxenvs" / "craft"
    callers = [p for p in craft.rglob("*.py") if "optimization_barrier" in p.read_text()]
    assert callers == [craft / "compiler" / "barriers.py"]


def settings() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_arrows_between_packages_run_one_way():
    """Check that each unit imports only the units that `ARROWS` allows.

    For example `core <- classic | grid | craft | puzzles <- search <- adapters`.
    """
    wrong = [
        found
        for found in all_imports()
        if unit(found.target) not in {unit(found.module), *ARROWS[unit(found.module)]}
        and (found.module, unit(found.target)) != TYPES_OF_THE_FACE
    ]
    assert not wrong, "\n".join(map(str, wrong))


def circles(imports: list[Import]) -> list[list[str]]:
    """Return a list with one cycle of modules that import each other, or an empty list."""
    modules = {name.removesuffix(".__init__") for name, _ in sources()}
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for found in imports:
        target = found.target if found.target in modules else found.target.rpartition(".")[0]
        graph.setdefault(found.module.removesuffix(".__init__"), set()).add(target)
    order = graphlib.TopologicalSorter(graph)
    try:
        order.prepare()
    except graphlib.CycleError as error:
        return [error.args[1]]
    return []


def test_no_modules_import_each_other():
    assert not circles(all_imports(types=False))


@pytest.mark.full
def test_the_diagram_of_packages_is_of_today():
    """The diagram in CONTRIBUTING.md shows today's imports between packages, without a cycle."""
    import import_diagram

    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert page == import_diagram.written(page), "run python tests/import_diagram.py --write"


@pytest.mark.parametrize(
    ("module", "code", "target"),
    [
        ("jaxenvs.core.env", "from ..grid import tiles", "grid"),
        ("jaxenvs.core.env", "def f():\n    import jaxenvs.search.astar", "search"),
        ("jaxenvs.core.env", "import jaxenvs", ""),
        ("jaxenvs.grid.view", "from jaxenvs import render", "render"),
        ("jaxenvs.grid.__init__", "from .. import baselines", "baselines"),
        ("jaxenvs.__init__", "from .benchmarks.hlo import read", "benchmarks"),
    ],
)
def test_the_arrows_test_sees_a_forbidden_import(module: str, code: str, target: str):
    (found,) = imports_of(module, ast.parse(code))
    assert unit(found.target) == target
    assert target not in {unit(module), *ARROWS[unit(module)]}


# Classes of environments for which any code may test with `isinstance`. Code outside the families
# may import the modules of families in `SHARED` and `ABOUT`.
KNOWN = {"Env", "Wrapper", "Puzzle"}
# Any module may import `Puzzle`, because a search tests for it.
SHARED = ("jaxenvs.puzzles.puzzle",)
# Module of a benchmark or command for a single family -> the family, which it may import.
ABOUT = {
    "jaxenvs.benchmarks.puzzlescript": "jaxenvs.puzzlescript",
    "jaxenvs.benchmarks.puzzlescript_work": "jaxenvs.puzzlescript",
    "jaxenvs.benchmarks.rule_worlds": "jaxenvs.xland",
    "jaxenvs.commands.games": "jaxenvs.puzzlescript",
}


def named_families(module: str, code: str) -> list[str]:
    """Return the imports and class tests by which a module depends on a family of environments.

    The result is empty for `jaxenvs` itself and for modules of a family, which may depend on
    families.
    """
    if module == "jaxenvs.__init__" or module.split(".")[1] in WORLDS:
        return []
    tree, allowed = ast.parse(code), (*SHARED, *filter(None, [ABOUT.get(module)]))
    imports = [
        f"{found.module}:{found.line} imports {found.target}"
        for found in imports_of(module, tree)
        if set(found.target.split(".")[1:2]) & WORLDS and not found.target.startswith(allowed)
    ]
    asked = [
        f"{module}:{node.lineno} asks for {name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in CLASS_TESTS
        for name in names_in(node.args[1]) & environments()
    ]
    return imports + asked


CLASS_TESTS = ("isinstance", "issubclass")


def names_in(node: ast.AST) -> set[str]:
    return {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node)}


@functools.cache
def environments() -> frozenset[str]:
    """Return the names of all environment classes and their bases, without those in `KNOWN`."""
    classes = {c for id in registry.list() for c in registry.spec(id).env_class.__mro__}
    return frozenset({c.__name__ for c in classes if issubclass(c, jaxenvs.Env)} - KNOWN)


def test_no_code_outside_a_family_tests_for_its_classes():
    """Code outside a family uses an environment's properties, such as `facts`, not its class.

    So the code also works with third-party environments.
    """
    found = [
        line for module, path in sources() for line in named_families(module, path.read_text())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        "from jaxenvs.craft import CraftClassic",
        "from ..grid import Action",
        "def f():\n    from ..puzzles import Sudoku",
        "isinstance(env, CraftClassic)",
        "issubclass(kind, Puzzle | puzzles.Maze)",
        "isinstance(env, (Wrapper, GridEnv))",
    ],
)
def test_the_search_for_classes_finds_them(code: str):
    assert len(named_families("jaxenvs.render.panel", code)) == 1


def test_the_base_of_all_puzzles_may_be_asked_for():
    code = "from ..puzzles.puzzle import Puzzle\nisinstance(env, Puzzle | Env)"
    assert not named_families("jaxenvs.render.solve", code)


def test_only_the_command_names_the_outside_folders_in_a_string():
    """Only `TABLE` and the folders `OUTSIDE` contain a string such as "jaxenvs.render.play".

    `importlib` could import the module that the string names, and the test of import statements
    would not see this.
    """
    pattern = re.compile(rf"jaxenvs\.({'|'.join(OUTSIDE)})(\.\w+)*(:\w+)?")
    for module, path in sources():
        if unit(module) in OUTSIDE or module == TABLE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not pattern.fullmatch(node.value), f"{module}:{node.lineno}"


def test_import_is_silent_light_and_starts_no_backend(tmp_path: Path):
    """Check that importing starts no backend, prints and writes nothing, and needs no extras."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "tests" / "import_check.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


COST = """
import sys, time
import jax
sys.dont_write_bytecode, sys.pycache_prefix = False, sys.argv[1]
before = time.process_time()
import jaxenvs
print(time.process_time() - before)
jaxenvs.registry.list()
print(time.process_time() - before)
"""


@pytest.mark.full
def test_an_import_costs_less_than_a_tenth_of_a_second_beyond_jax(tmp_path: Path):
    """The fastest of three imports, with cached bytecode, takes less than 0.1 s beyond jax.

    The test measures CPU time, on which other work on the machine has little effect.
    """
    command = [sys.executable, "-c", COST, str(tmp_path)]
    costs = [subprocess.check_output(command, timeout=300).split() for _ in range(3)]
    alone, every = (min(map(float, column)) for column in zip(*costs, strict=True))
    print(f"import jaxenvs: {alone:.3f} s of the processor beyond jax, {every:.3f} with every id")
    assert alone < 0.1 and every < 0.5


RISKY = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "zipfile", "tarfile"}
RISKY_CALLS = {"eval", "exec", "compile", "np.load", "numpy.load", "jnp.load", "__import__"}


def test_nothing_here_unpickles_unpacks_or_evaluates():
    """No code reads pickles, object arrays or archives, or evaluates text: these could run code."""
    found = [(module, risk) for module, path in sources() for risk in risks(path.read_text())]
    assert not found


def risks(source: str) -> list[str]:
    """Return the imports and calls in a source that could execute their input."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in RISKY]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in RISKY:
            found.append(node.module)
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in RISKY_CALLS:
            continue
        # Without pickles, `np.load` reads arrays of numbers and text only.
        if "allow_pickle=False" not in map(ast.unparse, node.keywords):
            found.append(ast.unparse(node.func))
    return found


def test_the_search_for_risks_finds_them():
    code = "import pickle\nfrom zipfile import ZipFile\nx = np.load('a')\neval('1')"
    assert risks(code) == ["pickle", "zipfile", "np.load", "eval"]
    assert risks("np.load('a', allow_pickle=True)") == ["np.load"]
    assert risks("np.load('a', allow_pickle=False)") == []


def packages(root: Path) -> set[str]:
    """Return the packages that setuptools finds in a tree with the settings in pyproject.toml."""
    options = settings()["tool"]["setuptools"]["packages"]["find"]
    # Folders without `__init__.py`, such as data, are not packages.
    assert options["namespaces"] is False
    return set(setuptools.find_packages(str(root), include=options["include"]))


def test_every_package_of_the_tree_is_in_the_distribution():
    folders = {name.rpartition(".")[0]: path.parent for name, path in sources()}
    assert packages(ROOT) == set(folders)
    assert all((folder / "__init__.py").is_file() for folder in folders.values())


def test_a_new_package_needs_no_entry(tmp_path):
    for folder in ("jaxenvs", "jaxenvs/family", "jaxenvs/family/deep", "render", "render/new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "render" / "results").mkdir()
    (tmp_path / "jaxenvs" / "render").symlink_to("../render")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").touch()
    family = {"jaxenvs", "jaxenvs.family", "jaxenvs.family.deep"}
    assert packages(tmp_path) == {*family, "jaxenvs.render", "jaxenvs.render.new"}


@pytest.mark.parametrize("folder", OUTSIDE)
def test_a_checkout_links_each_folder_into_the_package(folder: str):
    """Python, editors and type checkers follow the links, so a checkout works uninstalled."""
    link = ROOT / "jaxenvs" / folder
    assert link.is_symlink() and os.readlink(link) == f"../{folder}"


def test_modules_beside_the_package_import_the_rest_of_it_by_its_full_name():
    """Modules of the folders `OUTSIDE`, such as `render`, import other folders by full names.

    A relative import would fail in an editor: in `render/play.py`, `..` is not `jaxenvs`.
    """
    for module, path in sources():
        # Number of folders in the path below ROOT. An import with more dots leaves the first one.
        depth = len(path.relative_to(ROOT).parts) - 1
        if unit(module) in OUTSIDE:
            for node in ast.walk(ast.parse(path.read_text())):
                assert not (isinstance(node, ast.ImportFrom) and node.level > depth), (
                    f"{path.relative_to(ROOT)}:{node.lineno} leaves its top-level folder"
                )


def test_every_data_file_beside_the_modules_is_in_the_distribution():
    patterns = settings()["tool"]["setuptools"]["package-data"]["*"]
    assert (ROOT / "jaxenvs" / "py.typed").is_file() and "py.typed" in patterns
    for folder in {path.parent for _, path in sources()}:
        for path in folder.iterdir():
            if path.suffix in {".css", ".html", ".js", ".json", ".npz", ".toml", ".txt", ".txtpb"}:
                assert any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns), path


def test_extras_are_the_agreed_ones():
    assert set(settings()["project"]["optional-dependencies"]) == EXTRAS


def test_core_needs_three_packages_and_bounds_them_from_below_only():
    project = settings()["project"]
    assert [re.match(r"\w+", d)[0] for d in project["dependencies"]] == [
        "jax",
        "numpy",
        "jaxtyping",
    ]
    groups = project["optional-dependencies"]
    for extra in ("train", "play", "search", "gym", "gymnax", "dm", "ray", "test", "cuda", "mcp"):
        for requirement in [*project["dependencies"], *groups[extra]]:
            assert re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+", requirement), requirement


def test_the_extra_for_gymnax_brings_what_gymnax_imports_but_does_not_require():
    required = importlib.metadata.requires("gymnax") or []
    assert not [line for line in required if re.match(r"six\b", line)]
    source = importlib.metadata.distribution("gymnax").locate_file("gymnax/utils/load_mnist.py")
    assert "from six" in Path(str(source)).read_text(), "no longer needed"
    assert [r for r in settings()["project"]["optional-dependencies"]["gymnax"] if r[:3] == "six"]


def test_the_lowest_set_is_the_lower_bounds():
    """`.ci/lowest.txt`, which CI installs, pins core, train, play and mcp to their lower bounds."""
    project = settings()["project"]
    extras = project["optional-dependencies"]
    promised = {tuple(r.split(">=")) for r in project["dependencies"] + extras["train"]}
    promised |= {tuple(r.split(">=")) for r in extras["play"] + extras["mcp"]}
    lines = (ROOT / ".ci" / "lowest.txt").read_text().splitlines()
    pins = {tuple(line.split(";")[0].split("==")) for line in lines if line and line[0] != "#"}
    assert promised <= pins, f"not pinned: {sorted(promised - pins)}"


def test_only_one_package_writes_the_pygame_folder():
    """craftax is installed without its dependencies, because one of them is `pygame`.

    `pygame` writes the same folder as `pygame-ce`, which this library requires.
    """
    lines = (ROOT / ".ci" / "peers.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line[0] != "#")
    for name, version in pins.items():
        assert importlib.metadata.version(name) == version
    assert "--no-deps --requirement .ci/peers.txt" in (ROOT / ".ci" / "setup").read_text()
    for group in settings()["project"]["optional-dependencies"].values():
        assert not [r for r in group if re.match(r"(craftax|pygame)\b(?!-ce)", r)]
    installed = {d.name for d in importlib.metadata.distributions()}
    assert "pygame" not in installed


def test_the_changelog_knows_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(jaxenvs.__version__)}\b", changelog, re.MULTILINE)
    assert "### Behaviour" in changelog


TOP = {"baselines", "benchmarks", "docs", "jaxenvs", "render", "tests", ".ci", ".github"}
TOP |= {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md"}
TOP |= {".gitignore", ".pre-commit-config.yaml", "MANIFEST.in", "Makefile", "mkdocs.yml"}
TOP |= {"pyproject.toml", "setup.py"}


def test_the_top_folder_has_no_stray_files():
    """Recordings and other results must not be committed."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    tops = {line.strip('"').partition("/")[0] for line in listed.stdout.splitlines()}
    assert tops == TOP
