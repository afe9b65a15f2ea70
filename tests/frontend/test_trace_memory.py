"""Traces in poisoned memory: what is freed is overwritten at once, so that whoever still reads it crashes or differs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from trace_nestings import PAIRS, check

PARTS = 4
PROGRAM = Path(__file__).with_name("trace_nestings.py")
POISON = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_transform_in_all_control_flow(part):
    """Ten traces of each pair, in a process of its own: the death of one names the pair."""
    run = subprocess.run(
        [sys.executable, PROGRAM, str(part), str(PARTS)], capture_output=True, text=True, timeout=600, env=os.environ | POISON
    )
    lines = run.stdout.splitlines()
    assert run.returncode == 0, f"{lines[-1] if lines else 'the start'}: exit code {run.returncode}\n{run.stderr[-2000:]}"
    assert len(lines) == len(PAIRS[part::PARTS])


@pytest.mark.parametrize("transform", ["jvp", "vjp", "linearize", "jacfwd", "custom_root", "vmap jvp", "caught"])
def test_a_scan_whose_step_linearises(transform):
    """The step is traced twice, and what the first trace held lives as long as others read it."""
    check("scan captures the slice", transform, times=3)


def test_a_pullback_that_left_its_trace_says_so():
    import nabla_mlir as nm
    import nabla_mlir.numpy as nnp

    stored = {}

    def f(x):
        y, stored["pull"] = nm.vjp(nnp.sin, x)
        _, stored["push"] = nm.linearize(nnp.sin, x)
        stored["converted"], _ = nm.closure_convert(lambda u: u * x, x)
        return y

    nm.trace(f, nm.spec(3))
    for call in (
        lambda: stored["pull"](nnp.ones(3)),
        lambda: stored["push"](nnp.ones(3)),
        lambda: stored["converted"](nnp.ones(3)),
    ):
        with pytest.raises(nm.errors.NablaError):
            call()
    for name in ("pull", "push", "converted"):
        with pytest.raises(nm.errors.NablaError):
            nm.trace(lambda x, name=name: stored[name](x), nm.spec(3))
