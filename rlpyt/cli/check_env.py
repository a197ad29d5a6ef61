"""rlpyt check-env: look for mistakes in an environment before anything is trained on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from rlpyt.cli.parsing import parse_or_help


@dataclass(frozen=True)
class CheckOptions:
    """Play an environment with random actions and say what is wrong with what comes back."""

    env: Annotated[str, Positional, arg(metavar="ENV")] = ""
    """A Gymnasium id, module:Id, or module:function that returns a gymnasium.Env."""

    env_kwargs: tuple[str, ...] = ()
    """key=value arguments of the environment."""

    wrapper: tuple[str, ...] = ()
    """module:function wrappers, the first one innermost."""

    steps: int = 1000
    """Environment steps to play."""

    json: bool = False
    """Print the findings as one JSON object."""


def main(argv: Sequence[str]) -> int:
    """Check an environment; returns 1 where it has an error, else 0."""
    options = parse_or_help(CheckOptions(), argv, "rlpyt check-env")
    if options is None:
        return 0
    from rlpyt.cli.output import one_object
    from rlpyt.envs.check import check
    from rlpyt.envs.exits import no_exit
    from rlpyt.envs.make import make
    from rlpyt.envs.options import EnvOptions

    env_options = EnvOptions(options.env, env_kwargs=options.env_kwargs, wrapper=options.wrapper)
    with one_object(options.json) as print_object:
        env = make(env_options)
        with no_exit(f"env={options.env}"), closing(env):
            for what in ("observation", "action"):
                print(f"{what:13}{getattr(env, f'{what}_space', 'no space')}")
            findings = check(env, env_options, steps=options.steps)
        for finding in findings:
            print(finding)
        errors = sum(finding.severity == "error" for finding in findings)
        print(f"{options.env}: {_said(errors)}")
        print_object({"env": options.env, "findings": [dataclasses.asdict(x) for x in findings]})
    return 1 if errors else 0


def _said(errors: int) -> str:
    if errors:
        return f"{errors} error{'s' if errors > 1 else ''}; training would fail or be wrong"
    return "nothing that stands in the way of training"
