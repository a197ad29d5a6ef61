"""Imports go only downward, and what help needs loads neither torch nor numpy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rlpyt"

# From the top: a module imports from lines below its own, and from its own folder. A name stands
# for a module or a folder of rlpyt.
LAYERS = [
    ["__main__"],
    ["cli"],
    ["launch"],
    ["api"],
    ["trained_agent"],
    ["view"],
    ["training"],
    ["header", "presets", "runner"],
    ["evaluations"],
    ["one_run"],
    ["build"],
    ["remote"],
    ["run_rows"],
    ["acting", "saved"],
    ["agent_making"],
    ["evaluation", "folder", "policy", "resolve", "run_options"],
    ["run"],
    ["samplers", "algos", "logging"],
    ["vector"],
    ["envs"],
    ["agents"],
    ["models"],
    ["replays"],
    ["checkpoint", "rules"],
    ["returns"],
    ["functional", "distributions", "means", "schedules", "tree_format"],
    ["ring_window", "rotation"],
    ["ring"],
    ["block"],
    ["rows", "noise"],
    ["places"],
    ["frames", "packed"],
    ["ranks"],
    ["processes"],
    ["storage"],
    ["memory_budget"],
    ["arrays"],
    ["flags"],
    ["cores"],
    ["torchrun"],
    ["descriptors", "errors", "faultpoints", "generators", "stopping", "suggest"],
]
LEVEL = {name: level for level, names in enumerate(reversed(LAYERS)) for name in names}
# Specifications and options import nothing but numpy or tyro: every layer may read them.
FREE = {"rlpyt.envs.spec", "rlpyt.envs.options", "rlpyt.models.options", "rlpyt.algos.options"}
FREE |= {"rlpyt.samplers.options"}
WITHOUT_DEPENDENCIES = {
    *("errors", "faultpoints", "flags", "folder", "presets", "rules", "run", "run_options"),
    "suggest",
}
WRITERS = ("arrays", "noise", "places", "rows", "envs.spec", "vector.worker_loop")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    parts = module.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(module: Path, *, at_load: bool = False) -> Iterator[tuple[str, int]]:
    """Absolute names that a module imports, with the line; `at_load` leaves out functions'."""

    def visit(node: ast.AST) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, child.lineno) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{module}:{child.lineno}: imports here are absolute"
                for alias in child.names:
                    yield f"{child.module}.{alias.name}", child.lineno
            elif at_load and (is_function(child) or is_type_checking(child)):
                continue
            else:
                yield from visit(child)

    yield from visit(ast.parse(module.read_text()))


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def layer(name: str) -> str:
    """`rlpyt.models.memory` lies in the layer `models`; the package itself is free."""
    return name.split(".")[1] if name.count(".") else ""


def test_every_module_has_a_layer() -> None:
    unplaced = {layer(name_of(module)) for module in modules()} - LEVEL.keys() - {""}
    assert not unplaced, f"give {sorted(unplaced)} a line in LAYERS"


def test_imports_go_only_downward() -> None:
    upward = []
    for module in modules():
        own = layer(name_of(module))
        for name, line in imports(module, at_load=True):
            other = layer(name) if name.startswith("rlpyt.") else ""
            free = not own or other in ("", own) or {name, name.rpartition(".")[0]} & FREE
            if not free and LEVEL[other] >= LEVEL[own]:
                upward.append(f"{module.relative_to(PACKAGE)}:{line} imports {other}")
    assert not upward


def test_gymnasium_is_imported_only_where_spaces_are_translated() -> None:
    elsewhere = [
        f"{module.relative_to(PACKAGE)}:{line}"
        for module in modules()
        for name, line in imports(module)
        if name.split(".")[0] == "gymnasium" and layer(name_of(module)) not in ("envs", "vector")
    ]
    assert not elsewhere


def test_optimizers_come_without_torch_optim_and_files_without_pickles() -> None:
    banned = ("torch.optim", "pickle", "dill")
    found = [
        f"{module.relative_to(PACKAGE)}:{line} imports {name}"
        for module in modules()
        for name, line in imports(module)
        if name.startswith(banned)
    ]
    assert not found


def light_modules() -> list[str]:
    """What `rlpyt --help` and `rlpyt train ppo --help` load."""
    named = [name_of(module) for module in modules()]
    light = [n for n in named if n.endswith(".options") or layer(n) in WITHOUT_DEPENDENCIES]
    return ["rlpyt", *(n for n in ("rlpyt.cli",) if n in named), *light]


@pytest.mark.parametrize("name", light_modules())
def test_what_help_loads_imports_neither_torch_nor_numpy(name: str) -> None:
    assert loaded_by(name, ("torch", "numpy", "gymnasium")) == ""


@pytest.mark.parametrize("name", WRITERS)
def test_what_workers_load_does_not_import_torch(name: str) -> None:
    assert loaded_by(f"rlpyt.{name}", ("torch",)) == ""


def loaded_by(name: str, heavy: tuple[str, ...]) -> str:
    """Which of the `heavy` modules a new interpreter has after importing `name`."""
    script = f"import sys, {name}; print(*[m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
