"""Functions with custom derivative rules: custom_jvp and custom_vjp, with JAX's signatures.

The rules are traced with the function, and are part of the IR (`ad.custom_jvp`, `ad.custom_vjp`). So printed, saved and
imported modules contain them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from iree.compiler import ir

from nabla_mlir.base import pytree
from nabla_mlir.base.errors import RuleUndefinedError, TraceError, TreeError, check_function, user_frame
from nabla_mlir.dialects import stablehlo
from nabla_mlir.dialects.ad_rules import RECUR, WITHOUT_RULE
from nabla_mlir.rules.custom_regions import postponed
from nabla_mlir.staging.eager import staged
from nabla_mlir.staging.positions import parameters_of, positional, positions
from nabla_mlir.staging.specs import Spec
from nabla_mlir.staging.tracing import current_trace, results_of, trace_region
from nabla_mlir.table.promotion import as_tensor
from nabla_mlir.table.regions import may_vary
from nabla_mlir.table.tensor import Tensor, full
from nabla_mlir.transforms.arguments import specs_of
from nabla_mlir.transforms.custom_calls import Call
from nabla_mlir.transforms.symbolic_zeros import CustomVJPPrimal, SymbolicZero
from nabla_mlir.transforms.vectorized import per_vectorized_entry


class _Tracing(threading.local):
    calls: tuple[Call, ...] = ()  # the calls whose rules are being traced, outermost first


_tracing = _Tracing()


class _Custom:
    """The base class of custom_jvp and custom_vjp, which makes the call."""

    operation = ""
    has_symbols: bool = False  # True if the rules get `SymbolicZero` where a derivative is zero

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = (), nondiff_argnames: Sequence[str] = ()):
        check_function(type(self).__name__, fun)
        functools.update_wrapper(self, fun)
        self.fun = fun
        names = parameters_of(fun)
        if unknown := [name for name in nondiff_argnames if name not in (names or ())]:
            raise TraceError(
                f"nondiff_argnames requires names of arguments, got {', '.join(map(repr, unknown))}.", where=user_frame()
            )
        given = positions(type(self).__name__, nondiff_argnums, None if names is None else len(names), "nondiff_argnums")
        named = dict.fromkeys((names or []).index(name) for name in nondiff_argnames)
        self.nondiff_argnums: tuple[int, ...] = (*given, *(i for i in named if i not in given))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function, emitted with its rule, which derivatives use."""
        self._check_defined()
        args = positional(self.fun, args, kwargs)
        nondiff = sorted(positions(self._name(), self.nondiff_argnums, len(args), "nondiff_argnums"))
        fixed = [args[i] for i in nondiff]
        differentiated = [a for i, a in enumerate(args) if i not in nondiff]

        def merged(values: Sequence[Any]) -> list[Any]:  # all arguments, from the differentiable ones
            whole = list(values)
            for i, value in zip(nondiff, fixed, strict=True):
                whole.insert(i, value)
            return whole

        return staged(per_vectorized_entry(lambda *values: self._emit(fixed, merged, values)))(*differentiated)

    def __getattr__(self, name: str) -> Any:
        """An attribute of the function, such as `def_vmap` of a function with a rule for maps."""
        if name.startswith("__") or "fun" not in vars(self):
            raise AttributeError(name)
        return getattr(self.fun, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """The function as a method, with the object as its first argument."""
        return self if instance is None else functools.partial(self, instance)

    def _check_defined(self) -> None:
        """Raises RuleUndefinedError if the function has no rule."""
        raise NotImplementedError

    def _seeds_of(self, spec: pytree.TreeSpec, by_position: dict[int, Tensor], likes: Sequence[Any]) -> Any:
        """The tangents or cotangents that a rule gets. A leaf without one gets None or a `SymbolicZero`."""
        zeros = [SymbolicZero.of(like) if self.has_symbols else None for like in likes]
        return pytree.unflatten(spec, [by_position.get(i, zero) for i, zero in enumerate(zeros)])

    def _rules(self, call: Call, tensors: list[Tensor], call_all: Any) -> list[ir.Block]:
        """The traced regions of the rule; `call_all` adds the arguments that are not differentiated."""
        raise NotImplementedError

    def _emit(self, fixed: list[Any], call_all: Callable[..., Any], values: tuple[Any, ...]) -> Any:
        """The result of a call as one operation with its rules; `call_all` joins `values` and the static arguments `fixed`."""
        leaves, spec = pytree.flatten(tuple(values))
        tensors = [as_tensor(leaf) for leaf in leaves]
        trace = current_trace()
        if trace is not None and trace.is_value:
            outs, out_spec = pytree.flatten(self.fun(*call_all(pytree.unflatten(spec, tensors))))
            return pytree.unflatten(out_spec, [as_tensor(out) for out in outs])
        constant = [i for i, t in enumerate(tensors) if self.has_symbols and not may_vary(t.value)]
        call = Call(self, fixed, spec, specs_of(tensors), frozenset(constant))
        for tracing in reversed(_tracing.calls):
            if tracing.matches(call):
                return self._emit_recur(tracing, tensors)

        def primal(*inner: Tensor) -> list[Any]:  # the leaves of the value, whose tree is recorded in `call`
            out, call.out_spec = pytree.flatten(self.fun(*call_all(pytree.unflatten(spec, inner))))
            return out

        block, _, call.outs = trace_region(primal, call.specs, self._name(), operands=tensors, role="function")
        call.label = _unique_label(self._name(), [c.label for c in _tracing.calls])
        before = _tracing.calls
        is_nested_enough = self._needs_no_rules()
        _tracing.calls = (*before, call)
        missing = ir.UnitAttr.get() if is_nested_enough else None
        try:
            rules = self._zero_rules(call) if is_nested_enough else self._rules(call, tensors, call_all)
        except Exception as error:  # as in JAX, the derivative that uses a rule raises its errors
            rules, missing = self._zero_rules(call), postponed(error)
        finally:
            _tracing.calls = before
        attributes = {
            "name": ir.StringAttr.get(call.label),
            "wrt": ir.DenseI64ArrayAttr.get(call.wrt),
            "of": ir.DenseI64ArrayAttr.get(call.of),
        }
        op = stablehlo.emit(
            self.operation,
            [t.value for t in tensors],
            results=[o.value.type for o in call.outs],
            attributes=attributes | ({} if missing is None else {WITHOUT_RULE: missing}),
            regions=1 + len(rules),
        )
        for region, body in zip(op.regions, [block, *rules], strict=True):
            body.append_to(region)
        return pytree.unflatten(call.out_spec, results_of(op))

    def _needs_no_rules(self) -> bool:
        """True inside rules of this function, if these are nested as deep as there are derivatives.

        A rule may call a new custom function at each level (JAX's fixed point solves its adjoint by itself), so tracing all levels
        would not end.
        """
        trace = current_trace()
        assert trace is not None
        depth = sum(self._is_same(c.function) for c in _tracing.calls)
        return depth > 0 and depth >= trace.order

    def _is_same(self, other: Any) -> bool:
        """True if a call of the other function counts as a call of this one."""
        return other is self

    def _zero_rules(self, call: Call) -> list[ir.Block]:
        """Regions that return zeros, with the signatures of the rules of `call`; used where no derivative reads the rules."""
        ends = []
        for arguments, results in self._rule_signatures(call):
            zeros = lambda *_, results=results: [full(s.shape, 0, s.dtype) for s in results]  # noqa: E731
            ends.append(trace_region(zeros, arguments, f"the rule of {self._name()}")[0])
        return ends

    def _rule_signatures(self, call: Call) -> list[tuple[list[Spec], list[Spec]]]:
        """The types of the arguments and results of each region of the rule, if no residuals pass between them."""
        raise NotImplementedError

    def _emit_recur(self, call: Call, tensors: list[Tensor]) -> Any:
        """The result of a call of the function inside its own rule, as an operation that refers to the enclosing one."""
        op = stablehlo.emit(
            RECUR,
            [t.value for t in tensors],
            results=[o.value.type for o in call.outs],
            attributes={"name": ir.StringAttr.get(call.label)},
        )
        return pytree.unflatten(call.out_spec, results_of(op))

    def _name(self) -> str:
        """The name of the function, for labels and errors."""
        return str(getattr(self.fun, "__name__", type(self.fun).__name__))


def _unique_label(name: str, labels: list[str]) -> str:
    """The name, with a number if an enclosing call has the same label: "f" and the labels ["f", "f_1"] give "f_2"."""
    label, n = name, 0
    while label in labels:
        n += 1
        label = f"{name}_{n}"
    return label


class custom_jvp(_Custom):  # noqa: N801  # a decorator
    """Decorator: a function with a custom forward rule. Reverse mode is the transpose of the rule.

    Args:
      fun: the function.
      nondiff_argnums: positions of arguments that are not differentiated (functions, options). They are the first arguments
        of the rule, and may be any Python objects.
      nondiff_argnames: further such arguments, by their names.

      The rule is ordinary code: it is mapped, and it is differentiated for second derivatives. It may call the function itself.
      Values that are differentiated must be arguments.

    Example:
      >>> import nabla_mlir as nm
      >>> @nm.custom_jvp
      ... def f(x, y):
      ...     return x * x * y
      >>> @f.defjvp
      ... def f_jvp(primals, tangents):
      ...     (x, y), (x_dot, y_dot) = primals, tangents
      ...     return f(x, y), 10.0 * x * x_dot
      >>> float(nm.grad(f)(3.0, 2.0))
      30.0
    """

    operation = "ad.custom_jvp"
    rule: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule ``jvp(*nondiff_args, primals, tangents) -> (out, out_tangent)``; usable as a decorator.

        Tangents have the types of their primals. The tangent of an integer leaf is None, or a `SymbolicZero` with
        `symbolic_zeros`. If the rule returns one of these, it means zero.
        """
        self.rule, self.has_symbols = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the rule by one function ``jvp(tangent, out, *primals)`` for each argument; None means zero."""
        if self.nondiff_argnums:
            raise TraceError(
                f"defjvps requires a function without nondiff_argnums, got {list(self.nondiff_argnums)}.",
                where=user_frame(),
                help="use defjvp.",
            )

        def rule(primals: Any, tangents: Any) -> Any:
            """The value, and the sum of the tangents by each argument; None if there are none."""
            out = self(*primals)
            total: Any = None
            for jvp, tangent in zip(jvps, tangents, strict=True):
                if jvp is not None and tangent is not None:
                    term = jvp(tangent, out, *primals)
                    total = term if total is None else _add_trees(total, term)
            return out, total

        self.rule = rule

    def _check_defined(self) -> None:
        if self.rule is None:
            raise RuleUndefinedError(
                f"custom_jvp requires a rule for {self._name()}, got none.",
                where=user_frame(),
                help=f"define it with {self._name()}.defjvp.",
            )

    def _rule_signatures(self, call: Call) -> list[tuple[list[Spec], list[Spec]]]:
        outs = specs_of(call.outs)
        return [([*call.specs, *(call.specs[i] for i in call.wrt)], [*outs, *(outs[i] for i in call.of)])]

    def _rules(self, call: Call, tensors: list[Tensor], call_all: Any) -> list[ir.Block]:
        """A list with one block, the rule: primals and tangents -> results and their tangents."""
        what = f"the rule of {self._name()}"

        def rule(*inner: Tensor) -> list[Any]:  # results and tangents, from primals and their tangents
            primals, by_position = inner[: len(tensors)], dict(zip(call.wrt, inner[len(tensors) :], strict=True))
            tangents = self._seeds_of(call.args_spec, by_position, tensors)
            assert self.rule is not None
            pair = self.rule(*call.fixed, pytree.unflatten(call.args_spec, primals), tangents)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TreeError(f"{what} requires to return (out, out_tangent), got {type(pair).__name__}.", where=user_frame())
            outs = call.result(what, pair[0])
            tangent = (
                [None] * len(outs)
                if pair[1] is None
                else pytree.flatten_like(call.out_spec, pair[1], f"the tangent that {what} returns", "its value")
            )
            return [*outs, *call.seeds("tangent", tangent, outs, call.of, pytree.paths(call.out_spec))]

        specs = [*call.specs, *(call.specs[i] for i in call.wrt)]
        return [trace_region(rule, _without_weakness(specs), what, operands=tensors, role="rule")[0]]


def _add_trees(a: Any, b: Any) -> Any:
    leaves, spec = pytree.flatten(a)
    return pytree.unflatten(spec, [x + y for x, y in zip(leaves, pytree.flatten(b)[0], strict=True)])


class custom_vjp(_Custom):  # noqa: N801  # a decorator
    """Decorator: a function with a custom reverse rule. Forward mode is the transpose of the rule.

    Args:
      fun: the function.
      nondiff_argnums: positions of arguments that are not differentiated; they are the first arguments of ``bwd``.
      nondiff_argnames: further such arguments, by their names.

    Example:
      >>> import nabla_mlir as nm
      >>> @nm.custom_vjp
      ... def clip_gradient(x):
      ...     return x
      >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (nm.numpy.clip(ct, -1.0, 1.0),))
      >>> float(nm.grad(lambda x: clip_gradient(x) ** 2)(3.0))
      1.0
    """

    operation = "ad.custom_vjp"
    rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False, optimize_remat: bool = False
    ) -> None:
        """Sets the rule.

        Args:
          fwd: ``fwd(*args) -> (out, residuals)``, with the arguments of the function. Residuals that are no arrays, such as
            Python's numbers, reach `bwd` as they are.
          bwd: ``bwd(*nondiff_args, residuals, cotangent) -> cotangents``, a tuple with one entry for each differentiated
            argument; None means zero, and is used for integers.
          symbolic_zeros: True passes each leaf of the arguments to `fwd` as a `CustomVJPPrimal`. `bwd` gets a `SymbolicZero` as
            the cotangent of a result without derivative, and may return one (`nm.jax.custom_derivatives`).
          optimize_remat: accepted for programs of JAX; unused residuals are removed in any case.
        """
        self.rules, self.has_symbols = (fwd, bwd), symbolic_zeros

    def _check_defined(self) -> None:
        if self.rules is None:
            raise RuleUndefinedError(
                f"custom_vjp requires a rule for {self._name()}, got none.",
                where=user_frame(),
                help=f"define it with {self._name()}.defvjp.",
            )

    def _rule_signatures(self, call: Call) -> list[tuple[list[Spec], list[Spec]]]:
        outs = specs_of(call.outs)
        return [(call.specs, outs), ([outs[i] for i in call.of], [call.specs[i] for i in call.wrt])]

    def _rules(self, call: Call, tensors: list[Tensor], call_all: Any) -> list[ir.Block]:
        """Two blocks: arguments -> results and residuals; residuals and cotangents -> the arguments' cotangents."""
        assert self.rules is not None
        fwd, bwd = self.rules
        trees: dict[str, Any] = {}
        what = f"the rule of {self._name()}"

        def forward(*inner: Tensor) -> list[Any]:
            """The leaves of the value of `fwd`, then its residuals that are arrays; `inner` holds the arguments."""
            perturbed = set(call.wrt)
            primals = [CustomVJPPrimal(x, i in perturbed) for i, x in enumerate(inner)] if self.has_symbols else inner
            pair = fwd(*call_all(pytree.unflatten(call.args_spec, primals)))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TreeError(f"{what} requires fwd to return (out, residuals), got {type(pair).__name__}.", where=user_frame())
            trees["residuals"], trees["spec"] = pytree.flatten(pair[1])
            return [*call.result(what, pair[0]), *(as_tensor(r) for r in trees["residuals"] if pytree.is_array(r))]

        forward_block, _, outs = trace_region(forward, _without_weakness(call.specs), what, operands=tensors, role="rule")
        residuals = [Spec(r.shape, r.dtype) for r in outs[len(call.outs) :]]

        def backward(*inner: Tensor) -> list[Any]:
            """The cotangents of the differentiated arguments; `inner` holds the residuals, then the cotangents of the results."""
            values, by_position = inner[: len(residuals)], dict(zip(call.of, inner[len(residuals) :], strict=True))
            arrays = iter(values)  # Python's numbers and other objects are part of the code
            given = [next(arrays) if pytree.is_array(r) else r for r in trees["residuals"]]
            ct = self._seeds_of(call.out_spec, by_position, call.outs)
            cts = bwd(*call.fixed, pytree.unflatten(trees["spec"], given), ct)
            count = len(call.args_spec.children())
            if not isinstance(cts, (tuple, list)) or len(cts) != count:
                got = f"{len(cts)}" if isinstance(cts, (tuple, list)) else type(cts).__name__
                raise TreeError(f"{what} requires bwd to return a tuple of {count} cotangents, got {got}.", where=user_frame())
            leaves: list[Any] = []
            for below, ct in zip(call.args_spec.children(), cts, strict=True):
                leaves += (
                    [None] * below.num_leaves
                    if ct is None
                    else pytree.flatten_like(below, ct, "a cotangent that bwd returns", "its argument")
                )
            return list(call.seeds("cotangent", leaves, tensors, call.wrt, pytree.paths(call.args_spec)))

        specs = [*residuals, *(Spec(call.outs[i].shape, call.outs[i].dtype) for i in call.of)]
        # The residuals have the values that the first region returns, which Python may read if they are known.
        return [forward_block, trace_region(backward, specs, what, operands=outs[len(call.outs) :])[0]]


def _without_weakness(specs: Sequence[Spec]) -> list[Spec]:
    return [Spec(s.shape, s.dtype) for s in specs]
