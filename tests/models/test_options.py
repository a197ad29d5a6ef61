"""Options of the network are read by the command line's help, which imports no torch."""

import ast
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from pathlib import Path

import pytest

from rlpyt.models import options
from rlpyt.models.options import ModelOptions


def test_importing_the_options_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, rlpyt.models.options; "
        "assert not {'torch', 'numpy'} & sys.modules.keys(), 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(options.__file__).parents[2])


def test_options_are_frozen_and_each_has_a_docstring() -> None:
    with pytest.raises(FrozenInstanceError):
        ModelOptions().memory_size = 1
    tree = ast.parse(Path(options.__file__).read_text())
    for kind in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        documented = {
            field.target.id
            for field, text in pairwise([*kind.body, None])
            if isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        }
        own = getattr(options, kind.name).__annotations__
        assert documented == own.keys() and own.keys() <= {
            field.name for field in fields(getattr(options, kind.name))
        }
