"""Tests of the command `peer_runs`, which repeats the benchmarks against other packages.

They test the options it gives to `jaxenvs bench`, the files it writes, and tables of these files.
"""

import json
import subprocess
from pathlib import Path

import pytest

import jaxenvs
from jaxenvs.benchmarks import peer_runs, throughput
from jaxenvs.benchmarks.peers import environments as peers
from jaxenvs.benchmarks.tables import cpu, registry, turns
from jaxenvs.benchmarks.tables.readme import peers as readme

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {
    "date": "2026-12-24 10:00",
    "cpus": 2,
    "processor": "AMD EPYC",
    "load_before": 0.2,
    "load_after": 1.1,
    "repeats": 5,
    "seconds": 0.5,
}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """Replace `jaxenvs bench`; return a dict in which tests set missing peers and exit code."""
    made = {"missing": [], "returncode": 0, "programs": []}

    def run(program, env, check):
        made["programs"].append((program, env["JAX_PLATFORMS"]))
        folder = Path(program[program.index("--out") + 1])
        folder.mkdir(parents=True)
        (folder / "bench.json").write_text(json.dumps({"missing": made["missing"]}))
        return subprocess.CompletedProcess(program, made["returncode"])

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(peer_runs, "SCRATCH", str(tmp_path / "scratch"))
    return made


@pytest.mark.parametrize("name", peer_runs.RUNS)
@pytest.mark.parametrize("quick", [False, True])
def test_every_run_has_valid_options_of_bench(name, quick):
    args = throughput._parser().parse_args(peer_runs.arguments(name, quick))
    known = {peer.name for env_id in args.ids for peer in peers.of(env_id)}
    assert set(args.without) <= known
    assert args.quick == quick and (args.batches == [64]) == quick
    for env_id in args.ids:
        for obs in args.obs:
            jaxenvs.make(env_id, **({"obs": obs} if obs else {}))


def test_every_run_writes_a_file_of_a_table():
    files = {file for source in registry.TABLES.values() for file in source.files}
    assert {f"{registry.RESULTS}/{name}.json" for name in peer_runs.RUNS} <= files


def test_all_runs_replace_their_files(bench, tmp_path):
    assert peer_runs.main(["--out", str(tmp_path)]) == 0
    assert {path.stem for path in tmp_path.glob("*.json")} == set(peer_runs.RUNS)
    assert {platform for _, platform in bench["programs"]} == {"cpu"}


def test_a_file_is_kept_when_a_peer_is_missing(bench, tmp_path, capsys):
    bench["missing"] = [{"contestant": "NAVIX", "id": "A", "reason": "not installed"}]
    assert peer_runs.main(["--only", "bench_doorkey", "--out", str(tmp_path)]) == 2
    assert not list(tmp_path.glob("*.json"))
    assert "bench_doorkey.json is not written" in capsys.readouterr().err


def test_a_failed_run_is_named(bench, tmp_path, capsys):
    bench["returncode"] = 1
    assert peer_runs.main(["--only", "bench_envpool", "--out", str(tmp_path)]) == 2
    assert "bench_envpool failed with exit code 1" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("options", [["--quick", "--out", "."], ["--out", "no/such/folder"]])
def test_invalid_options_are_rejected_before_anything_runs(bench, options, capsys):
    assert peer_runs.main(options) == 2
    assert "--out" in capsys.readouterr().err and not bench["programs"]


def row(contestant, obs, envs, seconds, processor):
    return {
        "contestant": contestant,
        "id": "Craft-Ids-v0",
        "num_envs": envs,
        "reset_source": "exact",
        "obs": obs,
        "steps": 12,
        "steps_per_second": 12 / seconds,
        "seconds": [seconds],
        "processor_seconds": [processor],
        "compile_seconds": 1.0,
    }


def test_the_whole_game_has_a_column_for_each_contestant():
    rows = [row("jaxenvs", "ids", 8, 1.0, 2.0), row("jaxenvs", "symbolic", 8, 2.0, 4.0)]
    rows += [row("EnvPool", "symbolic", 8, 6.0, 10.0)]
    versions = {"python": "3.12.1", "jax": "0.12.0", "envpool": "1.2.7"}
    build = registry.TABLES["craft-full"].build
    made = build({**ABOUT, "versions": versions, "rows": rows})
    cells = dict(zip(made.head, made.rows[0], strict=True))
    assert cells["bytes / EnvPool"] == "5.0" and cells["symbolic / EnvPool"] == "2.50"
    assert cpu.OPTIMISTIC not in cells
    assert made.note.startswith(
        "2026-12-24, 2 cores of an AMD EPYC, Python 3.12.1, load 0.2 before"
    )
    assert made.note.endswith("medians of 5 x 0.5 s: jax 0.12.0, envpool 1.2.7.")


def test_the_readme_has_the_versions_and_factors_of_the_files():
    files = registry.TABLES["readme-peers"].files
    benches = [json.loads((ROOT / file).read_text()) for file in files]
    full = next(bench for bench in benches if {"Craft-Ids-v0"} == {r["id"] for r in bench["rows"]})
    full["rows"] = [row("jaxenvs", "ids", 1024, 1.0, 1.0), row("jaxenvs", "symbolic", 1024, 1, 2)]
    full["rows"] += [row("EnvPool", "symbolic", 1024, 9.0, 6.0)]
    for bench in benches:
        bench["versions"] |= {"navix": "4.0.0", "envpool": "1.2.7"}
    cells = {line[0].split("](")[0]: line for line in readme(*benches).rows}
    assert cells["[NAVIX"][0].endswith(" 4.0.0") and cells["[EnvPool"][0].endswith(" 1.2.7")
    assert "3.0 per core (full game)" in cells["[EnvPool"][3]
    assert "full game" not in cells["[Craftax"][3]


def test_packages_of_contestants_are_those_whose_version_is_recorded():
    assert set(turns.PACKAGES) <= {peer.name for peer in peers.PEERS}
