"""Tests of `hlo`, which counts a program's kernels and the bytes that each reads and writes.

The HLO programs of the tests are small enough to count by hand.
"""

import pytest

from jaxenvs.benchmarks.gpu_model import hlo

PROGRAM = """\
HloModule jit_run, is_scheduled=true, entry_computation_layout={(u8[16,4]{1,0})->u8[16,4]{1,0}}

%fused_add (param_0.1: s32[]) -> s32[] {
  %param_0.1 = s32[] parameter(0)
  %one = s32[] constant(1)
  ROOT %add.1 = s32[] add(%param_0.1, %one), metadata={op_name="jit(run)/while/body/add"}
}

%fused_write (param_0.2: u8[16,4], param_1.2: s32[], param_2.2: u8[100,4]) -> u8[16,4] {
  %param_0.2 = u8[16,4]{1,0} parameter(0), sharding={replicated}
  %param_1.2 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %param_2.2 = u8[100,4]{1,0} parameter(2)
  %read = u8[1,4]{1,0} dynamic-slice(%param_2.2, %param_1.2, %zero), dynamic_slice_sizes={1,4}
  %flat = u8[4]{0} bitcast(%read)
  %back = u8[1,4]{1,0} bitcast(%flat)
  ROOT %put = u8[16,4]{1,0} dynamic-update-slice(%param_0.2, %back, %param_1.2, %zero), \
metadata={op_name="jit(run)/while/body/environment_step/put"}
}

%fused_pair (param_0.3: f32[8]) -> (f32[8], pred[8]) {
  %param_0.3 = f32[8]{0} parameter(0)
  %none = f32[] constant(0)
  %nones = f32[8]{0} broadcast(%none), dimensions={}
  %double = f32[8]{0} add(%param_0.3, %param_0.3)
  %positive = pred[8]{0} compare(%param_0.3, %nones), direction=GT
  ROOT %pair = (f32[8]{0}, pred[8]{0}) tuple(%double, %positive)
}

%body (arg: (s32[], u8[16,4], u8[100,4])) -> (s32[], u8[16,4], u8[100,4]) {
  %arg = (s32[], u8[16,4]{1,0}, /*index=2*/u8[100,4]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%arg), index=0
  %map = u8[16,4]{1,0} get-tuple-element(%arg), index=1
  %table = u8[100,4]{1,0} get-tuple-element(%arg), index=2
  %copied = u8[16,4]{1,0} copy(%map)
  %written = u8[16,4]{1,0} fusion(%copied, %i, %table), kind=kLoop, calls=%fused_write
  %next = s32[] fusion(%i), kind=kLoop, calls=%fused_add
  ROOT %out = (s32[], u8[16,4]{1,0}, u8[100,4]{1,0}) tuple(%next, %written, %table)
}

%condition (arg.1: (s32[], u8[16,4], u8[100,4])) -> pred[] {
  %arg.1 = (s32[], u8[16,4]{1,0}, u8[100,4]{1,0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%arg.1), index=0
  %limit = s32[] constant(5)
  ROOT %less = pred[] compare(%i.1, %limit), direction=LT
}

ENTRY %main (start: u8[16,4], table.1: u8[100,4], values: f32[8]) -> u8[16,4] {
  %start = u8[16,4]{1,0} parameter(0)
  %table.1 = u8[100,4]{1,0} parameter(1)
  %values = f32[8]{0} parameter(2)
  %zero.1 = s32[] constant(0)
  %first = s32[] copy(%zero.1)
  %both = (f32[8]{0}, pred[8]{0}) fusion(%values), kind=kLoop, calls=%fused_pair
  %in = (s32[], u8[16,4]{1,0}, u8[100,4]{1,0}) tuple(%first, %start, %table.1)
  %loop = (s32[], u8[16,4]{1,0}, u8[100,4]{1,0}) while(%in), condition=%condition, body=%body, \
backend_config={"known_trip_count":{"n":"5"}}
  ROOT %result = u8[16,4]{1,0} get-tuple-element(%loop), index=1
}
"""


def launches(text: str, computation: str | None = None) -> dict[str, hlo.Kernel]:
    module = hlo.parse(text)
    return {k.name: k for k in hlo.kernels(module, computation or module.entry)}


def test_instructions_that_only_name_data_are_not_kernels():
    assert set(launches(PROGRAM, "body")) == {"copied", "written", "next"}


def test_a_slice_and_an_update_in_place_count_what_they_touch():
    written = launches(PROGRAM, "body")["written"]
    # Bytes written: 4 of the update. Bytes read: 4 of the table and 4 of the index.
    assert (written.written, written.read) == (4, 4 + 4)


def test_a_copy_counts_the_whole_array():
    copied = launches(PROGRAM, "body")["copied"]
    assert (copied.written, copied.read) == (64, 64)


def test_each_member_of_a_tuple_is_stored_and_an_operand_used_twice_loads_once():
    both = launches(PROGRAM)["both"]
    assert (both.written, both.read) == (32 + 8, 32)


def test_an_update_in_a_tuple_behind_a_bitcast_is_still_in_place():
    text = """\
%fused (p0: u8[16,4], p1: u8[1,4], p2: s32[]) -> (u8[64], s32[]) {
  %p0 = u8[16,4]{1,0} parameter(0)
  %p1 = u8[1,4]{1,0} parameter(1)
  %p2 = s32[] parameter(2)
  %put = u8[16,4]{1,0} dynamic-update-slice(%p0, %p1, %p2, %p2)
  %flat = u8[64]{0} bitcast(%put)
  %next = s32[] add(%p2, %p2)
  ROOT %both = (u8[64]{0}, s32[]) tuple(%flat, %next)
}

ENTRY %main (a: u8[16,4], b: u8[1,4], c: s32[]) -> (u8[64], s32[]) {
  %a = u8[16,4]{1,0} parameter(0)
  %b = u8[1,4]{1,0} parameter(1)
  %c = s32[] parameter(2)
  ROOT %f = (u8[64]{0}, s32[]) fusion(%a, %b, %c), kind=kLoop, calls=%fused
}
"""
    both = launches(text)["f"]
    assert (both.written, both.read) == (4 + 4, 4 + 4)


def test_an_update_of_a_fresh_array_is_stored_whole():
    text = PROGRAM.replace(
        "dynamic-update-slice(%param_0.2,", "dynamic-update-slice(%fresh,"
    ).replace("  %flat = u8[4]", "  %fresh = u8[16,4]{1,0} negate(%param_0.2)\n  %flat = u8[4]")
    written = launches(text, "body")["written"]
    assert (written.written, written.read) == (64, 64 + 4 + 4)


def test_a_loop_counts_its_body_times_its_trips_plus_one():
    found = launches(PROGRAM)
    assert found["loop"].count == 1
    assert found["copied"].count == 5
    assert sum(kernel.count for kernel in found.values()) == 1 + 1 + 5 * 3 + 1


def test_a_loop_of_unknown_trips_is_dynamic_with_its_condition():
    text = PROGRAM.replace(', backend_config={"known_trip_count":{"n":"5"}}', "")
    assert text != PROGRAM
    found = launches(text)
    assert {name for name, k in found.items() if k.dynamic} == {"copied", "written", "next", "less"}
    assert all(kernel.count == 1 for kernel in found.values())


def test_the_start_of_an_asynchronous_pair_counts_for_both():
    line = "%written = u8[16,4]{1,0} fusion(%copied, %i, %table), kind=kLoop, calls=%fused_write"
    pair = """\
%start = ((u8[16,4]{1,0}, s32[], u8[100,4]{1,0}), u8[16,4]{1,0}, u32[]) \
fusion-start(%copied, %i, %table), kind=kLoop, calls=%fused_write
  %written = u8[16,4]{1,0} fusion-done(%start)"""
    assert line in PROGRAM
    found = launches(PROGRAM.replace(line, pair), "body")
    assert set(found) == {"copied", "start", "next"}
    whole = launches(PROGRAM, "body")["written"]
    assert (found["start"].written, found["start"].read) == (whole.written, whole.read)


def test_an_asynchronous_copy_counts_once():
    line = "%copied = u8[16,4]{1,0} copy(%map)"
    pair = """\
%start = (u8[16,4]{1,0}, u8[16,4]{1,0}, u32[]) copy-start(%map)
  %copied = u8[16,4]{1,0} copy-done(%start)"""
    assert line in PROGRAM
    start = launches(PROGRAM.replace(line, pair), "body")["start"]
    assert (start.written, start.read) == (64, 64)


def test_a_scatter_counts_its_updates():
    text = """\
%fused_scatter (p0: u8[64,8], p1: s32[64,1], p2: u8[64]) -> u8[64,8] {
  %p0 = u8[64,8]{1,0} parameter(0)
  %p1 = s32[64,1]{1,0} parameter(1)
  %p2 = u8[64]{0} parameter(2)
  ROOT %scattered = u8[64,8]{1,0} scatter(%p0, %p1, %p2), to_apply=%region
}

ENTRY %main (p: u8[64,8], q: s32[64,1], r: u8[64]) -> u8[64,8] {
  %p = u8[64,8]{1,0} parameter(0)
  %q = s32[64,1]{1,0} parameter(1)
  %r = u8[64]{0} parameter(2)
  ROOT %s = u8[64,8]{1,0} fusion(%p, %q, %r), kind=kInput, calls=%fused_scatter
}
"""
    scattered = launches(text)["s"]
    assert (scattered.written, scattered.read) == (64, 256 + 64)


@pytest.mark.parametrize(
    ("shape", "size"),
    [("pred[]", 1), ("s32[7]{0}", 28), ("(u8[3,2]{1,0}, bf16[5]{0})", 16), ("s4[3]", 2)],
)
def test_shape_bytes(shape: str, size: int):
    assert hlo.shape_bytes(shape) == size


def test_origins_are_kept():
    found = launches(PROGRAM, "body")
    assert found["written"].op_names == {"jit(run)/while/body/environment_step/put"}
    assert found["next"].op_names == {"jit(run)/while/body/add"}


def test_text_without_an_entry_is_rejected():
    with pytest.raises(ValueError, match="no ENTRY"):
        hlo.parse("HloModule empty\n")
