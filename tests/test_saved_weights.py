"""What was saved compiled, or on another device, loads plain and on the CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import make

from rlpyt import checkpoint
from rlpyt.api import load
from rlpyt.build import make_agent
from rlpyt.distributions import for_action
from rlpyt.envs.make import probe
from rlpyt.envs.spec import EnvSpec
from rlpyt.models.actor_critic import ActorCritic
from rlpyt.models.options import ActorCriticOptions
from rlpyt.run import Run
from rlpyt.training import resume, train

SHORT: dict[str, Any] = {"env_steps": 300, "eval_episodes": 0, "eval_interval": 0}
OBSERVATION = [0.01, -0.02, 0.03, -0.04]


def names(run: Run) -> list[str]:
    """Of the agent's tensors, as a run without any wrapper has them."""
    return list(make_agent(run, probe(run.env), 0).state_dict())


def saved(folder: Path) -> dict[str, torch.Tensor]:
    return checkpoint.load(folder / "checkpoints")[0]["agent"]


@pytest.fixture
def without_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.compile traces and generates no code: neither a compiler nor a minute is needed."""
    original = torch.compile
    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", lambda f, **_: original(f, backend="eager"))


@pytest.mark.parametrize("kind", ["ppo", "normalized", "dqn", "rainbow"])
def test_weights_of_a_compiled_run_load_in_a_plain_one(kind, tmp_path, without_code):
    """B224."""
    run = make(kind, tmp_path, compile="on", **SHORT)
    folder = train(run, mode="quiet").folder
    weights = saved(folder)
    assert list(weights) == names(make(kind, tmp_path))
    assert not any("_orig_mod" in name or name.startswith("module.") for name in weights)
    plain = train(make(kind, tmp_path, init_from=str(folder), **SHORT), mode="quiet")
    assert plain.status == "finished"
    agent = load(folder, compile="off")
    path = agent.save(tmp_path / "agent")
    for mine, theirs in ((load(path)._state(), weights), (agent._state(), weights)):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(torch.as_tensor(mine[k]), theirs[k]) for k in mine)


def test_a_compiled_run_goes_on_compiled_from_its_plain_names(tmp_path, without_code):
    """B224, the other way round."""
    folder = train(make("ppo", tmp_path, compile="on", **SHORT), mode="quiet").folder
    before = saved(folder)
    outcome = resume(folder, env_steps=600, mode="quiet")
    assert outcome.runner.parts.resolved.compile
    assert list(saved(folder)) == list(before)


def compiled_network(spec: EnvSpec) -> Any:
    """The default network, of which torch.compile makes a module with a prefix to every name."""
    network = ActorCritic(spec, for_action(spec.action), ActorCriticOptions())
    wrapped = torch.compile(network)
    assert all(name.startswith("_orig_mod.") for name in wrapped.state_dict())
    return wrapped


def test_a_network_that_was_given_compiled_is_saved_plain_and_loads_either_way(
    tmp_path, without_code
):
    """B224."""
    run = make("ppo", tmp_path, **SHORT)
    folder = train(run, model=compiled_network, mode="quiet").folder
    assert list(saved(folder)) == names(run)
    observations = torch.randn(20, 4).numpy()
    plain, wrapped = load(folder), load(folder, model=compiled_network)
    answers = plain.predict(observations)[0]
    assert (answers == wrapped.predict(observations)[0]).all()
    again = load(wrapped.save(tmp_path / "agent"))
    assert (answers == again.predict(observations)[0]).all()
    assert resume(folder, model=compiled_network, env_steps=600, mode="quiet").status == "finished"


def test_checkpoints_of_a_device_are_read_to_the_cpu(tmp_path):
    """B224; on a machine with a GPU."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    folder = train(make("ppo", tmp_path, device="cuda", **SHORT), mode="quiet").folder
    assert {tensor.device.type for tensor in saved(folder).values()} == {"cpu"}
    action, _ = load(folder, device="cpu").predict(torch.tensor(OBSERVATION).numpy())
    assert action in (0, 1)
