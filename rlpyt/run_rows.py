"""Where a run's rows lie: made alike by every process that has a part in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlpyt.agent_making import Agent, make_window
from rlpyt.agents.policy_gradient import PolicyGradientAgent
from rlpyt.algos.options import ReplayOptions
from rlpyt.envs.spec import EnvSpec
from rlpyt.ring import Ring
from rlpyt.ring_window import RingWindow
from rlpyt.rotation import Rotation
from rlpyt.rows import Window, example_row
from rlpyt.run import Run
from rlpyt.storage import Memory, to_device


def make_rows(
    run: Run,
    spec: EnvSpec,
    agent: Agent,
    memory: Memory | None = None,
    *,
    states: bool = False,
    ring: Callable[..., Ring] = Ring,
) -> Window | Rotation | RingWindow:
    """The window that a run collects into; that of a replay is part of its ring.

    Args:
        memory: shared. Processes that are to see the same rows call this with the same options.
        states: whether the states that agents are fed lie there, too, for who answers elsewhere.
        ring: the kind of a replay's ring; one that only writes needs no more than the plain one.
    """
    num_envs, algo = run.env.num_envs, run.algo
    state_memory = memory if states else None
    if not isinstance(algo, ReplayOptions):
        interval = algo.state_interval
        if run.sampler.asynchronous:
            return Rotation(
                example_row(spec, agent.example_kept()),
                algo.horizon,
                num_envs,
                run.sampler.max_lag + 1,
                reads=agent.model.reads,
                frame_stack=spec.frame_stack,
                state=agent.model.initial_state(num_envs),
                state_interval=interval,
                memory=memory,
                state_memory=state_memory,
            )
        return make_window(
            spec,
            agent,
            algo.horizon,
            num_envs,
            interval,
            memory=memory,
            state_memory=state_memory,
        )
    assert not isinstance(agent, PolicyGradientAgent)
    state = agent.model.initial_state(num_envs)
    kept: Any = ring(
        example_row(spec, agent.example_kept()),
        algo.replay_size // num_envs,
        num_envs,
        algo.horizon,
        reads=agent.model.reads,
        frame_stack=spec.frame_stack,
        state=to_device(agent.kept_state(state), "cpu"),
        state_interval=algo.start_interval,
        asynchronous=run.sampler.asynchronous,
        lag=run.sampler.max_lag,
        shared=memory,
    )
    return RingWindow(kept.blocks[0], state, state_memory)
