"""What the options of actors and critics must satisfy together. Imports no torch."""

from __future__ import annotations

import math

from rlpyt.algos.options import (
    DDPGOptions,
    QLearningOptions,
    QValueOptions,
    SACOptions,
    TD3Options,
)
from rlpyt.errors import UsageError
from rlpyt.models.options import ActorQOptions, ModelOptions

FLOAT32 = 2**-20  # of a number: numbers that differ by less are hardly told apart


def check_critics(algo: QValueOptions, model: ModelOptions) -> None:
    """Refuse what cannot be."""
    check_returns(algo)
    if algo.values == "expected" and algo.critic_loss == "huber" and not algo.huber_delta > 0:
        raise UsageError(
            "huber_delta=0 makes the loss of expected values 0; choose more than 0, or "
            "--critic-loss squared"
        )
    if algo.prioritized and algo.priority_entry == "td":
        raise UsageError(
            "priority_entry=td is of Q-learning, whose acting knows the values of actions; choose "
            "--priority-entry max"
        )
    if not algo.reward_scale > 0:
        raise UsageError(f"reward_scale={algo.reward_scale} must be more than 0")
    if model.memory != "none" and algo.burn_in + algo.train_rows == 1:
        raise UsageError(
            f"memory={model.memory} and train_rows=1: of single transitions a memory learns "
            "nothing; choose sequences, such as --burn-in 10 --train-rows 20 --state-interval 10 "
            "--batch-size 32, or --preset memory"
        )
    if isinstance(model, ActorQOptions):
        _check_hidden_layers(model)
        if model.batch_norm:
            _check_batch_norm(algo, model)
        if model.value_network:
            _check_value_network(algo, model)
    if not isinstance(algo, SACOptions):
        return
    if algo.values == "quantile" and algo.drop_quantiles >= algo.num_quantiles:
        raise UsageError(
            f"drop_quantiles={algo.drop_quantiles} of num_quantiles={algo.num_quantiles} leaves no "
            "quantile to learn from; choose fewer"
        )
    most = max(algo.critics, SACOptions.target_critics)  # the default goes with one critic, too
    if algo.target_critics > most:
        raise UsageError(
            f"target_critics={algo.target_critics} of critics={algo.critics}: a target is the "
            "least of so many critics drawn from all; choose no more than there are"
        )
    if not algo.entropy_fraction < 1:
        raise UsageError(
            f"entropy_fraction={algo.entropy_fraction} must be less than 1: no policy has more "
            "than all of the entropy, and the temperature would rise without end"
        )
    if not algo.initial_temperature > 0:
        raise UsageError(
            f"initial_temperature={algo.initial_temperature} must be more than 0: its logarithm is "
            "what is learned; --temperature 0 is none at all"
        )


def _check_hidden_layers(model: ActorQOptions) -> None:
    sizes = model.hidden_sizes if model.critic_sizes is None else model.critic_sizes
    if model.critic_dropout and not sizes:
        raise UsageError(
            f"critic_dropout={model.critic_dropout} and critics without hidden layers: what it "
            "drops are their units; choose --critic-sizes 256, or --critic-dropout 0"
        )
    if model.critic_layer_norm and not sizes:
        raise UsageError(
            "critic_layer_norm and critics without hidden layers: what it normalizes are these; "
            "choose --critic-sizes 256, or --no-critic-layer-norm"
        )


def _check_batch_norm(algo: QValueOptions, model: ActorQOptions) -> None:
    if not isinstance(algo, SACOptions):
        raise UsageError(
            "batch_norm is of sac, whose critics then do without target networks; choose sac, or "
            "--layer-norm"
        )
    if model.memory != "none":
        raise UsageError(
            f"batch_norm and memory={model.memory}: rows and those that they bootstrap from are "
            "read as one batch, and a memory reads them as one sequence; choose --memory none, or "
            "--layer-norm"
        )


def _check_value_network(algo: QValueOptions, model: ActorQOptions) -> None:
    if not isinstance(algo, SACOptions):
        raise UsageError(
            "value_network is of sac, whose state values count entropy; choose sac, or "
            "--no-value-network"
        )
    others = {
        f"values={algo.values}": (algo.values != "expected", "--values expected"),
        f"critic_dropout={model.critic_dropout}": (model.critic_dropout > 0, "--critic-dropout 0"),
        "batch_norm": (model.batch_norm, "--no-batch-norm"),
        f"target_critics={algo.target_critics} of critics={algo.critics}": (
            algo.target_critics < algo.critics,
            f"--target-critics {algo.critics}",
        ),
    }
    for name, (given, remedy) in others.items():
        if given:
            raise UsageError(
                f"value_network and {name}: it is the older SAC, whose state values are of the "
                f"least of all critics, and make all targets; choose {remedy}, or "
                "--no-value-network"
            )


def without_effect(algo: QValueOptions) -> dict[str, str]:
    """Options that change nothing beside the others, and what would give them an effect."""
    idle: dict[str, str] = {}
    own = {
        "categorical": ("num_atoms", "v_min", "v_max"),
        "quantile": ("num_quantiles", "drop_quantiles"),
        "expected": ("critic_loss",),
    }
    for kind, names in own.items():
        if algo.values != kind:
            idle |= dict.fromkeys(names, f"add --values {kind}")
    if algo.values == "expected" and algo.critic_loss == "squared":
        idle["huber_delta"] = "add --critic-loss huber"
    if algo.values == "categorical":
        idle["huber_delta"] = "add --values expected or quantile"
    if isinstance(algo, DDPGOptions) and algo.exploration == "gaussian":
        idle["ou_theta"] = "add --exploration ou"
    if isinstance(algo, TD3Options) and not algo.target_noise:
        idle["target_noise_clip"] = "leave --target-noise above 0"
    if not isinstance(algo, SACOptions):
        idle["state_dependent_std"] = "it is of sac, whose policy is stochastic"
        return idle
    if algo.critics == 1:
        idle["actor_judge"] = "of one critic the least is the mean; add --critics 2 or more"
    if algo.values == "quantile":
        idle["target_critics"] = "targets are made of the quantiles of all critics"
    if algo.temperature is not None:
        learned = ("initial_temperature", "temperature_lr", "target_entropy", "entropy_fraction")
        idle |= dict.fromkeys(learned, "leave out --temperature, which fixes it")
    elif algo.target_entropy is not None:
        idle["entropy_fraction"] = "leave out --target-entropy, which says how much it is"
    return idle


def check_returns(algo: QLearningOptions | QValueOptions) -> None:
    """Refuse atoms that are no support and quantiles without a loss, of Q-learning too."""
    if algo.values == "categorical" and not (algo.v_min < algo.v_max and algo.num_atoms >= 2):
        raise UsageError(
            f"num_atoms={algo.num_atoms} from v_min={algo.v_min} to v_max={algo.v_max} are no "
            "support; choose v_min < v_max and at least 2 atoms"
        )
    if algo.values == "categorical":
        step = (algo.v_max - algo.v_min) / (algo.num_atoms - 1)
        if step < FLOAT32 * max(abs(algo.v_min), abs(algo.v_max)):
            raise UsageError(
                f"num_atoms={algo.num_atoms} from v_min={algo.v_min} to v_max={algo.v_max} are "
                f"{step:.3g} apart, which single precision does not tell; choose fewer atoms, or "
                "bounds further apart"
            )
    if algo.values in ("quantile", "implicit") and math.isinf(algo.huber_delta):
        raise UsageError(
            f"huber_delta={algo.huber_delta} and values={algo.values}: the loss of quantiles is "
            "divided by it, and would be 0; choose a finite --huber-delta (0 is the quantile loss "
            "itself)"
        )
