"""An agent in a folder: that of a run, one of its checkpoints, or one of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlpyt import checkpoint
from rlpyt.envs.saved_spaces import encode, encode_spec
from rlpyt.envs.spec import EnvSpec
from rlpyt.errors import UsageError, from_here
from rlpyt.folder import RunFolder
from rlpyt.run import Run

ALONE = "a saved agent has neither optimizer nor schedules to learn on with"


@dataclass(frozen=True)
class Saved:
    """What a folder holds of an agent."""

    algo: str
    run: Run  # with its seed, drawn if it was not given
    env_steps: int
    weights: dict[str, Any]  # normalizers included
    folder: Path | None  # of the run; None where an agent was saved alone
    spaces: dict[str, Any] = field(default_factory=dict)  # of an agent saved alone, and its `spec`

    def why_it_stays(self, changed: list[str]) -> str:
        """Why what was loaded cannot learn on; "" where it can.

        Args:
            changed: options that load was given, other than the run's.
        """
        if self.folder is None:
            return f"{ALONE}; load its run's folder, or start a run with init_from=that folder"
        if changed:
            return (
                f"load was given {', '.join(changed)}, and a run goes on with the options that it "
                "began with; load it without to learn on, or start a run with init_from=its folder"
            )
        return ""


def read(path: Path, best: bool = False) -> Saved:
    """The agent of a folder.

    Args:
        path: of a run, of one of its checkpoints, or what `write` wrote.
        best: of a run, the checkpoint with the best evaluation; otherwise the newest.
    """
    if path.name == "best" and path.parent.name == "checkpoints" and path.is_file():
        path, best = path.parent.parent, True
    one = path.parent.name == "checkpoints" and not (path / "run.json").exists()
    folder = path.parent.parent if one else path
    record, run = RunFolder(folder).read(), RunFolder(folder).run()
    run = replace(run, loop=replace(run.loop, seed=record["seed"]))
    alone = record["status"] == "saved"
    where = folder / "checkpoints" if folder == path and not alone else path
    if best:
        found = checkpoint.best(folder / "checkpoints")
        if found is None:
            raise UsageError(
                f"{path} has no best checkpoint: no evaluation chose one (eval_episodes=0), or it "
                "is an agent that was saved alone; leave out best"
            )
        where = found
    state, meta = checkpoint.load(where)
    spaces = {"spaces": state["spaces"], "spec": state["spec"]} if alone else {}
    home = None if alone else folder
    return Saved(record["algo"], run, meta["env_steps"], state["agent"], home, spaces)


def refuse_alone(folder: RunFolder) -> None:
    """Raise where what is to go on is an agent that was saved alone."""
    if folder.read()["status"] == "saved":
        path = from_here(folder.path)
        raise UsageError(
            f"{path}: {ALONE}; go on with its run's folder, or start a run with init_from={path}"
        )


def write(
    path: Path, run: Run, env_steps: int, weights: dict[str, Any], spec: EnvSpec, spaces: Any
) -> None:
    """Write an agent alone: weights, normalizers, options and spaces, as JSON and safetensors.

    Args:
        path: a folder; one that holds an agent of `write` is replaced, others must be new or empty.
        run: with its seed.
        spaces: the environment's own, of observations and of actions.
    """
    if path.exists() and not _may_be_replaced(path):
        raise UsageError(
            f"{path} exists and is no saved agent; saving would delete what is there: choose a "
            "new folder"
        )
    state = {
        "agent": weights,
        "spaces": [encode(space) for space in spaces],
        "spec": encode_spec(spec, run.env.float64_as),
    }
    checkpoint.write(path, env_steps, state)
    record = RunFolder(path)
    record.begin(run, {"seed": run.loop.seed})
    record.update(status="saved", env_steps=env_steps)


def _may_be_replaced(path: Path) -> bool:
    """Whether a folder is empty or holds an agent of `write`."""
    if path.is_dir() and not any(path.iterdir()):
        return True
    try:
        return RunFolder(path).read()["status"] == "saved"
    except UsageError:
        return False
