"""Experiments on learning: what is run, what is read off it, what it is held against."""

from dataclasses import dataclass

NO_SPREAD = float("nan")


@dataclass(frozen=True)
class Published:
    """A published score.

    sd: over seeds; NaN where none is given. least: of a source with one run, the least mean that
    matches: its score less two standard errors over its episodes (or the issue's own mark).
    random: what random actions score: with an sd it says how precise a comparison has to be.
    """

    mean: float
    sd: float
    seeds: int
    source: str
    least: float | None = None
    random: float = NO_SPREAD


@dataclass(frozen=True)
class Experiment:
    """What is run, what is read off it, and what it is held against.

    metric: "eval" is the last evaluation, "max" the best one, "train" the mean return of the last
    100 training episodes at the end, "whole" that of all training episodes, "window" that of the
    episodes which ended in the last `window` env steps.
    """

    command: str
    seeds: tuple[int, ...]
    metric: str
    floor: float
    published: Published | None = None
    below: bool = False  # a negative control: `floor` must not be passed
    marks: tuple[int, ...] = ()  # env steps at which the training return is reported
    window: int = 0  # env steps of a source's own window


# Random actions: measured with Gymnasium's environments (2,000 and 30 episodes: standard errors 0.3
# and 16), and Mnih et al. (2015), extended data table 2.
CARTPOLE_RANDOM, HALFCHEETAH_RANDOM, PONG_RANDOM = 22.1, -263.0, -20.7

FIVE, TEN = tuple(range(5)), tuple(range(10))
POSITIONS = "--env rlpyt/CartPolePositions-v0"
RAINBOW = "--dueling --head-sizes 64 --prioritized --values categorical --noisy"
CARTPOLE = "dqn --env CartPole-v1"
ZOO_CARTPOLE = Published(500.0, NO_SPREAD, 1, "RL Zoo, DQN and QR-DQN at 50k", least=500.0)
YOUNG_TIAN = "Young and Tian (2019), DQN at 1M, last 100, off a curve"

POLICY_GRADIENTS = {
    "ppo-cartpole": Experiment("ppo --env CartPole-v1 --env-steps 100k", TEN, "eval", 475),
    "a2c-cartpole": Experiment("a2c --env CartPole-v1 --env-steps 200k", (0, 1, 2), "eval", 450),
    "impala-cartpole": Experiment("impala --env CartPole-v1 --env-steps 200k", FIVE, "eval", 450),
    "appo-cartpole": Experiment("appo --env CartPole-v1 --env-steps 100k", FIVE, "eval", 475),
    "impala-cartpole-asynchronous": Experiment(
        "impala --env CartPole-v1 --env-steps 200k --asynchronous", FIVE, "eval", 450
    ),
    "appo-cartpole-asynchronous": Experiment(
        "appo --env CartPole-v1 --env-steps 100k --asynchronous", FIVE, "eval", 475
    ),
    "appo-lstm-positions": Experiment(
        f"appo {POSITIONS} --env-steps 100k --memory lstm", (0, 1, 2), "eval", 450
    ),
    "impala-lstm-positions": Experiment(
        f"impala {POSITIONS} --env-steps 200k --memory lstm", (0, 1, 2), "eval", 450
    ),
    "impala-minatar-breakout": Experiment(
        "impala --env MinAtar/Breakout-v1 --env-steps 2M --eval-episodes 10",
        (0, 1),
        "train",
        7,
        Published(14.2, NO_SPREAD, 30, "Young and Tian (2019), AC(0.8) at 2M, last 100"),
        marks=(500_000, 1_000_000, 2_000_000),
    ),
    "ppo-lstm-positions": Experiment(
        f"ppo {POSITIONS} --env-steps 100k --memory lstm", (0, 1, 2), "eval", 450
    ),
    "ppo-gru-positions": Experiment(
        f"ppo {POSITIONS} --env-steps 100k --memory gru", (0, 1, 2), "eval", 450
    ),
    "ppo-memoryless-positions": Experiment(
        f"ppo {POSITIONS} --env-steps 100k --memory none", (0, 1, 2), "eval", 100, below=True
    ),
    "ppo-halfcheetah": Experiment(
        "ppo --env HalfCheetah-v5 --env-steps 1M --eval-interval 50k --eval-episodes 10",
        (0, 1, 2),
        "max",
        1443,
        Published(
            5783.9, 1244.0, 10, "Tianshou, maximum over evaluations, v3", random=HALFCHEETAH_RANDOM
        ),
    ),
    "ppo-minatar-breakout": Experiment(
        "ppo --env MinAtar/Breakout-v1 --env-steps 2M --eval-episodes 10",
        (0, 1),
        "train",
        12,
        Published(14.2, NO_SPREAD, 30, "Young and Tian (2019), AC(0.8) at 2M, last 100"),
        marks=(500_000, 1_000_000, 2_000_000),
    ),
    "ppo-pong": Experiment(
        "ppo --env PongNoFrameskip-v4 --env-steps 1.5M --eval-episodes 10",
        (0,),
        "train",
        15,
        marks=(500_000, 1_000_000, 1_500_000),
    ),
}

# CartPole, 50k steps: every variant with the preset's own settings and nothing else changed.
CARTPOLE_VARIANTS = {
    "dqn-cartpole": "",
    "dqn-cartpole-single": "--no-double",
    "dqn-cartpole-dueling": "--dueling --head-sizes 64",
    "dqn-cartpole-prioritized": "--prioritized",
    "dqn-cartpole-c51": "--values categorical",
    "dqn-cartpole-qr": "--values quantile",
    "dqn-cartpole-iqn": "--values implicit",
    "dqn-cartpole-rainbow": RAINBOW,
}
CLASSIC_CONTROL = {
    name: Experiment(f"{CARTPOLE} {options}".strip(), TEN, "eval", 450, ZOO_CARTPOLE)
    for name, options in CARTPOLE_VARIANTS.items()
} | {
    "dqn-cartpole-c51-500k": Experiment(
        f"{CARTPOLE} --preset default --env-steps 500k --values categorical --num-atoms 101 "
        "--v-min -100 --v-max 100",
        FIVE,
        "train",
        450,
        Published(481.2, 20.5, 3, "CleanRL, C51 at 500k, training return", random=CARTPOLE_RANDOM),
    ),
    "dqn-acrobot": Experiment(
        "dqn --env Acrobot-v1 --env-steps 100k --eval-episodes 100",
        FIVE,
        "eval",
        -100,
        Published(-76.6, NO_SPREAD, 1, "RL Zoo, DQN at 100k", least=-78),
    ),
    "dqn-acrobot-qr": Experiment(
        "dqn --env Acrobot-v1 --env-steps 100k --eval-episodes 100 --values quantile",
        FIVE,
        "eval",
        -100,
        Published(-69.1, NO_SPREAD, 1, "RL Zoo, QR-DQN at 100k", least=-70),
    ),
    "dqn-lunar-lander": Experiment(
        "dqn --env LunarLander-v3 --env-steps 300k --eval-episodes 100",
        FIVE,
        "train",
        200,
        Published(265.9, NO_SPREAD, 4, "SLM-Lab, DDQN + PER at 300k, training return", least=250),
    ),
}
MINATAR = {
    "dqn-minatar-breakout": Experiment(
        "dqn --env MinAtar/Breakout-v0 --env-steps 1M --eval-episodes 10",
        (0, 1),
        "train",
        7,
        Published(9.1, NO_SPREAD, 30, YOUNG_TIAN),
        marks=(500_000, 1_000_000),
    ),
    "dqn-minatar-freeway": Experiment(
        "dqn --env MinAtar/Freeway-v0 --env-steps 1M --eval-episodes 10",
        (0,),
        "train",
        40,
        Published(47.8, NO_SPREAD, 30, YOUNG_TIAN),
        marks=(500_000, 1_000_000),
    ),
    "dqn-minatar-breakout-rainbow": Experiment(
        "dqn --env MinAtar/Breakout-v0 --preset minatar-rainbow --env-steps 1M --eval-episodes 10",
        (0, 1),
        "train",
        9.1,  # no table is published for it: it must do at least what DQN is published to do
        marks=(500_000, 1_000_000),
    ),
    "dqn-minatar-breakout-iqn": Experiment(
        "dqn --env MinAtar/Breakout-v0 --preset minatar-iqn --env-steps 1M --eval-episodes 10",
        (0,),
        "train",
        9.1,
        marks=(500_000, 1_000_000),
    ),
}
ATARI = {
    # Dopamine's figures are means over iterations of 250k steps; at 2M frames its is -14.7 ± 1.0.
    "dqn-pong": Experiment(
        "dqn --env ALE/Pong-v5 --preset dopamine-qr --env-steps 1.25M --eval-episodes 10",
        (0,),
        "window",
        5,
        Published(
            11.7, 2.2, 5, "Dopamine, QR-DQN at 5M frames, training return", random=PONG_RANDOM
        ),
        marks=(500_000, 1_250_000),
        window=250_000,
    ),
}
# The memory tasks are ours (envs/memory.py), made after POPGym's RepeatPreviousEasy (whose score is
# the greatest mean return of an epoch) and bsuite's memory_len (solved where more than 62.5 % of
# 10k training episodes are answered rightly: a return of 0.25).
MEMORY = {
    "r2d1-positions": Experiment(f"r2d1 {POSITIONS} --env-steps 150k", TEN, "eval", 450),
    # Begins each sequence with zeros. The task needs two observations only, which burn-in brings
    # back: this is no control that must fail.
    "r2d1-positions-zero-state": Experiment(
        f"r2d1 {POSITIONS} --env-steps 150k --zero-state", FIVE, "eval", 450
    ),
    # Zeros at every step: the same code without a memory, with and without the previous action.
    "r2d1-positions-forgetful": Experiment(
        f"r2d1 {POSITIONS} --env-steps 150k --memory none --read-previous true",
        FIVE,
        "eval",
        100,
        below=True,
    ),
    "r2d1-positions-memoryless": Experiment(
        f"r2d1 {POSITIONS} --env-steps 150k --memory none", FIVE, "eval", 100, below=True
    ),
    "dqn-positions": Experiment(f"dqn {POSITIONS} --env-steps 150k", FIVE, "eval", 100, below=True),
    "r2d1-repeat-previous": Experiment(
        "r2d1 --env rlpyt/RepeatPrevious-v0 --env-steps 1M",
        FIVE,
        "train",
        0.5,
        Published(1.0, NO_SPREAD, 3, "POPGym, PPO-GRU at 15M, best epoch", least=0.95),
    ),
    "dqn-repeat-previous": Experiment(
        "dqn --env rlpyt/RepeatPrevious-v0 --env-steps 200k", (0, 1, 2), "train", -0.4, below=True
    ),
    "ppo-gru-repeat-previous": Experiment(
        "ppo --env rlpyt/RepeatPrevious-v0 --env-steps 1M --memory gru",
        FIVE,
        "train",
        0.5,
        Published(1.0, NO_SPREAD, 3, "POPGym, PPO-GRU at 15M, best epoch", least=0.95),
    ),
} | {
    f"{name}-cue-{delay}": Experiment(
        f"{algo} --env rlpyt/CueDelay-v0 --env-kwargs delay={delay} "
        f"--env-steps {10 * (delay + 1)}k{memory}",
        (0, 1, 2),
        "whole",
        0.25,
    )
    for name, algo, memory in (("r2d1", "r2d1", ""), ("ppo-gru", "ppo", " --memory gru"))
    for delay in (5, 10, 30)
}
# RL Zoo has one run each, of which it plays 750 episodes; what matches is its score less two
# standard errors of those. D4PG has no published score: it is held against DDPG's.
PENDULUM = {
    f"{algo}-pendulum": Experiment(
        f"{algo} --env Pendulum-v1 --env-steps 20k --eval-episodes 100",
        FIVE,
        "eval",
        -200,
        Published(mean, NO_SPREAD, 1, f"RL Zoo, {name} at 20k", least=least),
    )
    for algo, name, mean, least in (
        ("ddpg", "DDPG", -152.1, -159),
        ("td3", "TD3", -151.9, -158),
        ("sac", "SAC", -157.0, -163),
        ("d4pg", "DDPG", -152.1, -159),
    )
}
# Spinning Up's own settings and budget, where it gives the mean of greedy evaluations, digitized.
SPINNING_UP = "--env HalfCheetah-v5 --preset spinning-up --env-steps 100k --eval-episodes 10"
HALFCHEETAH = {
    f"{algo}-halfcheetah": Experiment(
        f"{algo} {options} --eval-interval 10k",
        seeds,
        "eval",
        floor,
        Published(
            mean, sd, 10, f"Spinning Up, {name} at 100k, off a curve", random=HALFCHEETAH_RANDOM
        ),
        marks=(50_000, 100_000),
    )
    for algo, options, seeds, floor, mean, sd, name in (
        ("sac", SPINNING_UP, (0, 1, 2), 4000, 6081.0, 470.0, "SAC"),
        ("td3", SPINNING_UP, (0, 1), 3500, 5242.0, 632.0, "TD3"),
        ("ddpg", SPINNING_UP, (0, 1), 2500, 4339.0, 1014.0, "DDPG"),
        (
            "d4pg",
            "--env HalfCheetah-v5 --env-steps 100k --eval-episodes 10",
            (0, 1),
            2500,
            4339.0,
            1014.0,
            "DDPG",
        ),
    )
}
PENDULUM_POSITIONS = "--env rlpyt/PendulumPositions-v0 --env-steps 30k --eval-episodes 100"
RECURRENT_Q_VALUE = {
    "sac-pendulum-positions": Experiment(
        f"sac {PENDULUM_POSITIONS}",
        (0, 1, 2),
        "eval",
        -250,
        Published(-217.9, NO_SPREAD, 1, "RL Zoo, RecurrentPPO at 100k", least=-228.1),
    ),
    "td3-pendulum-positions": Experiment(
        f"td3 {PENDULUM_POSITIONS}",
        (0, 1, 2),
        "eval",
        -250,
        Published(-217.9, NO_SPREAD, 1, "RL Zoo, RecurrentPPO at 100k", least=-228.1),
    ),
    # The same code, sequences and budget without a memory.
    "sac-pendulum-positions-memoryless": Experiment(
        f"sac {PENDULUM_POSITIONS} --memory none", (0, 1, 2), "eval", -500, below=True
    ),
}
Q_VALUE = PENDULUM | HALFCHEETAH | RECURRENT_Q_VALUE
EXPERIMENTS = POLICY_GRADIENTS | CLASSIC_CONTROL | MINATAR | ATARI | MEMORY | Q_VALUE
