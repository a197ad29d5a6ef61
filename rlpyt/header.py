"""What is said of a run before it begins."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.algos.options import ClippedOptions, QValueOptions, ReplayOptions
from rlpyt.arrays import tree_leaves
from rlpyt.build import Parts
from rlpyt.envs.spec import Box, EnvSpec, leaves
from rlpyt.errors import from_here
from rlpyt.folder import RunFolder
from rlpyt.models.images import scale
from rlpyt.replays.segments import Segments
from rlpyt.resolve import Resolved
from rlpyt.run import Run

LARGE = 1e9  # bytes of a replay whose saving is told of
MANY = 1000  # updates after a window, above which that is told of
DISK_SPEED = 150e6  # bytes a second, written, hashed and synced: measured, to the nearest 50 MB


def header(run: Run, parts: Parts, folder: RunFolder) -> list[str]:
    """What a run is, in two lines, and what of it may not be what was meant."""
    resolved, algo = parts.resolved, run.algo
    threads = f"{resolved.threads} thread{'s' if resolved.threads > 1 else ''}"
    reason = resolved.reasons.get("threads")
    shape = f"{run.env.num_envs} envs × {algo.horizon} rows"
    if isinstance(algo, ReplayOptions):
        shape += f", replay of {algo.replay_size:,} rows, ratio {algo.replay_ratio:g}"
    if isinstance(algo, ClippedOptions):
        shape += f", {algo.update_epochs} × {algo.minibatches(run.env.num_envs)} minibatches"
    where = f"{resolved.device}, {threads}" + (f" ({reason})" if reason else "")
    where += f", {_sampler(run, resolved)}" if _sampler(run, resolved) else ""
    where += ", compiled (its first update takes 10 to 30 s)" if resolved.compile else ""
    if resolved.ranks > 1:
        shape = f"on each of {resolved.ranks} ranks: {shape}; together {_together(run, resolved)}"
    what = f"rlpyt · {run.algo_name} · {run.env_name} · seed {resolved.seed}"
    lines = [
        f"{what} · {where} · {from_here(folder.path)}",
        f"preset {run.preset} ({shape}) · every flag: rlpyt train {run.algo_name} --help",
    ]
    lines += _normalizing(parts.agent.normalizer, parts.spec)
    lines += _remembering(parts.agent.model)
    return [*lines, *_windows(run), *_learning(run, resolved.ranks)]


def _together(run: Run, resolved: Resolved) -> str:
    """What the ranks' environments and batches come to."""
    algo, ranks = run.algo, resolved.ranks
    if isinstance(algo, ReplayOptions):
        batch = algo.batch_size
    elif isinstance(algo, ClippedOptions):
        batch = algo.minibatch_size
    else:
        batch = run.env.num_envs * algo.horizon
    unit = "items" if isinstance(algo, ReplayOptions) and algo.item_length > 2 else "rows"
    return f"{ranks * run.env.num_envs} envs, updates of {ranks * batch:,} {unit}"


def _sampler(run: Run, resolved: Resolved) -> str:
    """Which processes step and answer; "" where it is this one alone."""
    if resolved.sampler == "serial":
        what = "alternating groups" if resolved.groups == 2 else f"{resolved.groups} groups"
        parts = [what] if resolved.groups > 1 else []
    else:
        one = {"workers": "worker", "ray": "remote replica"}.get(resolved.sampler, "replica")
        parts = [f"{resolved.workers} {one}{'s' if resolved.workers > 1 else ''}"]
        parts += [f"{resolved.groups} groups"] if resolved.groups > 1 else []
    parts += ["asynchronous"] if run.sampler.asynchronous else []
    parts += ["strict"] if run.sampler.strict else []
    reasons = [
        why for name in ("sampler", "workers", "groups") if (why := resolved.reasons.get(name))
    ]
    return " × ".join(parts) + (f" ({'; '.join(reasons)})" if parts and reasons else "")


def saving(segments: Segments | None, run: Run) -> list[str]:
    """What a large replay costs to save."""
    if segments is None:
        return []
    size = segments.bytes_to_write(run.loop.env_steps // run.env.num_envs)
    if size < LARGE:
        return []
    what = f"checkpoints write the replay as it grows, {size / 1e9:.1f} GB in all"
    return [f"{what}, about {size / DISK_SPEED:.0f} s of the run; --no-save-replay leaves it out"]


def going_on(done: int, run: Run) -> list[str]:
    """Where a run goes on."""
    return [f"resumed at {done:,} of {run.loop.env_steps:,} env steps"] if done else []


def _windows(run: Run) -> list[str]:
    """What is odd about the windows' size."""
    lines, algo, rows = [], run.algo, run.env.num_envs * run.algo.horizon
    if rows > run.loop.env_steps:
        lines.append(
            f"one window is {rows:,} rows, more than the run's {run.loop.env_steps:,} steps: it "
            "ends with its first; --horizon and --num-envs make windows shorter"
        )
    if isinstance(algo, ReplayOptions):
        updates = int(algo.replay_ratio * min(rows, run.loop.env_steps) / algo.rows_per_update)
        if updates > MANY:
            lines.append(
                f"each window of {rows:,} rows is followed by {updates:,} updates, and Ctrl-C "
                "waits for them; a shorter --horizon has the same --replay-ratio in smaller parts"
            )
    if isinstance(algo, ClippedOptions) and rows % algo.minibatch_size:
        count = algo.minibatches(run.env.num_envs)
        lines.append(
            f"minibatch_size={algo.minibatch_size} does not divide a window of {rows:,} rows: its "
            f"minibatches are {count}, of nearly equal size, each averaged over its own rows; none "
            "is left out"
        )
    return lines


def _normalizing(normalizer: ObservationNormalizer | None, spec: EnvSpec) -> list[str]:
    """Where observations are to be normalized, and nothing of them is, or not all amounts."""
    if normalizer is None:
        return []
    lines = []
    if not normalizer.leaves:
        why = "what is observed holds no floats but such as the network scales itself"
        lines.append(f"--normalize-observation changes nothing: {why}")
    integers = [
        f"{path} ({leaf.dtype})"
        for path, leaf in leaves(spec.observation, "observation")
        if isinstance(leaf, Box) and np.dtype(leaf.dtype).kind in "iu" and scale(leaf) == 1
    ]
    if integers:
        lines.append(
            f"--normalize-observation leaves {', '.join(integers)} as it is, for integers may be "
            "names as well as amounts; what is an amount is normalized if it is declared as a "
            "Box of floats"
        )
    return lines


def _remembering(network: Any) -> list[str]:
    """Where a user's network cannot know when to forget."""
    if "first" in network.reads or not tree_leaves(network.initial_state(1)):
        return []
    what = f"{type(network).__name__} has a memory and does not read `first`: it goes on from one"
    return [f"{what} episode into the next; reset the state where inputs.first if it shall not"]


def _learning(run: Run, ranks: int) -> list[str]:
    """Where a run, or its actor, learns nothing from its replay, or not from all that is there."""
    algo, steps, num_envs = run.algo, run.loop.env_steps, run.env.num_envs * ranks
    if not isinstance(algo, ReplayOptions):
        return []
    size = algo.replay_size * ranks
    lines, rows, held = [], -(-steps // num_envs), size // num_envs * num_envs
    if rows < algo.item_length:
        lines.append(
            f"nothing is learned: an item of the replay is {algo.item_length} rows of one "
            f"environment, and {steps:,} steps are {rows:,} for each of {num_envs} (and one for "
            "each episode's end); raise --env-steps, or lower --num-envs or the items' length"
        )
    elif (updates := algo.updates(num_envs, steps)) < ranks:
        begins = algo.learning_begins(num_envs)
        first = begins + ranks * algo.rows_per_update / algo.replay_ratio
        lines.append(
            f"nothing is learned: rows are counted from step {begins:,} on, by --replay-ratio "
            f"{algo.replay_ratio:g} the first update is due at {first:,.0f}, and the run ends at "
            f"{steps:,}; raise --env-steps, or lower --learning-starts or --batch-size"
        )
    elif isinstance(algo, QValueOptions) and updates < ranks * algo.policy_delay:
        lines.append(
            f"the actor learns nothing: --policy-delay {algo.policy_delay} is more than the "
            f"{updates // ranks:,} updates of {steps:,} steps; raise --env-steps or "
            "--replay-ratio, or lower --policy-delay"
        )
    else:
        lines += _target(run, updates // ranks)
    if algo.start_interval > len(algo.trained):
        every, rows = algo.start_interval, len(algo.trained)
        lines.append(
            f"of every {every} rows {rows} are learned from and the others never: a sequence "
            f"begins at every --state-interval {every}th row, and trains --train-rows {rows}; "
            "lower the one, or raise the other"
        )
    if algo.learning_starts > held:
        lines.append(
            f"learning starts at {algo.learning_starts:,} steps, and the replay holds the newest "
            f"{held:,} rows: nothing is learned from those before; lower --learning-starts, or "
            "raise --replay-size"
        )
    return lines


def _target(run: Run, updates: int) -> list[str]:
    """Where the target network is at the end hardly another than at the beginning."""
    algo = run.algo
    assert isinstance(algo, ReplayOptions)
    if getattr(run.model, "batch_norm", False):  # without target networks
        return []
    times = updates // algo.target_update_updates
    share = 1 - (1 - algo.target_tau) ** times
    if share >= 0.5:
        return []
    what = "stays as it began" if not times else f"moves {share:.0%} of its way in all the run"
    line = (
        f"the target network {what}: it follows by --target-tau {algo.target_tau:g} every "
        f"{algo.target_update_updates:,} updates, and the run makes {updates:,}; raise --env-steps"
        f"{' or --target-tau' if times else ''}"
        f"{', or lower --target-update-updates' if algo.target_update_updates > 1 else ''}"
    )
    return [line]
