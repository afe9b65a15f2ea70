"""Failures of JAX's tests that say nothing about behaviour, with the reasons. They are counted separately."""

from __future__ import annotations

import re
from typing import Any

# A reason, and a pattern of the message, of the line that failed, or of the line of the test that led to it.
LEFT_OUT: dict[str, str] = {
    "the test utilities called the real JAX, before a primitive": r"implicit dtype promotion path|not a valid JAX type",
    # `check_raises` compares the words after the class.
    "the words of an error: the words are ours, the class and the condition count": r"does not match|not found in|Regex"
    r"|startswith\(msg\)",
    "the text of an object": r"assertEqual\(\s*repr\(|f\"ShapeDtypeStruct|<PjitFunction|__getstate__",
    "a warning of JAX": r"Expected warning not found|not triggered",
    "JAX's own IR: jaxprs, equations, tracers": r"jaxpr|\.eqns|\bJaxpr|tracing|Tracer\b|\.consts\b|eqn\.primitive|sin_calls",
    "tokens, by which JAX's IR orders effects": r"create_token",
    "options and executables of XLA": r"compiler_options|runtime_executable|_executable\b|unsafe_buffer_pointer|\.client\b",
    "dtypes of users, by rules of JAX's private modules": r"ScaleTy|\.DType\(\)|PrimalTangentDType|FooTy\(|scale32",
    "counts of JAX's caches and compilations": r"cache_miss|_cache_size|lowering_count|count_jit|count_pjit|count_primitive"
    r"|\bcount\(\)|assert_num_jit|python_should_be_executing|num_traces|inner_count|len\(side\)|\(count, 1\)|\bcounts\(\)",
    "JAX's log": r"assertLogs",
    "JAX's types of traced values": r"\.aval|weak_type|in_avals|out_avals",
    "several devices, shardings and memories": r"[sS]harding|Mesh|memory_kind|pxla|SingleDevice|addressable"
    r"|PartitionSpec|pspec|process_local",
    "private modules of JAX": r"\b_src\b|jaxlib|compiler_ir|as_text|PyTreeDef|node_data|ArrayImpl|xla_extension"
    r"|treedef\.walk|serialize_using_proto|_maybe_perturbed|literals\.|_check_if_deleted",
    "donated buffers and live arrays": r"is_deleted|live_arrays|deleted or donated",
}
# Files that test JAX's own machinery, or several devices.
FILES: dict[str, str] = {
    "key_reuse_test.py": "a checker of JAX's jaxprs",
    "pmap_test.py": "several devices",
    "shard_map_test.py": "several devices",
    "pallas": "kernels of JAX for GPUs and TPUs",
    "export_test.py": "JAX's format of exported programs",
    "jaxpr_util_test.py": "JAX's own IR",
    "mutable_array_test.py": "references to mutable memory",
}


def reason(result: dict[str, Any]) -> str | None:
    """The reason for which a failure is left out; None for a failure that counts."""
    if result["real"]:
        return "the test utilities called the real JAX"
    if result.get("in_jax"):
        return "an error within private functions of the real JAX"
    text = " ".join(result.get(part, "") for part in ("message", "line", "at"))
    return next((why for why, pattern in LEFT_OUT.items() if re.search(pattern, text)), None)
