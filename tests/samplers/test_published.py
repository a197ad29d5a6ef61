"""Weights by version: an actor has all of one publication, whoever is at work or was killed."""

import os
import signal
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rlpyt import faultpoints
from rlpyt.agents.normalizers import ObservationNormalizer
from rlpyt.models.flat import FlatParameters
from rlpyt.samplers import published as module
from rlpyt.samplers.published import Published
from rlpyt.storage import Memory, zeros


class Anonymous:
    """Memory that others, forked later, see too; each of them keeps the parts made here."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.next = 0

    def again(self) -> "Anonymous":
        """The same, as another process receives it."""
        other = Anonymous()
        other.parts = self.parts
        return other

    def zeros(self, example: Any, leading: tuple[int, ...] = ()) -> Any:
        if self.next == len(self.parts):
            self.parts.append(zeros(example, leading))
        self.next += 1
        return self.parts[self.next - 1]


class Network(nn.Module):
    """Parameters and buffers of several kinds, shapes and orders of dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.image = nn.Parameter(
            torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
        )
        self.short = nn.Parameter(torch.randn(5).bfloat16(), requires_grad=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("nothing", torch.zeros(0))


def agent(seed: int = 0, normalize: bool = True) -> Any:
    torch.manual_seed(seed)
    normalizer = ObservationNormalizer(np.zeros(4, np.float32)) if normalize else None
    network = Network()
    modules = [network] if normalizer is None else [network, normalizer]
    return SimpleNamespace(model=network, normalizer=normalizer, acting=lambda: modules)


def tensors(agent: Any) -> list[torch.Tensor]:
    modules = [x for x in (agent.model, agent.normalizer) if x is not None]
    return [x.detach().clone() for m in modules for x in (*m.parameters(), *m.buffers())]


def same(a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


def fill(agent: Any, value: int) -> None:
    """Every number of an agent becomes `value`."""
    with torch.no_grad():
        for m in (agent.model, agent.normalizer):
            for x in (*m.parameters(), *m.buffers()) if m is not None else ():
                x.fill_(value)


def values(agent: Any) -> set[float]:
    return {x for part in tensors(agent) for x in part.double().flatten().tolist()}


def pair(**options: Any) -> tuple[Any, Published, Any, Published]:
    """A learner's agent, its publications, an actor's agent, and what that takes."""
    memory, learner, actor = Anonymous(), agent(0), agent(1)
    return (
        learner,
        Published(learner, memory, **options),
        actor,
        Published(actor, memory.again(), **options),
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_an_actor_takes_weights_and_statistics_bit_for_bit(normalize):
    memory, learner, actor = Anonymous(), agent(0, normalize), agent(1, normalize)
    writer, reader = Published(learner, memory), Published(actor, memory.again())
    if normalize:
        learner.normalizer.update(torch.randn(2, 3, 4))
    assert not same(learner, actor)
    assert writer.publish() == 1
    assert reader.take() == 1
    assert same(learner, actor)
    assert actor.model.image.is_contiguous(memory_format=torch.channels_last)


def test_weights_of_zero_are_what_the_next_window_acts_with():  # B085
    learner, writer, actor, reader = pair()
    writer.publish()
    reader.take()
    fill(learner, 0)
    assert values(actor) != {0.0}
    writer.publish()
    reader.take()
    assert values(actor) == {0.0}


def test_parameters_that_moved_into_a_flat_vector_are_found_there():
    learner, writer, actor, reader = pair()
    plain = nn.ModuleList([learner.model.linear])
    flat = FlatParameters(plain)
    flat.vector.add_(1.0)
    own = FlatParameters(nn.ModuleList([actor.model.linear]))
    writer.publish()
    reader.take()
    assert same(learner, actor)
    own.assert_intact()


def test_nothing_is_copied_twice_and_nothing_is_taken_before_the_first_publication(monkeypatch):
    _, writer, _, reader = pair()
    with pytest.raises(RuntimeError, match="before any was published"):
        reader.take()
    assert [writer.publish() for _ in range(3)] == [1, 1, 1]
    copies: list[int] = []
    monkeypatch.setattr(module, "copy_tensors", lambda to, given: copies.append(1))
    assert [reader.take() for _ in range(3)] == [1, 1, 1]
    assert len(copies) == 1


def test_a_change_of_any_one_number_is_published():
    learner, writer, actor, reader = pair()
    writer.publish()
    for part in (learner.model, learner.normalizer):
        for tensor in (*part.parameters(), *part.buffers()):
            if tensor.numel():
                version = writer.version
                with torch.no_grad():
                    tensor[(-1,) * tensor.dim()] += 1
                assert writer.publish() == version + 1
                assert reader.take() == version + 1
                assert same(learner, actor)


def test_a_writer_killed_while_it_copies_leaves_the_version_before(monkeypatch):  # F29
    learner, writer, actor, reader = pair(checked=True)
    writer.publish()
    fill(learner, 7)

    def die(to: Any, given: Any) -> None:
        to[0].copy_(given[0])  # some of it is there
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "copy_tensors", die)
        with pytest.raises(KeyboardInterrupt):
            writer.publish()
    assert reader.take() == 1
    assert values(actor) != {7.0}
    assert writer.publish() == 2  # by whoever comes after it
    assert reader.take() == 2
    assert values(actor) == {7.0}


def test_a_checksum_tells_of_a_torn_version():
    _, writer, _, reader = pair(checked=True)
    writer.publish()
    writer._buffers[1][0].add_(1.0)
    with pytest.raises(RuntimeError, match="version 1 of the weights is torn"):
        reader.take()


def test_the_place_of_the_copy_is_a_place_to_fail(monkeypatch):
    _, writer, _, _ = pair()
    seen: list[str] = []
    monkeypatch.setattr(faultpoints, "plan", seen.append)
    writer.publish()
    assert seen == ["published:copy"]


def taken_while_publishing(patch: pytest.MonkeyPatch, seed: int, blind: bool) -> tuple[int, int]:
    """How often an agent was taken, and how often it was torn."""
    rng = np.random.default_rng(seed)
    learner, writer, actor, reader = pair()
    real = module.copy_tensors

    def publish() -> None:
        """Some publications, of which the last may stop anywhere."""
        for _ in range(rng.integers(3)):
            fill(learner, writer.version + 1)
            module.copy_tensors = real
            writer.publish()
        if rng.random() < 0.5:
            fill(learner, writer.version + 1)
            stop = rng.integers(5)

            def part(to: Any, given: Any) -> None:
                real(to[:stop], given[:stop])
                raise InterruptedError

            module.copy_tensors = part
            with suppress(InterruptedError):
                writer.publish()

    def tensor_by_tensor(to: Any, given: Any) -> None:
        for x, y in zip(to, given, strict=True):
            if rng.random() < 0.1:
                publish()
            real([x], [y])
        module.copy_tensors = tensor_by_tensor

    fill(learner, 1)
    writer.publish()
    torn = 0
    patch.setattr(module, "copy_tensors", tensor_by_tensor)
    if blind:  # the guard off
        reader._counters = np.array([0, 1])
    for _ in range(20):
        publish()
        if blind:
            reader._counters[1] = writer.version
        module.copy_tensors = tensor_by_tensor
        version = reader.take()
        torn += values(actor) != {float(version)}
    patch.undo()
    return 20, torn


def test_an_agent_is_whole_whatever_is_published_while_it_is_taken(monkeypatch):
    found = [taken_while_publishing(monkeypatch, seed, False) for seed in range(8)]
    assert sum(torn for _, torn in found) == 0


def test_without_the_second_counter_it_tears(monkeypatch):
    assert any(taken_while_publishing(monkeypatch, seed, True)[1] for seed in range(8))


def publish_forever(learner: Any, writer: Published) -> int:
    """A process that publishes the numbers of versions until it is killed; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        while True:
            fill(learner, (writer.version + 1) % 100)  # exact in bfloat16
            writer.publish()
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_publishes_and_is_killed_tears_nothing_for_another_that_takes():
    memory = Memory()
    learner, actor = agent(0), agent(1)
    writer = Published(learner, memory, checked=True)
    reader = Published(actor, memory, checked=True)
    reader._counters, reader._sums = writer._counters, writer._sums
    reader._buffers = writer._buffers
    fill(learner, 1)
    writer.publish()
    versions: list[int] = []
    for _ in range(5):
        pid = publish_forever(learner, writer)
        try:
            end, before = time.monotonic() + 0.1, writer.version
            while time.monotonic() < end or versions[-1] < before + 3:
                versions.append(reader.take())
                assert values(actor) == {float(versions[-1] % 100)}
        finally:
            os.kill(pid, signal.SIGKILL)
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert versions == sorted(versions)
