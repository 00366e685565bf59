"""Fit the model of kernel time to measured kernels, and test it on held-out programs.

    python -m jaxenvs.benchmarks.kernel_model --fit         # coefficients and held-out errors

The data in `results/kernel_times.json` are the features of profiled kernels and their measured
microseconds per launch. The fit minimises a robust loss of log(predicted time / measured time). A
prior keeps each coefficient near the value expected from the hardware.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from .gpu_model import hlo
from .gpu_model.features import Features, features
from .gpu_model.kernel_time import Coefficients, microseconds
from .harness import instrument
from .kernels import kept
from .tables.gpu import ERRORS, WORST
from .tables.registry import RESULTS
from .tables.text import tabulated

DATA = Path(__file__).resolve().parents[1] / RESULTS / "kernel_times.json"
DIGITS = 4  # number of significant digits of a feature in the data file
# Prior means of the coefficients. Most of them are computed from an H200's clock frequency,
# execution units and bandwidths; some of the last ones are guesses.
PRIOR = Coefficients(
    floor=1.1,
    instruction=1.2e-6,
    special=0.5e-6,
    epilogue=1e-6,
    load=1.5e-6,
    store=2e-6,
    shuffle=1e-6,
    warp=3e-6,
    block=0.58e-3,
    line=3e-6,
    fetch=4e-6,
    far=2e-6,
    sector=9e-6,
    near_byte=0.18e-6,
    far_byte=0.15e-6,
    step=2.5e-3,
    wait=0.03,
    chain=0.3,
    turn=0.1,
    resident=8.0,
    overlap=3.0,
    crowd=6.0,
    transpose=1.3,
)
# Prior standard deviation of the logarithm of some coefficients; it is 1 for all others.
KNOWN = {"block": 0.1, "near_byte": 0.3, "far_byte": 0.3, "line": 0.5, "overlap": 0.5}
PRIOR_WEIGHT = 0.06
# The fit reduces the influence of errors |log(predicted / measured time)| above this number.
OUTLIER = 0.3
# A kernel's weight in the fit increases with its share of its program's time, up to this share.
CAP = 0.15
# Three predictions of a kernel's time. `model` is fitted to all other programs, `model_family` to
# the programs of all other families. `old` is an older model without fitted coefficients.
MODELS = ("model", "model_family", "old")
NEAR = 1.5  # a prediction counts as correct if it is wrong by at most this factor
LISTED = 12  # number of mispredicted kernels to list
# Parameters of the older model: microseconds per launch, and bytes per microsecond. It predicts a
# constant time per launch plus the time to move the bytes that the kernel reads and writes.
LAUNCH, BANDWIDTH = 2.5, 4.8e6
FAMILIES = {"Grid": "grid", "Craft-Classic": "Classic", "Craft": "whole game"}


FIELDS = ["kernel", "shape", "microseconds", "launches", *Features._fields]


def record(file: Path) -> None:
    """Write `DATA`, the file that the model is fitted to, from profiles and HLO in `file`.

    The job `profiles` of the command `card` writes `file`, whose name ends in `.hlo.json.gz`.

    Raises `ValueError` if `file` has no profiles.
    """
    programs = {}
    for name, of in sorted(kept(file).items()):
        kernels = list(_rows(hlo.parse(of["hlo"]), of["profile"]))
        programs[name] = {"step": round(of["profile"]["step"], 1), "kernels": kernels}
    if not programs:
        raise ValueError(f"--record {file}: no profiles found there")
    header = json.loads((file.parent / f"{file.name.split('.')[0]}.json").read_text("utf-8"))
    about = {"device": header["device"], "jax": header["jax"], "fields": FIELDS}
    about["programs"] = programs
    lines = json.dumps(about).replace('"kernels": [', '"kernels": [\n').replace("], [", "],\n[")
    DATA.write_text(lines + "\n", "utf-8")


def _rows(module: hlo.Module, profile: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the values of `FIELDS` for each profiled kernel.

    The features of a kernel come from the HLO instruction that has the kernel's name. A kernel
    without an instruction of its name is a copy and has default features.
    """
    places = {
        re.sub(r"[.-]", "_", instruction.name): (scope, instruction)
        for scope in reversed(module.computations.values())
        for instruction in reversed(scope.values())
    }
    for kernel, total in profile["microseconds"].items():
        launches = profile["launches"][kernel]
        if total and launches:
            place = places.get(kernel)
            seen = features(module, *place) if place else Features("memory")
            shape = place[1].shape[:40] if place else ""
            numbers = [_short(number) for number in seen[1:]]
            yield [kernel, shape, _short(total / launches), launches, seen.kind, *numbers]


def _short(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


class Measured:
    """Measured kernels of all programs, read from `DATA`, as arrays with one entry per kernel."""

    def __init__(self) -> None:
        document = json.loads(DATA.read_text("utf-8"))
        kept = [(name, *row) for name, of in document["programs"].items() for row in of["kernels"]]
        names = ["program", *document["fields"]]
        self.columns = dict(zip(names, map(np.array, zip(*kept, strict=True)), strict=True))
        self.program = self.columns["program"]
        self.time = self.columns["microseconds"]
        self.spent = self.time * self.columns["launches"]
        self.step = {name: of["step"] for name, of in document["programs"].items()}
        total = {name: self.spent[self.program == name].sum() for name in self.step}
        share = self.spent / np.array([total[name] for name in self.program])
        self.weight = np.sqrt(np.minimum(share, CAP)) + 0.02

    def of(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """Return the measured data of the kernels that the mask `chosen` selects: name -> array."""
        return {name: column[chosen] for name, column in self.columns.items()}


def fit(measured: Measured, chosen: np.ndarray) -> Coefficients:
    """Return the model's coefficients, fitted to the kernels that the mask `chosen` selects."""
    seen, time, weight = measured.of(chosen), measured.time[chosen], measured.weight[chosen]
    prior = np.log(PRIOR)
    scale = np.array([KNOWN.get(name, 1.0) for name in Coefficients._fields])

    def residuals(logs: np.ndarray) -> np.ndarray:
        error = np.log(microseconds(seen, Coefficients(*np.exp(logs))) / time)
        robust = np.sign(error) * OUTLIER * np.sqrt(np.log1p((error / OUTLIER) ** 2))
        return np.concatenate([weight * robust, PRIOR_WEIGHT * (logs - prior) / scale])

    return Coefficients(*np.exp(least_squares(residuals, prior, max_nfev=200).x).tolist())


def held_out(measured: Measured, group: Callable[[str], str]) -> np.ndarray:
    """Return the held-out prediction of each kernel's time in microseconds.

    The prediction for a kernel is by a model that was fitted to the kernels of all other groups.
    `group` maps the name of a program to its group.
    """
    groups = np.array([group(name) for name in measured.program])
    predicted = np.zeros_like(measured.time)
    for name in np.unique(groups):
        tested = groups == name
        predicted[tested] = microseconds(measured.of(tested), fit(measured, ~tested))
    return predicted


def family(program: str) -> str:
    """Return the family of a program: its kind of environment, such as `grid` or `Classic`."""
    kind = "reset " if program.startswith("reset") else ""
    return kind + next((FAMILIES[name] for name in FAMILIES if name in program), program)


def report() -> dict[str, Any]:
    """Fit the model, print coefficients and held-out errors, and return them."""
    measured = Measured()
    fitted = fit(measured, np.ones(len(measured.time), bool))
    for name, value in fitted._asdict().items():
        # Print each coefficient as a line of Python that can replace its field in `Coefficients`.
        print(f"    {name}: float = {value:.4g}")
    by_program = held_out(measured, lambda name: name)
    figures = {
        "device": "NVIDIA H200",
        "coefficients": {name: _short(value) for name, value in fitted._asdict().items()},
        "rows": rows(measured, by_program, held_out(measured, family)),
        "worst": longest_errors(measured, by_program),
    }
    print(tabulated(figures["rows"], ERRORS).plain())
    print(tabulated(figures["worst"], WORST).plain())
    return figures


def rows(measured: Measured, *predictions: np.ndarray) -> list[dict[str, Any]]:
    """Return a table row for each program, then one for all programs together.

    A row has the measured and predicted microseconds of a step.
    """
    seen = measured.columns
    old = LAUNCH + (seen["read"] + seen["written"]) / BANDWIDTH
    found = []
    for name in [*measured.step, ""]:
        chosen = (measured.program == name) | (name == "")
        launches = seen["launches"][chosen]
        spent = measured.spent[chosen]
        row = {"program": name, "kernels": int(chosen.sum()), "busy": round(spent.sum(), 1)}
        for key, times in zip(MODELS, (*predictions, old), strict=True):
            times = times[chosen]
            near = np.abs(np.log(times / measured.time[chosen])) <= np.log(NEAR)
            row[key] = round(float((times * launches).sum()), 1)
            row[f"{key}_near"] = round(float(spent[near].sum() / spent.sum()), 3)
        found.append(row | ({"step": measured.step[name]} if name else {}))
    return found


def longest_errors(measured: Measured, predicted: np.ndarray) -> list[dict[str, Any]]:
    """Return the mispredicted kernels that take the most time, the longest first.

    A kernel is mispredicted if its predicted time is wrong by more than the factor `NEAR`. At most
    `LISTED` kernels are returned.
    """
    ratio = predicted / measured.time
    missed = measured.spent * (np.abs(np.log(ratio)) > np.log(NEAR))
    return [
        {
            "program": str(measured.program[i]),
            "kernel": str(measured.columns["kernel"][i]),
            "shape": str(measured.columns["shape"][i]),
            "microseconds": float(measured.time[i]),
            "model": round(float(predicted[i]), 1),
            "share": round(float(measured.spent[i] / measured.spent.sum()), 4),
        }
        for i in np.argsort(-missed)[:LISTED]
    ]


@instrument.program
def main(argv: Sequence[str] | None = None) -> None:
    """Fit the model with the options in `argv`; print tables and write the `--json` file."""
    parser = instrument.parser("kernel_model", __doc__)
    add = parser.add_argument
    add("--fit", action="store_true", help="fit the coefficients and test them on held-out kernels")
    add("--record", type=Path, metavar="FILE", help="first read new kernels from card's profiles")
    args = parser.parse_args(argv)
    if not (args.fit or args.record):
        parser.error("nothing to do: give --fit")
    if args.record:
        record(args.record)
    instrument.write(args.json, report())
