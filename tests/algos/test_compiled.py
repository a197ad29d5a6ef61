"""What is compiled is called without torch.compile's wrapper, and as right as with it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from rlpyt.algos import compiled as subject
from rlpyt.algos.compiled import KEPT, Compiled
from rlpyt.arrays import namedarraytuple

Rows = namedarraytuple("Rows", ["x", "nothing"])


class Draws(NamedTuple):
    noise: Tensor | None


class Scaled(nn.Module):
    """Reads a parameter, a buffer, a number, and what it is given."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor(2.0))
        self.bias = 0.5
        self.calls = 0

    def plain(self, rows: Any, draws: Draws) -> Tensor:
        noise = 0.0 if draws.noise is None else draws.noise
        return self.linear(rows.x) * self.scale + self.bias + noise


class Teacher:
    """A loss that holds a network."""

    def __init__(self) -> None:
        self.network = nn.Linear(2, 2)

    def loss(self, x: Tensor) -> Tensor:
        return (x - self.network(x)).square().mean()


def rows(n: int = 4) -> Any:
    return Rows(torch.randn(n, 3), None)


def compiled(function: Callable[..., Tensor], module: nn.Module) -> Compiled:
    return Compiled(function, module, [torch.zeros(1)])


def alone(function: Compiled) -> Compiled:
    """The function, where calling it through torch.compile is an error."""
    assert function._directs

    def refuse(**_: Any) -> Tensor:
        raise AssertionError("called through torch.compile")

    function._compiled = refuse
    return function


def test_from_the_second_call_on_the_graph_is_called_alone(graphs: list[Any]) -> None:
    module, given = Scaled(), (rows(), Draws(torch.randn(2)))
    function = compiled(module.plain, module)
    function(*given)
    alone(function)
    for _ in range(3):
        given = rows(), Draws(torch.randn(2))
        torch.testing.assert_close(function(*given), module.plain(*given))
    with torch.no_grad():
        module.linear.weight.fill_(3.0)
        module.scale.fill_(-1.0)
    torch.testing.assert_close(function(*given), module.plain(*given))
    assert len(graphs) == 1


def test_what_was_given_first_is_not_kept(graphs: list[Any]) -> None:
    module, first = Scaled(), rows()
    function = compiled(module.plain, module)
    function(first, Draws(None))
    (direct,) = function._directs
    own = direct.call.__globals__["own"]
    assert len(own) == 3 and all(x is not first.x for x in own)


def test_a_tensor_that_is_given_twice_is_not_taken_for_the_other(graphs: list[Any]) -> None:
    module = Scaled()
    function = compiled(lambda a, b: a * module.scale, module)
    x, y = torch.randn(3), torch.randn(3)
    for given in ((x, x), (x, x), (x, y), (y, x), (x, None)):
        torch.testing.assert_close(function(*given), 2 * given[0])


def test_losses_with_networks_of_their_own_do_not_answer_for_each_other(graphs: list[Any]) -> None:
    """As two methods of objects of one class, each of which holds a frozen teacher."""
    module, teachers = Scaled(), [Teacher() for _ in range(2)]
    function = compiled(lambda loss, x: loss(module.linear(x)), module)
    x = torch.randn(4, 3)
    for _ in range(2):
        for teacher in teachers:
            torch.testing.assert_close(function(teacher.loss, x), teacher.loss(module.linear(x)))
    assert not function._directs


def test_what_is_called_in_vain_is_looked_at_a_few_times_only(
    graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, hidden, looks = Scaled(), torch.ones(2), []
    function = compiled(lambda x: module.linear(x) + hidden, module)
    found = subject.Compiled._found
    monkeypatch.setattr(subject.Compiled, "_found", lambda *given: looks.append(1) or found(*given))
    for _ in range(3 * KEPT):
        function(torch.randn(4, 3))
    assert len(looks) == KEPT and not subject.calls


def test_after_a_reset_of_the_compiler_it_is_compiled_anew(graphs: list[Any]) -> None:
    module, given = Scaled(), (rows(), Draws(None))
    function = compiled(module.plain, module)
    for _ in range(2):
        function(*given)
    torch.compiler.reset()
    function(*given)
    assert len(graphs) == 2


CHANGES: dict[str, Callable[[Scaled], object]] = {
    "a number": lambda m: setattr(m, "bias", 7.0),
    "a buffer in another's place": lambda m: setattr(m, "scale", torch.tensor(9.0)),
    "a layer in another's place": lambda m: setattr(m, "linear", nn.Linear(3, 2)),
    "another kind of layer": lambda m: setattr(m, "linear", nn.Sequential(nn.Linear(3, 2))),
    "a parameter in another's place": lambda m: setattr(
        m.linear, "weight", nn.Parameter(torch.ones(2, 3))
    ),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_that_torch_compile_would_see_is_seen(name: str, graphs: list[Any]) -> None:
    module = Scaled()
    function = compiled(module.plain, module)
    given = rows(), Draws(None)
    before = function(*given)
    assert torch.equal(function(*given), before)
    CHANGES[name](module)
    expected = module.plain(*given)
    assert not torch.allclose(expected, before)
    torch.testing.assert_close(function(*given), expected)


def test_control_without_guards_a_change_is_not_seen(
    graphs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "_guards", lambda _: lambda _: True)
    module, given = Scaled(), (rows(), Draws(None))
    function = compiled(module.plain, module)
    before = function(*given)
    module.bias = 7.0
    assert torch.equal(function(*given), before)


def test_each_shape_and_structure_has_a_call_of_its_own(graphs: list[Any]) -> None:
    module = Scaled()
    function = compiled(module.plain, module)
    kinds = [(rows(n), draws) for n in (4, 5) for draws in (Draws(None), Draws(torch.randn(2)))]
    for given in kinds:
        torch.testing.assert_close(function(*given), module.plain(*given))
    assert len(function._directs) == len(graphs) == len(kinds) <= KEPT
    alone(function)
    for given in kinds:
        torch.testing.assert_close(function(*given), module.plain(*given))


def test_two_modules_of_one_structure_do_not_answer_for_each_other(graphs: list[Any]) -> None:
    modules = [Scaled() for _ in range(2)]
    functions = [compiled(module.plain, module) for module in modules]
    given = rows(), Draws(None)
    for _ in range(3):
        for module, function in zip(modules, functions, strict=True):
            torch.testing.assert_close(function(*given), module.plain(*given))


@pytest.mark.parametrize("name", ["writes", "appends", "breaks", "calls", "hides"])
def test_what_is_more_than_a_graph_goes_through_torch_compile(name: str, graphs: list[Any]) -> None:
    """Side effects, breaks in the graph, a tensor that nobody can name."""
    module, hidden, seen = Scaled(), [torch.ones(2)], []
    note: Any = torch.compiler.disable(lambda: seen.append(1))

    def loss(rows: Any) -> Tensor:
        if name == "writes":
            module.calls = 7
        elif name == "appends":
            seen.append(1)
        elif name == "breaks":
            torch._dynamo.graph_break()
        elif name == "calls":
            note()
        elif name == "hides":
            return module.linear(rows.x) + hidden[0]
        return module.linear(rows.x) * 2

    function, given = compiled(loss, module), rows()
    for _ in range(3):
        torch.testing.assert_close(function(given), loss(given))
    hidden[0], module.calls = torch.zeros(2), 0
    found = function(given)
    assert (module.calls == 7) == (name == "writes")
    torch.testing.assert_close(found, loss(given))
    assert not function._directs
    assert len(seen) == (8 if name in ("appends", "calls") else 0)
