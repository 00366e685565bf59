"""Tests of `puzzlescript_work`, which counts the kernels of PuzzleScript's micro-step.

A test that compiles for a GPU needs the CUDA compiler (see test_gpu_work).
"""

import os

import pytest

from jaxenvs.benchmarks import gpu_work, puzzlescript_work
from jaxenvs.benchmarks.gpu_model import hlo

NESTED = """
%inner_condition (p: (s32[4])) -> pred[] {
  %p.1 = (s32[4]{0}) parameter(0)
  ROOT %any.1 = pred[] fusion(%p.1), kind=kInput, calls=%fused
}

%inner_body (p: (s32[4])) -> (s32[4]) {
  %p.2 = (s32[4]{0}) parameter(0)
  %step.1 = s32[4]{0} fusion(%p.2), kind=kLoop, calls=%fused
  %step.2 = s32[4]{0} fusion(%p.2), kind=kLoop, calls=%fused
  ROOT %tuple.2 = (s32[4]{0}) tuple(%step.2)
}

%outer_condition (p: (s32[4])) -> pred[] {
  %p.3 = (s32[4]{0}) parameter(0)
  ROOT %any.3 = pred[] fusion(%p.3), kind=kInput, calls=%fused
}

%outer_body (p: (s32[4])) -> (s32[4]) {
  %p.4 = (s32[4]{0}) parameter(0)
  %loop.4 = (s32[4]{0}) while(%p.4), condition=%inner_condition, body=%inner_body
  ROOT %tuple.4 = (s32[4]{0}) tuple(%loop.4)
}

%fused (p: s32[4]) -> s32[4] {
  ROOT %p.5 = s32[4]{0} parameter(0)
}

ENTRY %main (p: (s32[4])) -> (s32[4]) {
  %p.6 = (s32[4]{0}) parameter(0)
  ROOT %loop.6 = (s32[4]{0}) while(%p.6), condition=%outer_condition, body=%outer_body
}
"""


def test_the_inner_loop_is_the_micro_step_and_the_rest_is_the_end_of_the_turn():
    step, end = puzzlescript_work.loops(hlo.parse(NESTED))
    assert [kernel.name for kernel in step] == ["step.1", "step.2", "any.1"]
    assert [kernel.name for kernel in end] == ["loop.4", "any.3"]


def test_a_program_without_nested_loops_is_refused():
    flat = NESTED.replace("body=%outer_body", "body=%inner_body")
    with pytest.raises(ValueError, match="expected one loop of unknown length in inner_body"):
        puzzlescript_work.loops(hlo.parse(flat))


@pytest.mark.full
@pytest.mark.skipif(not gpu_work.has_compiler(), reason='needs pip install "jax[cuda13]" (no GPU)')
@pytest.mark.parametrize(
    "size", [size for size in puzzlescript_work.KINDS if size != "large-random"]
)
def test_a_micro_step_is_at_most_60_kernels(monkeypatch, size):
    monkeypatch.setitem(os.environ, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    assert puzzlescript_work.measure(size, 4096)["kernels"] <= 60
