"""Tests of the model that predicts the time of a GPU kernel from features of its HLO.

Features are counts such as warps, loads and instructions. The HLO is small enough to check by hand.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from jaxenvs.benchmarks import gpu_work, kernel_model
from jaxenvs.benchmarks.gpu_model import hlo, kernel_time
from jaxenvs.benchmarks.gpu_model.features import Features, features

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
ROWS = 65536
WARPS = ROWS / 32

# HLO of a step that mixes a 32-bit word for each row, writes it, and stores eight shifted copies.
STEP = """\
HloModule jit_run, is_scheduled=true

%mixed (p0: u32[65536]) -> u32[65536] {
  %p0 = u32[65536]{0} parameter(0)
  %factor = u32[] constant(2146121005)
  %factors = u32[65536]{0} broadcast(%factor), dimensions={}
  %once = u32[65536]{0} multiply(%p0, %factors)
  %twice = u32[65536]{0} multiply(%once, %factors)
  ROOT %sum = u32[65536]{0} add(%once, %twice)
}

%stored (q0: u32[3,65536,8], q1: s32[], q2: u32[65536]) -> u32[3,65536,8] {
  %q0 = u32[3,65536,8]{2,1,0} parameter(0)
  %q1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %q2 = u32[65536]{0} parameter(2)
  %column = u32[65536,8]{1,0} iota(), iota_dimension=1
  %words = u32[65536,8]{1,0} broadcast(%q2), dimensions={0}
  %bits = u32[65536,8]{1,0} shift-right-logical(%words, %column)
  %update = u32[1,65536,8]{2,1,0} bitcast(%bits)
  ROOT %put = u32[3,65536,8]{2,1,0} dynamic-update-slice(%q0, %update, %q1, %zero, %zero)
}

%counted (r0: s32[]) -> s32[] {
  %r0 = s32[] parameter(0)
  %one = s32[] constant(1)
  ROOT %next = s32[] add(%r0, %one)
}

%body (arg: (s32[], u32[65536], u32[3,65536,8])) -> (s32[], u32[65536], u32[3,65536,8]) {
  %arg = (s32[], u32[65536]{0}, u32[3,65536,8]{2,1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %word = u32[65536]{0} get-tuple-element(%arg), index=1
  %buffer = u32[3,65536,8]{2,1,0} get-tuple-element(%arg), index=2
  %mix = u32[65536]{0} fusion(%word), kind=kLoop, calls=%mixed
  %store = u32[3,65536,8]{2,1,0} fusion(%buffer, %i, %mix), kind=kLoop, calls=%stored
  %count = s32[] fusion(%i), kind=kLoop, calls=%counted
  ROOT %out = (s32[], u32[65536]{0}, u32[3,65536,8]{2,1,0}) tuple(%count, %mix, %store)
}

%condition (arg.1: (s32[], u32[65536], u32[3,65536,8])) -> pred[] {
  %arg.1 = (s32[], u32[65536]{0}, u32[3,65536,8]{2,1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%arg.1), index=0
  %limit = s32[] constant(3)
  ROOT %less = pred[] compare(%i.1, %limit), direction=LT
}

ENTRY %main (start: u32[65536], out.1: u32[3,65536,8]) -> u32[3,65536,8] {
  %start = u32[65536]{0} parameter(0)
  %out.1 = u32[3,65536,8]{2,1,0} parameter(1)
  %first = s32[] constant(0)
  %in = (s32[], u32[65536]{0}, u32[3,65536,8]{2,1,0}) tuple(%first, %start, %out.1)
  %loop = (s32[], u32[65536]{0}, u32[3,65536,8]{2,1,0}) while(%in), condition=%condition, \
body=%body, backend_config={"known_trip_count":{"n":"3"}}
  ROOT %result = u32[3,65536,8]{2,1,0} get-tuple-element(%loop), index=2
}
"""


def fused(inside: str, inputs: list[str], kind: str = "kLoop", name: str = "f") -> Features:
    """Return the features of a fusion with the HLO `inside`, whose parameters are p0, p1 ..."""
    output = next(line for line in inside.splitlines() if "ROOT" in line).split(" = ")[1]
    shape = output.split()[0]
    parameters = [f"%p{n} = {each} parameter({n})" for n, each in enumerate(inputs)]
    outside = [f"%x{n} = {each} parameter({n})" for n, each in enumerate(inputs)]
    names = ", ".join(f"%x{n}" for n in range(len(inputs)))
    text = "\n".join(
        [
            f"%inside (p: s32[]) -> {shape} {{",
            *parameters,
            inside,
            "}",
            f"ENTRY %main (x: s32[]) -> {shape} {{",
            *outside,
            f"ROOT %{name} = {shape} fusion({names}), kind={kind}, calls=%inside",
            "}",
        ]
    )
    module = hlo.parse(text)
    return features(module, module.computations["main"], module.computations["main"][name])


def time(seen: Features) -> float:
    """Return the predicted microseconds of one launch of a kernel with these features."""
    return float(kernel_time.microseconds(kernel_time.columns([seen]))[0])


def test_the_predicted_time_of_a_step_is_bounded():
    """A step has three kernels, and each of them takes little longer than an empty kernel.

    The kernel `count` increments the counter, `mix` mixes 65,536 words, and `store` stores eight
    copies.
    """
    kernels = {kernel.name: kernel for kernel in gpu_work.step_kernels(STEP, length=3)}
    times = {name: kernel.microseconds for name, kernel in kernels.items()}
    assert set(times) == {"mix", "store", "count"}
    assert 1.0 < times["count"] < times["mix"] < times["store"] < 2.5
    assert sum(times.values()) <= 5.0


def test_the_longest_kernel_is_listed_first_with_its_time():
    listed = gpu_work.kernel_list(gpu_work.step_kernels(STEP, length=3), ROWS).splitlines()
    assert [line.split()[7] for line in listed] == ["store", "mix", "count"]
    first, second = (float(line.split()[0]) for line in listed[:2])
    assert first > second and listed[0].split()[1] == "us"


def test_a_chain_is_recomputed_for_each_element_of_a_wider_consumer():
    chain = """\
%a = u32[65536]{0} multiply(%p0, %p0)
%b = u32[65536]{0} multiply(%a, %p0)
"""
    narrow = fused(chain + "ROOT %c = u32[65536]{0} add(%b, %p0)", ["u32[65536]{0}"])
    wide = fused(
        chain
        + """\
%e = u32[65536,3]{1,0} broadcast(%b), dimensions={0}
%i = u32[65536,3]{1,0} iota(), iota_dimension=1
ROOT %c = u32[65536,3]{1,0} add(%e, %i)
""",
        ["u32[65536]{0}"],
    )
    assert (narrow.warps, wide.warps) == (WARPS, 3 * WARPS)
    assert narrow.loads == WARPS and wide.loads == 3 * WARPS
    assert wide.instructions > 2.9 * narrow.instructions
    assert narrow.read == pytest.approx(4 * ROWS, rel=0.1)
    assert wide.read == pytest.approx(4 * ROWS, rel=0.1)


def test_one_value_read_twice_at_one_index_is_computed_once():
    once = fused("ROOT %c = f32[65536]{0} sine(%p0)", ["f32[65536]{0}"])
    twice = fused(
        "%a = f32[65536]{0} sine(%p0)\nROOT %c = f32[65536]{0} add(%a, %a)", ["f32[65536]{0}"]
    )
    assert twice.special == once.special and twice.loads == once.loads


def test_neighbours_share_their_work_only_in_short_code():
    """Four output elements share the computation of a value only if the kernel's code is short.

    A GPU thread computes four neighbouring elements in a loop, and here all four need the same
    value. The compiler unrolls this loop if its body is short, and then computes the value once.
    Otherwise, the value is computed four times.
    """

    def repeated(length: int) -> Features:
        lines = ["%a0 = s32[262144]{0} add(%p0, %p0)"]
        lines += [f"%a{n} = s32[262144]{{0}} add(%a{n - 1}, %p0)" for n in range(1, length)]
        lines.append(f"%b = s32[262144,4]{{1,0}} broadcast(%a{length - 1}), dimensions={{0}}")
        lines.append("ROOT %c = s32[262144,4]{1,0} negate(%b)")
        return fused("\n".join(lines), ["s32[262144]{0}"])

    short, long = repeated(10), repeated(300)
    assert short.warps == long.warps == 262144 / 32
    assert short.loads == short.warps and long.loads == 4 * long.warps
    assert long.instructions > 1200 * long.warps


def stack(operands: int, axis: int) -> Features:
    """Return the features of a concatenation of columns (`axis` 1) or of rows (`axis` 0)."""
    part = "s32[8192,1]{1,0}" if axis else "s32[1,8192]{1,0}"
    shape = f"s32[8192,{operands}]{{1,0}}" if axis else f"s32[{operands},8192]{{1,0}}"
    names = ", ".join(f"%p{n}" for n in range(operands))
    line = f"ROOT %c = {shape} concatenate({names}), dimensions={{{axis}}}"
    return fused(line, [part] * operands)


def test_warps_take_every_branch_of_stacked_columns():
    rows, columns = stack(18, axis=1), stack(18, axis=0)
    assert rows.branches == 18 * rows.warps
    assert columns.branches == columns.warps
    assert rows.loads == 18 * columns.loads
    assert time(rows) > time(columns)


def test_a_read_across_rows_touches_a_cache_line_for_each_lane():
    along = fused("ROOT %c = f32[1024,1024]{1,0} negate(%p0)", ["f32[1024,1024]{1,0}"])
    across = fused(
        "ROOT %c = f32[1024,1024]{1,0} transpose(%p0), dimensions={1,0}", ["f32[1024,1024]{1,0}"]
    )
    assert across.lines > 7 * along.lines
    assert time(across) > time(along)


def test_partial_tiles_of_a_transposition_count():
    full = fused(
        "ROOT %c = f32[1024,64,64]{2,1,0} transpose(%p0), dimensions={0,2,1}",
        ["f32[1024,64,64]{2,1,0}"],
        kind="kInput",
    )
    partial = fused(
        "ROOT %c = f32[1024,48,48]{2,1,0} transpose(%p0), dimensions={0,2,1}",
        ["f32[1024,48,48]{2,1,0}"],
        kind="kInput",
    )
    assert full.kind == partial.kind == "transpose"
    assert full.blocks == partial.blocks == 1024 * 4


def test_a_reduction_has_lanes_for_its_inputs():
    seen = fused(
        "%z = s32[] constant(0)\nROOT %c = s32[65536]{0} reduce(%p0, %z), dimensions={1}, "
        "to_apply=%add",
        ["s32[65536,16]{1,0}"],
        kind="kInput",
    )
    assert seen.kind == "reduce"
    assert seen.warps == 16 * ROWS / 128  # each lane of a warp computes four elements
    assert seen.blocks == seen.warps / 8
    assert seen.shuffles > 0


def test_a_scatter_stores_rows_at_unrelated_addresses():
    seen = fused(
        "ROOT %c = u8[65536,64]{1,0} scatter(%p0, %p1, %p2), update_window_dims={}, "
        "inserted_window_dims={0,1}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, "
        "to_apply=%set",
        ["u8[65536,64]{1,0}", "s32[65536,2]{1,0}", "u8[65536]{0}"],
        kind="kInput",
    )
    assert (seen.kind, seen.written) == ("scatter", ROWS)
    assert seen.store_sectors == ROWS


def test_an_update_in_place_stores_the_update():
    module = hlo.parse(STEP)
    scope = module.computations["body"]
    assert features(module, scope, scope["store"]).written == 4 * 8 * ROWS


@pytest.mark.parametrize(
    ("shape", "measured"),
    [("u8[50,1048576,147]{2,1,0}", 9070), ("f32[50,65536,1345]{2,1,0}", 5180), ("s32[]", 1.3)],
)
def test_the_predicted_zero_fill_agrees_with_an_h200(shape, measured):
    """The predicted time to fill an array with zeros is near the time measured on an H200.

    Filling bytes is limited by the start of thread blocks, filling words by memory bandwidth.
    """
    seen = fused(f"%z = {shape[: shape.index('[')]}[] constant(0)\n" + filled(shape), [])
    assert time(seen) == pytest.approx(measured, rel=0.25)


def filled(shape: str) -> str:
    """Return the root instruction of HLO that fills an array of this shape with zeros."""
    if shape.endswith("[]"):
        return "ROOT %c = s32[] add(%z, %z)"
    return f"ROOT %c = {shape} broadcast(%z), dimensions={{}}"


def test_the_coefficients_agree_with_the_recorded_fit():
    recorded = json.loads((RESULTS / "kernel_model.json").read_text())
    assert kernel_time.FITTED._asdict() == recorded["coefficients"]


def test_the_fit_is_reproduced_from_the_recorded_kernels():
    measured = kernel_model.Measured()
    fitted = kernel_model.fit(measured, np.ones(len(measured.time), bool))
    again = kernel_time.microseconds(measured.columns, fitted)
    assert again == pytest.approx(kernel_time.microseconds(measured.columns), rel=0.02)


def test_most_of_the_measured_time_is_predicted():
    recorded = json.loads((RESULTS / "kernel_model.json").read_text())
    *programs, total = recorded["rows"]
    assert total["model_near"] >= 0.86 and total["model_family_near"] >= 0.84
    assert 0.9 <= total["model"] / total["busy"] <= 1.1
    steps = [abs(row["model"] / row["busy"] - 1) <= 0.25 for row in programs]
    assert sum(steps) >= len(steps) - 2


def test_without_an_option_it_names_one(capsys):
    with pytest.raises(SystemExit):
        kernel_model.main([])
    assert "--fit" in capsys.readouterr().err
