"""Checkpoints that are complete or not there: written aside, hashed, fsynced, renamed.

A checkpoint is a folder named by its env steps, of two files that JSON and safetensors can read:

    checkpoints/
      000000051200/  state.safetensors   every array and tensor of the state
                     meta.json           format, env_steps, the SHA-256 of both files, and the
                                         state's structure, numbers and text (`tree_format`)
      best                               the name of the best checkpoint by evaluation

Whatever interrupts a save (SIGKILL, a power cut, a full disk), the checkpoints before it stay
whole. A damaged file is noticed by its hash, and the checkpoint before it is loaded instead. One
process may save into a folder; any number may read it meanwhile.
"""

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch

from rlpyt import tree_format
from rlpyt.errors import UsageError, reason_of
from rlpyt.faultpoints import faultpoint
from rlpyt.tree_format import like as like

FORMAT = 1
UNHASHED = "0" * 64  # stands in meta.json for its own hash while that is computed
WRITE_BYTES = 1 << 24


class Damaged(Exception):
    """A checkpoint whose files are missing or are not what was written."""


def save(folder: Path | str, env_steps: int, state: Any, keep: int) -> Path:
    """Write `folder/{env_steps:012d}`; then drop all but the newest `keep` and the best.

    Checkpoints of more env steps are dropped as well: this run was resumed from before them, so
    they lie on a course that it has left.

    Args:
        state: nested dicts with text keys, NamedArrayTuples, lists and tuples of arrays, tensors,
            numbers, text and None.
        keep: at least 1.
    """
    if keep < 1:
        raise UsageError(f"keep={keep} would keep no checkpoint; choose 1 or more")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _tidy(folder)
    checkpoint = folder / f"{env_steps:012d}"
    write(checkpoint, env_steps, state)
    _rotate(folder, checkpoint, keep)
    return checkpoint


def load(
    path: Path | str, accept: Callable[[Any], object] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Read a checkpoint, or the newest whole one of a folder of checkpoints.

    Args:
        accept: reads what the state names beside the checkpoint; where that is not whole it raises
            Damaged, and the checkpoint before is tried as if this one were damaged itself.

    Returns:
        The state, its NamedArrayTuples as dicts and its tensors on the CPU (`like` gives it the
        form of a template), and what else meta.json holds.
    """
    path = Path(path)
    if path.name and not path.exists() and _hidden(path, "old").exists():
        path = _hidden(path, "old")  # a save was interrupted while it replaced this one
    if _is_name(path) or (path / "meta.json").exists():
        try:
            return _accepted(path, accept)
        except Damaged as damage:
            raise UsageError(f"{damage}; choose another checkpoint of {path.parent}") from None
    checkpoints, last = _newest_first(path), ""
    for checkpoint in checkpoints:
        try:
            return _accepted(checkpoint, accept)
        except Damaged as damage:
            last = str(damage)
            if checkpoint.exists():
                warnings.warn(f"{damage}; trying the checkpoint before it", RuntimeWarning, 2)
    if _newest_first(path) != checkpoints:  # a training that still runs has moved on
        return load(path, accept)
    if checkpoints:
        raise UsageError(
            f"every checkpoint in {path} is damaged; restore a copy or train anew ({last})"
        )
    raise UsageError(f"no checkpoint in {path}; one is written at every checkpoint interval")


def latest(folder: Path | str) -> Path | None:
    """The checkpoint of most env steps; `load` is who finds out whether its files are whole."""
    return next(iter(_newest_first(Path(folder))), None)


def names(folder: Path | str) -> list[str]:
    """Those of the complete checkpoints, newest first."""
    return [checkpoint.name for checkpoint in _newest_first(Path(folder))]


def listings(folder: Path | str, rank: int = 0) -> list[Any]:
    """What the states of a folder's checkpoints hold under "replay": no arrays, so from meta.json.

    One whose meta.json is damaged cannot be loaded and is left out, as are those without a replay.

    Args:
        rank: whose; those of the others lie in the state's "others".
    """
    found = []
    for checkpoint in _newest_first(Path(folder)):
        try:
            tree = _read_meta(checkpoint / "meta.json")["tree"]
            tree = tree["dict"]["others"][rank - 1] if rank else tree
        except Damaged:
            continue
        replay = tree_format.decode(tree["dict"].get("replay"), {})
        found += [] if replay is None else [replay]
    return found


def steps(folder: Path | str) -> int:
    """Env steps of the latest checkpoint; 0 without any."""
    newest = latest(folder)
    return 0 if newest is None else int(newest.name.strip(".old"))


def mark_best(checkpoint: Path) -> None:
    """Point `best` to this checkpoint, which rotation then keeps."""
    aside = checkpoint.with_name(".best.part")
    _write_file(aside, checkpoint.name.encode())
    faultpoint("checkpoint:rename best")
    os.replace(aside, checkpoint.with_name("best"))
    sync(checkpoint.parent)


def best(folder: Path | str) -> Path | None:
    """The checkpoint that was marked last, if it is still there."""
    pointer = Path(folder) / "best"
    checkpoint = Path(folder) / (pointer.read_text() if pointer.exists() else "")
    return checkpoint if _is_name(checkpoint) and checkpoint.exists() else None


def write(checkpoint: Path | str, env_steps: int, state: Any) -> None:
    """Write one checkpoint of any name; one that has it already is replaced as a whole."""
    checkpoint = Path(checkpoint)
    files = _serialize(env_steps, state)
    part = _hidden(checkpoint, "part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        faultpoint("checkpoint:make folder")
        part.mkdir(parents=True)
        for name, data in files.items():
            _write_file(part / name, data)
        sync(part)
        _install(part, checkpoint)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        if (old := _hidden(checkpoint, "old")).exists() and not checkpoint.exists():
            os.rename(old, checkpoint)
        what = f"{reason_of(error)}; {checkpoint} not written, the checkpoints before it are whole"
        raise OSError(error.errno, what) from error


def sync(folder: Path) -> None:
    """Make the names in a folder outlast a power cut; Windows has no such call."""
    if os.name == "nt":
        return
    faultpoint("checkpoint:fsync folder")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _serialize(env_steps: int, state: Any) -> dict[str, bytes]:
    tree, tensors = tree_format.encode(state)
    data = safetensors.torch.save(tensors)
    hashes = {"meta.json": UNHASHED, "state.safetensors": hashlib.sha256(data).hexdigest()}
    meta = {"format": FORMAT, "env_steps": env_steps, "sha256": hashes, "tree": tree}
    text = json.dumps(meta, indent=1) + "\n"
    text = text.replace(UNHASHED, hashlib.sha256(text.encode()).hexdigest(), 1)
    return {"state.safetensors": data, "meta.json": text.encode()}


def _install(part: Path, checkpoint: Path) -> None:
    """Give a complete folder its name; the one that has it is set aside meanwhile."""
    old = _hidden(checkpoint, "old")
    if checkpoint.exists():
        shutil.rmtree(old, ignore_errors=True)
        faultpoint("checkpoint:rename old")
        os.rename(checkpoint, old)
    faultpoint("checkpoint:rename new")
    os.rename(part, checkpoint)
    sync(checkpoint.parent)
    shutil.rmtree(old, ignore_errors=True)


def _accepted(
    checkpoint: Path, accept: Callable[[Any], object] | None
) -> tuple[Any, dict[str, Any]]:
    state, meta = _read(checkpoint)
    if accept is not None:
        accept(state)
    return state, meta


def _read(checkpoint: Path) -> tuple[Any, dict[str, Any]]:
    meta = _read_meta(checkpoint / "meta.json")
    path = checkpoint / "state.safetensors"
    data = _read_bytes(path)
    if hashlib.sha256(data).hexdigest() != meta["sha256"]["state.safetensors"]:
        raise Damaged(f"{path} is damaged (its SHA-256 is not the one in meta.json)")
    return tree_format.decode(meta.pop("tree"), safetensors.torch.load(data)), meta


def _read_meta(path: Path) -> dict[str, Any]:
    damaged = Damaged(f"{path} is damaged (its SHA-256 is not the one that it holds)")
    try:
        text = _read_bytes(path).decode()
        meta = json.loads(text)
        stored = meta["sha256"]["meta.json"]
        unhashed = text.replace(stored, UNHASHED, 1)
    except (ValueError, KeyError, TypeError):
        raise damaged from None
    if hashlib.sha256(unhashed.encode()).hexdigest() != stored:
        raise damaged
    if meta["format"] > FORMAT:
        raise UsageError(
            f"{path} has format {meta['format']} and this rlpyt reads formats up to {FORMAT}; "
            "upgrade rlpyt"
        )
    return meta


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror})") from None


def _write_file(path: Path, data: bytes) -> None:
    faultpoint(f"checkpoint:open {path.name}")
    with open(path, "wb") as file:
        for start in range(0, len(data), WRITE_BYTES):
            faultpoint(f"checkpoint:write {path.name}")
            file.write(data[start : start + WRITE_BYTES])
        file.flush()
        faultpoint(f"checkpoint:fsync {path.name}")
        os.fsync(file.fileno())


def _rotate(folder: Path, saved: Path, keep: int) -> None:
    newest_first = _newest_first(folder)
    at = newest_first.index(saved)
    pinned = best(folder)
    behind = [checkpoint for checkpoint in newest_first[at + keep :] if checkpoint != pinned]
    for checkpoint in newest_first[:at] + behind:
        gone = _hidden(checkpoint, "gone")  # by one rename: no name is ever half a checkpoint
        shutil.rmtree(gone, ignore_errors=True)
        faultpoint("checkpoint:rename gone")
        os.rename(checkpoint, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _tidy(folder: Path) -> None:
    """Finish what an interrupted save left: what it set aside returns, its scraps go."""
    for path in folder.iterdir():
        hidden = re.fullmatch(r"\.([0-9]{12,})\.(old|part|gone)", path.name)
        if hidden and hidden[2] == "old" and not (folder / hidden[1]).exists():
            faultpoint("checkpoint:rename back")
            os.rename(path, folder / hidden[1])
        elif hidden:
            shutil.rmtree(path, ignore_errors=True)


def _newest_first(folder: Path) -> list[Path]:
    """The complete checkpoints; one that was set aside counts while none has its name."""
    found = list(folder.iterdir()) if folder.is_dir() else []
    complete = {int(path.name): path for path in found if _is_name(path)}
    aside = {int(m[1]): p for p in found if (m := re.fullmatch(r"\.([0-9]{12,})\.old", p.name))}
    by_steps = aside | complete
    return [by_steps[env_steps] for env_steps in sorted(by_steps, reverse=True)]


def _is_name(path: Path) -> bool:
    return re.fullmatch(r"[0-9]{12,}", path.name) is not None


def _hidden(checkpoint: Path, ending: str) -> Path:
    return checkpoint.with_name(f".{checkpoint.name}.{ending}")
