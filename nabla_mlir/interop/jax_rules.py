"""Functions that JAX differentiates by a rule, imported with that rule.

JAX lowers such a function to its plain code, which loses the rule. Here the call is lowered to a marker, and the function and its
rule are lowered to separate modules. Their code becomes the regions of `ad.custom_jvp`, `ad.custom_vjp` or `ad.linear_solve`. If a
rule calls its own function, that call becomes an `ad.recur`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from nabla_mlir.base.errors import ImportIRError
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import RECUR
from nabla_mlir.dialects.context import context, parse_module
from nabla_mlir.dialects.regions import functions_of, nested
from nabla_mlir.dialects.stablehlo import Bool
from nabla_mlir.interop.jax_calls import Call, Part, positions_of, primitive_call
from nabla_mlir.interop.jax_equinox import computes_its_derivative, refuses_tangents
from nabla_mlir.interop.jax_lineax import solve_of_lineax
from nabla_mlir.ops.custom_call import call as custom_call
from nabla_mlir.ops.custom_call import register_custom_call
from nabla_mlir.passes.normalize.custom_calls import apply_functions
from nabla_mlir.passes.pipeline import Pipeline
from nabla_mlir.table.regions import Fill, emit_call, fill, replace
from nabla_mlir.table.tensor import Tensor, wrap

# Primitives of JAX that are lowered to a series, a rejection or a scan, but are differentiated by a formula.
_WITH_RULES = ("cumlogsumexp_p", "igamma_p", "igammac_p", "random_gamma_p")
_MARKER = "nabla_mlir.rule"
_THUNKS = ("jax._src.interpreters.partial_eval", "jax._src.custom_derivatives")  # the modules in which JAX wraps rules
# The largest nesting of rules, and the largest nesting of one rule with different code. Some rules create a new function in each
# call without end, for example the rule of sinc. An adjoint equation has an adjoint equation for each order of derivative.
_DEPTH, _REPEATS = 6, 2


@dataclass
class Importer:
    """The import of one function of JAX, whose calls with a rule become operations of the dialect `ad`.

    Attributes:
      around: the calls whose rules are being imported.
      inert: the values without tangents, which are results of `nondifferentiable`.
      known: the modules of calls with a key, by this key and by the enclosing calls, which decide the end of a nested rule.
    """

    calls: list[Call] = field(default_factory=list)
    around: tuple[Call, ...] = ()
    inert: set[ir.Value] = field(default_factory=set)
    known: dict[Hashable, list[ir.Module]] = field(default_factory=dict)

    def module(self, part: Part) -> ir.Module:
        """The module of a part of a call: its function is `main`, and every rule in it is a region of an operation."""
        module = parse_module(self._lowered(part))
        Pipeline.parse("nabla-inline-calls").run(module)
        import jax

        if len(_types(module)) != len(jax.tree.leaves(part.avals)):
            raise ImportIRError("it captures an argument of an enclosing function")
        with context():
            apply_functions(module.operation)
            for op in nested(module.operation):
                if op.name == "stablehlo.custom_call" and op.attributes["call_target_name"].value == _MARKER:
                    with op.location, ir.InsertionPoint(op):
                        call = self.calls[op.attributes["mhlo.backend_config"]["call"].value]
                        results = self._emitted(call, op)
                        replace(op, results)
                        if refuses_tangents(call.root):
                            self.inert.update(x.value for x in results)
        return module

    def _lowered(self, part: Part) -> str:
        """The StableHLO of the function of `part`, in which each call with a rule is a marker."""
        import jax
        from jax._src.interpreters.mlir import LoweringParameters

        shardy = jax.config.values["jax_use_shardy_partitioner"]
        jax.config.update("jax_use_shardy_partitioner", False)  # IREE's compiler does not read the dialect of Shardy
        try:
            # Unused arguments stay, so that the arguments of the function are those of its specs.
            traced = jax.jit(part.function, keep_unused=True).trace(*part.avals)
            parameters = LoweringParameters(override_lowering_rules=self._lowering_rules(part.plain))
            return str(traced.lower(_private_parameters=parameters).as_text(debug_info=True))
        finally:
            jax.config.update("jax_use_shardy_partitioner", shardy)

    def _lowering_rules(self, plain: Any) -> tuple[Any, ...]:
        """Lowering rules that replace calls with a derivative rule by markers; JAX itself lowers the primitive `plain`."""
        import jax
        from jax._src.custom_derivatives import linear_call_p
        from jax.extend.core import primitives

        def marked(description: Callable[..., Call]) -> Callable[..., Any]:
            """A lowering rule that appends the description of a call to `calls`, and emits a marker with its index in that list."""

            def lowering(ctx: Any, *operands: Any, **params: Any) -> Any:  # the operation of the marker
                self.calls.append(description(params, ctx.avals_in, ctx.avals_out))
                return jax.ffi.ffi_lowering(_MARKER)(ctx, *operands, call=np.int64(len(self.calls) - 1))

            return lowering

        def refused(params: Any, inputs: Any, outputs: Any) -> Call:
            """Raises ImportIRError, because nabla_mlir has no operation for a linear call with a rule for its transposition."""
            raise ImportIRError(
                "from_jax requires functions without a rule for transposition, got one.",
                help="write the rule with jax.custom_vjp, or jax.lax.custom_linear_solve.",
            )

        descriptions = {
            primitives.stop_gradient_p: lambda *_: Call("ad.stop_gradient"),
            primitives.custom_jvp_call_p: _jvp_call,
            primitives.custom_vjp_call_p: _vjp_call,
            primitives.linear_solve_p: _linear_solve,
            linear_call_p: refused,
        }
        for name in _WITH_RULES:
            primitive = getattr(primitives, name)
            descriptions[primitive] = functools.partial(primitive_call, primitive)
        if "lineax._solve" in sys.modules:
            primitive = sys.modules["lineax._solve"].linear_solve_p
            descriptions[primitive] = functools.partial(solve_of_lineax, primitive)
        return tuple((primitive, marked(f)) for primitive, f in descriptions.items() if primitive is not plain)

    # ------------------------------------------------------------ from a marker to an operation

    def _emitted(self, call: Call, op: ir.Operation) -> list[Tensor]:
        """The results of the operation that replaces the marker `op`; its regions contain the function of `call` and its rule."""
        operands = [wrap(v) for v in op.operands]
        operands = [operands[i] for i in call.order] if call.order else operands
        if call.name == "ad.stop_gradient":
            return [_stopped(x) for x in operands]
        if call.name == "ad.linear_solve":
            return self._emitted_solve(call, op, operands)
        if computes_its_derivative(call.root):  # no rule is needed: a copy of the function's code is enough
            return _copy(self._within(self.around).module(call.parts[0]), [], operands)
        inert = [i for i, x in enumerate(op.operands) if x in self.inert]
        if inert and call.narrow is not None:
            call = call.narrow(inert)
        consts, arguments = operands[: call.consts[0]], operands[call.consts[0] :]
        same = next((other for other in reversed(self.around) if call.is_equal_call(other)), None)
        if same is not None:
            copy = stablehlo.emit(
                RECUR,
                [x.value for x in arguments],
                results=[r.type for r in op.results],
                attributes={"name": ir.StringAttr.get(same.label)},
            )
            return [wrap(r) for r in copy.results]
        call.label = _unused(call.label, [other.label for other in self.around])
        key = call.key and (call.key, self.around)
        modules = self.known.get(key, [])
        if not modules:
            inner = self._within((*self.around, call))
            modules = [inner.module(call.parts[0])]
            try:
                alike = sum(other.root is call.root for other in self.around)
                if len(self.around) == _DEPTH or alike == _REPEATS:
                    raise ImportIRError(f"it is nested in {len(self.around)} other rules")
                modules += [inner.module(part) for part in call.parts[1:]]
            except Exception as error:  # the user's rule may raise any error
                return _without_rule(call, modules[0], consts, arguments, [r.type for r in op.results], _first_line(error))
            if key:
                self.known[key] = modules
        results = [r.type for r in op.results]
        bodies = [functools.partial(_copy, m, consts[:count]) for m, count in zip(modules, call.consts, strict=True)]
        types = [_types(m)[count:] for m, count in zip(modules, call.consts, strict=True)]
        return _custom(call.name, call, arguments, results, types, bodies)

    def _within(self, around: tuple[Call, ...]) -> Importer:
        """An importer for the body of a rule, which `around` encloses; it has the same known modules."""
        return Importer(around=around, known=self.known)

    def _emitted_solve(self, call: Call, op: ir.Operation, operands: list[Tensor]) -> list[Tensor]:
        """The results of a linear solve; `operands` are the constants that its regions capture, then the right-hand sides."""
        inner = self._within(self.around)
        total = sum(call.consts)
        b, outside = operands[total:], list(operands[:total])
        bodies = []
        for part, count in zip(call.parts, call.consts, strict=True):
            constants, outside = outside[:count], outside[count:]
            bodies.append(functools.partial(_copy, inner.module(part), constants))
        matvec, solve = bodies[0], bodies[len(bodies) // 2]  # the next part is for the transposed system, if it exists
        attributes = {"transposable": Bool.encode(len(bodies) == 4)}
        types = [x.value.type for x in b]
        solution = stablehlo.emit(call.name, [x.value for x in b], results=types, attributes=attributes, regions=3)
        for region, body in zip(solution.regions, [matvec, solve, bodies[-1]], strict=True):
            fill(region, types, lambda xs, body=body: body(xs)[: len(b)])  # type: ignore[misc]
        results = [wrap(r) for r in solution.results]
        if len(op.results) > len(b):  # further results of the solver have no derivative
            results += [_stopped(x) for x in solve(b)[len(b) :]]
        return results


def _stopped(x: Tensor) -> Tensor:
    return wrap(stablehlo.emit("ad.stop_gradient", [x.value], results=[x.value.type]).results[0])


def _custom(
    name: str,
    call: Call,
    arguments: Sequence[Tensor],
    results: Sequence[ir.Type],
    types: Sequence[Sequence[ir.Type]],
    bodies: Sequence[Fill],
) -> list[Tensor]:
    """Emits `ad.custom_jvp` or `ad.custom_vjp` for `call`, with results of the types `results`, and returns these; regions have
    arguments of `types`, and `bodies` fill them.
    """
    attributes = {
        "name": ir.StringAttr.get(call.label),
        "wrt": ir.DenseI64ArrayAttr.get(list(call.wrt)),
        "of": ir.DenseI64ArrayAttr.get(list(call.of)),
    }
    op = stablehlo.emit(name, [x.value for x in arguments], results=results, attributes=attributes, regions=len(bodies))
    for region, argument_types, body in zip(op.regions, types, bodies, strict=True):
        fill(region, argument_types, body)
    return [wrap(r) for r in op.results]


def _without_rule(
    call: Call, primal: ir.Module, consts: Sequence[Tensor], arguments: Sequence[Tensor], results: Sequence[ir.Type], why: str
) -> list[Tensor]:
    """An `ad.custom_jvp` for a call whose rule cannot be imported: the call works, and its derivative raises an error with `why`.

    The rule contains a custom call that no target implements; the name of this call is the error message.
    """
    target = f"the rule of {call.label}, which cannot be imported: {why}"
    register_custom_call(target, batch="leading")
    body, n = functools.partial(_copy, primal, consts), len(arguments)

    def rule(xs: list[Tensor]) -> list[Tensor]:  # the results, and tangents that no target can compute
        outs = body(xs[:n])
        return [*outs, *custom_call(target, xs, [(outs[i].shape, outs[i].dtype) for i in call.of])]

    types = _types(primal)[len(consts) :]
    return _custom("ad.custom_jvp", call, arguments, results, [types, [*types, *(types[i] for i in call.wrt)]], [body, rule])


def _copy(module: ir.Module, outside: Sequence[Tensor], xs: list[Tensor]) -> list[Tensor]:
    return emit_call(_main(module), [*outside, *xs])


def _types(module: ir.Module) -> list[ir.Type]:
    return [argument.type for argument in _main(module).regions[0].blocks[0].arguments]


def _first_line(error: Exception) -> str:
    """The first line of an error message, or the class of the error if its message is empty."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def _main(module: ir.Module) -> ir.Operation:
    return functions_of(module.operation)["main"]


def _unused(label: str, labels: Sequence[str]) -> str:
    """The label, with a number added if `labels` contains it."""
    names = (label, *(f"{label}_{i}" for i in range(1, len(labels) + 1)))
    return next(name for name in names if name not in labels)


# ---------------------------------------------------------------- the rules of JAX


def _without_tangent(aval: Any) -> np.ndarray:  # zeros of dtype float0, which JAX passes for a value without tangent
    import jax

    return np.zeros(aval.shape, jax.dtypes.float0)


def _dense(values: Sequence[Any], avals: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """The tangents or cotangents among `values` at `positions`, as arrays of the types `avals`; JAX's symbolic zeros
    become zeros.
    """
    import jax.numpy as jnp
    from jax.custom_derivatives import SymbolicZero
    from jax.interpreters.ad import Zero

    is_zero = [isinstance(value, (Zero, SymbolicZero)) for value in values]
    return [jnp.zeros(avals[i].shape, avals[i].dtype) if is_zero[i] else values[i] for i in positions]


def _jvp_call(params: Any, avals: Sequence[Any], outputs: Sequence[Any]) -> Call:
    """The description of a call of `jax.custom_jvp`; `avals` and `outputs` are the types of its arguments and results."""
    import jax.numpy as jnp
    from jax.extend.core.primitives import custom_jvp_call_p

    root, inner = _rule_of_user(params["jvp_jaxpr_fun"])
    consts = params["num_consts"] + inner
    arguments = avals[consts:]
    wrt, of = positions_of(arguments), positions_of(outputs)
    _, jvp = custom_jvp_call_p.get_bind_params(params)["subfuns"]

    def rule(*values: Any) -> list[Any]:
        """The results, followed by the tangents of the results that have one."""
        primals, by_position = values[: len(avals)], dict(zip(wrt, values[len(avals) :], strict=True))
        tangents = [by_position.get(i, _without_tangent(aval)) for i, aval in enumerate(arguments)]
        outs = jvp.call_wrapped(*primals, *(jnp.zeros(aval.shape, aval.dtype) for aval in avals[:consts]), *tangents)
        n = len(outputs)
        return [*outs[:n], *_dense(outs[n:], outputs, of)]

    parts = [
        Part(_function_of_jaxpr(params["call_jaxpr"]), lambda: avals),
        Part(rule, lambda: [*avals, *(arguments[i] for i in wrt)]),
    ]
    return Call("ad.custom_jvp", _label(params), parts, root, (consts, consts), wrt, of)


def _vjp_call(params: Any, avals: Sequence[Any], outputs: Sequence[Any], inert: Sequence[int] = ()) -> Call:
    """The `ad.custom_vjp` for a call of `jax.custom_vjp`: its function, its forward rule and its backward rule.

    `avals` and `outputs` are the types of arguments and results; the arguments at `inert` have no tangents. Constants come first
    among the arguments; the backward rule has none.
    """
    from jax.extend.core.primitives import custom_vjp_call_p

    root, inner = _rule_of_user(params["fwd_jaxpr_thunk"])
    consts = params["num_consts"] + inner
    arguments = avals[consts:]
    wrt, of = [i for i in positions_of(arguments) if i + consts not in inert], positions_of(outputs)
    bound = custom_vjp_call_p.get_bind_params(params)
    _, fwd, bwd = bound["subfuns"]

    def forward(*values: Any) -> list[Any]:
        """The results of the forward rule, followed by its residuals."""
        flags = [i - consts in wrt for i in range(len(avals))]  # JAX passes each argument with a flag: True if differentiated
        outs = fwd.call_wrapped(*(x for pair in zip(values, flags, strict=True) for x in pair))
        _, tree, sources = bound["out_trees"]()
        count = tree.num_leaves - sum(f is not None for f in sources)  # a source is the argument that is the residual itself
        residuals = iter(outs[:count])
        return [*outs[count:], *(next(residuals) if f is None else values[f] for f in sources)]

    def backward_avals() -> list[Any]:
        """The shapes and dtypes of the arguments of the backward rule: the residuals, and the cotangents of the results."""
        import jax

        return [*jax.eval_shape(forward, *avals)[len(outputs) :], *(outputs[i] for i in of)]

    def backward(*values: Any) -> list[Any]:
        """The cotangents of the arguments at `wrt`, from the residuals and the cotangents of the results at `of`."""
        n = len(values) - len(of)
        residuals, by_position = values[:n], dict(zip(of, values[n:], strict=True))
        cotangents = [by_position.get(i, _without_tangent(aval)) for i, aval in enumerate(outputs)]
        return _dense(bwd.call_wrapped(*residuals, *cotangents)[consts:], arguments, wrt)

    parts = [
        Part(_function_of_jaxpr(params["call_jaxpr"]), lambda: avals),
        Part(forward, lambda: avals),
        Part(backward, backward_avals),
    ]
    narrow = functools.partial(_vjp_call, params, avals, outputs)
    return Call("ad.custom_vjp", _label(params), parts, root, (consts, consts, 0), wrt, of, narrow=narrow)


def _linear_solve(params: Any, avals: Sequence[Any], outputs: Sequence[Any]) -> Call:
    """The description of a call of `jax.lax.custom_linear_solve`: its parts are the product and the solver, also for Aᵀ
    if given.
    """
    jaxprs, lengths = params["jaxprs"], params["const_lengths"]
    known = [(jaxpr, count) for jaxpr, count in zip(jaxprs, lengths, strict=True) if jaxpr is not None]
    parts = [Part(_function_of_jaxpr(jaxpr), functools.partial(getattr, jaxpr, "in_avals")) for jaxpr, _ in known]  # its types
    return Call("ad.linear_solve", parts=parts, consts=[count for _, count in known])


def _function_of_jaxpr(jaxpr: Any) -> Callable[..., Any]:  # a function of values that runs the jaxpr
    from jax.extend.core import jaxpr_as_fun

    return lambda *values: jaxpr_as_fun(jaxpr)(*values)


def _label(params: Any) -> str:
    return str(params["call_jaxpr"].jaxpr.debug_info.func_name)


def _rule_of_user(function: Any) -> tuple[Any, int]:
    """The user's rule without the wrappers of JAX, and the number of arguments that the wrappers add.

    If JAX traces a call again, the captured values of the function become arguments without derivatives.
    """
    from jax._src.linear_util import WrappedFun

    consts = 0
    while True:
        if isinstance(function, WrappedFun):
            function = function.f
            continue
        names = getattr(getattr(function, "__code__", None), "co_freevars", ())
        known = {name: cell.cell_contents for name, cell in zip(names, function.__closure__ or (), strict=True)} if names else {}
        inner = [x for x in known.values() if isinstance(x, WrappedFun) or getattr(x, "__module__", "") in _THUNKS]
        if not inner or not function.__module__.startswith("jax._src."):
            return function, consts
        consts += known.get("num_consts", 0) if function.__qualname__.startswith("lift_") else 0
        function = inner[0]
