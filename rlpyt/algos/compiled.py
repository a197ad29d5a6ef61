"""A function of tensors, compiled; and called without what torch.compile puts around each call.

That takes 50 to 60 µs a call, as much as a small network's gradient. What it checks is checked here
too, by its own guards (25 µs), so that whatever changes is compiled anew as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dis import get_instructions
from types import CodeType
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from rlpyt.arrays import NamedArrayTuple
from rlpyt.errors import StopAsked, UsageError
from rlpyt.memory_budget import file_too_large
from rlpyt.models.memory import Memory
from rlpyt.stopping import asked_at

COMPILED_FILE = 256 << 20  # bytes at most: PyTorch 2.13's C++ headers, compiled once, take 156 MB


KEPT = 8  # ways to call a function that are kept: minibatches of other sizes are other ways


CHANGES = {
    *("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "STORE_DEREF"),
    *("DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL", "DELETE_DEREF"),
}
"""Instructions of Python that change something beside a function's own variables."""

Held = tuple[dict[str, Any], str, object]  # of a module: where it lies, its name, what lies there


class Called(NamedTuple):
    """A call of what the compiler made of one graph."""

    graph: Callable[..., Sequence[Tensor]]
    inputs: tuple[Any, ...]
    outputs: Sequence[Tensor]


class Direct(NamedTuple):
    """How one graph, all that a function is, is called by itself."""

    holds: Callable[[dict[str, Any]], bool]  # whether the arguments of `_call` are as then
    call: Callable[[Any], Sequence[Tensor]]  # of the tuple `given`
    held: list[Held]  # what must still lie where it lay: no guard looks at which one it is


@final
class Compiled:
    """The function compiled; memories stay eager, for how they loop depends on where episodes end.

    PyTorch 2.13 follows a gradient inside of what it compiles, if it is told to; an older one
    compiles the passes forward and backward one by one.

    Args:
        function: of trees of tensors, and of functions; returns one tensor.
        module: holds every network that it runs; more may be put into it.
        vectors: other tensors that it reads or writes, the same ones at every call; at least one.
    """

    def __init__(
        self, function: Callable[..., Tensor], module: nn.Module, vectors: Sequence[Tensor]
    ) -> None:
        on_cpu = vectors[0].is_cpu
        # It would fail after minutes, and leave half a header that later runs take for a whole one.
        if on_cpu and (why := file_too_large(COMPILED_FILE)):
            remedy = "raise it (ulimit -f unlimited), or begin a run with --compile off"
            raise UsageError(f"compile=on: {why}; {remedy}")
        import torch._dynamo.config as dynamo

        if hasattr(dynamo, "trace_autograd_ops"):
            dynamo.trace_autograd_ops = True
        # Every learner of a process counts as another compilation of one function.
        dynamo.recompile_limit = max(dynamo.recompile_limit, 64)
        for part in module.modules():
            if isinstance(part, Memory):
                # Of this module alone: decorating the class would import torch._dynamo with it.
                part.__dict__["forward"] = torch.compiler.disable(part.forward)
        self._function, self._module, self._vectors = function, module, vectors
        backend = _called_from_cpp if on_cpu else _called
        self._compiled: Any = torch.compile(_call, dynamic=False, backend=backend)
        self._directs: list[Direct] = []
        self._refused = 0  # calls that were looked at in vain

    def __call__(self, *given: Any) -> Tensor:
        arguments = {"function": self._function, "given": given}
        for direct in self._directs:
            if direct.holds(arguments):
                if all(place.get(name) is x for place, name, x in direct.held):
                    return direct.call(given)[0]
                self._directs.remove(direct)
                break
        calls.clear()
        try:
            result = self._compiled(**arguments)
            seen = list(calls)
        except Exception as error:
            # Ctrl-C in a terminal, and torchrun, reach the C++ compiler that PyTorch started, too.
            if asked_at() is None or not type(error).__module__.startswith("torch._"):
                raise
            raise StopAsked("compiling was given up") from error
        finally:
            calls.clear()
        if len(seen) == 1 and len(self._directs) + self._refused < KEPT:
            found = self._found(seen[0], arguments, result)
            self._directs += found
            self._refused += not found
        return result

    def _found(self, called: Called, arguments: dict[str, Any], result: Tensor) -> list[Direct]:
        """How to repeat a call; nothing where it was more than a graph of tensors that are known.

        A tensor is known by the one place where it lies: among what is given, or in a module.
        """
        graph, inputs, outputs = called
        holds = _guards(arguments)
        if holds is None or len(outputs) != 1 or outputs[0] is not result:
            return []
        given = list(_tensors(arguments["given"], "given"))
        lying = list(_lying(self._module))
        places = {id(x): place for place, x in given}
        lies = {id(x): (place, name, x) for place, name, x in lying}
        fixed = {id(x) for x in self._vectors}
        held: list[Held] = [at for at in lying if isinstance(at[2], nn.Module)]
        names, own = [], []
        for x in inputs:
            if id(x) in places:
                if sum(id(x) == id(other) for _, other in given) > 1 or id(x) in lies:
                    return []
                names.append(places[id(x)])
                continue
            if id(x) in lies:
                held += [at for at in lying if at[2] is x]
            elif id(x) not in fixed:
                return []
            names.append(f"own[{len(own)}]")
            own.append(x)
        expression = f"lambda given: graph({', '.join(names)})"
        return [Direct(holds, eval(expression, {"graph": graph, "own": own}), held)]


calls: list[Called] = []
"""Of graphs, in the call of a compiled function that is under way."""


def _called(graph: Any, inputs: Any, **patches: Any) -> Callable[..., Sequence[Tensor]]:
    """What PyTorch's own compiler makes of a graph, and what notes its calls."""
    from torch._inductor.compile_fx import compile_fx

    made: Any = compile_fx(graph, inputs, config_patches=patches)

    def noted(*inputs: Any) -> Sequence[Tensor]:
        outputs = made(*inputs)
        calls.append(Called(made, inputs, outputs))
        return outputs

    return noted


def _called_from_cpp(graph: Any, inputs: Any) -> Callable[..., Sequence[Tensor]]:
    """The same; called from C++ the operations of a small network take two thirds of the time."""
    return _called(graph, inputs, cpp_wrapper=True)


def _call(function: Callable[..., Tensor], given: Any) -> Tensor:
    """What is compiled: one code for all functions, so that its guards are found."""
    return function(*given)


def _guards(arguments: dict[str, Any]) -> Callable[[dict[str, Any]], bool] | None:
    """Of what was compiled for `_call` and fits these arguments.

    None: it does more than to call a graph, or this PyTorch does not tell.
    """
    from torch._dynamo import eval_frame
    from torch._inductor import config as inductor

    if inductor.triton.cudagraphs:  # they count calls of torch.compile's wrapper
        return None
    try:
        for entry in eval_frame._debug_get_cache_entry_list(_call.__code__):
            manager = entry.guard_manager
            if manager.check(arguments):
                if manager.cache_entry is None or not _only_calls_a_graph(entry.code):
                    return None
                # Without its entry it is void: what it knew by its address is gone.
                return lambda given: manager.cache_entry is not None and manager.check(given)
    except AttributeError:
        pass
    return None


def _only_calls_a_graph(code: CodeType) -> bool:
    """Whether what torch.compile made of a function changes nothing, nor calls what is not traced.

    Beside the graph it calls, in PyTorch 2.13, two functions that note the time.
    """
    names = [instruction.opname for instruction in get_instructions(code)]
    called = [name for name in names if name.startswith("CALL") and "INTRINSIC" not in name]
    graphs = sum(name.startswith("__compiled_fn") for name in code.co_names)
    noted = sum(name.startswith("record_pregraph_bytecode") for name in code.co_names)
    return graphs == 1 and len(called) == 1 + noted and not CHANGES & {*names}


def _lying(module: nn.Module) -> Iterator[Held]:
    """Every module, parameter and buffer in a module."""
    for part in module.modules():
        for place in (part._modules, part._parameters, part._buffers):
            for name, x in place.items():
                yield place, name, x


def _tensors(tree: Any, place: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a tree with the expression that finds it."""
    if isinstance(tree, Tensor):
        yield place, tree
    elif isinstance(tree, NamedArrayTuple):
        for name, part in tree.items():
            yield from _tensors(part, f"{place}.{name}")
    elif isinstance(tree, tuple | list):
        for i, part in enumerate(tree):
            yield from _tensors(part, f"{place}[{i}]")
    elif isinstance(tree, dict):
        for key, part in tree.items():
            yield from _tensors(part, f"{place}[{key!r}]")
