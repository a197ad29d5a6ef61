"""Help that is not derived from options: the commands, and how to go on."""

from __future__ import annotations

MAIN = """\
usage: rlpyt COMMAND [options]

Deep reinforcement learning: from the command line to a resumable result.

  train ALGO --env ID   train ppo, a2c, impala, appo, dqn, r2d1, ddpg, td3, sac or d4pg
  eval RUN              play episodes with a trained agent (also: enjoy)
  resume RUN            go on with a run that stopped, exactly
  sweep ALGO ...        many runs, queued on this machine's cores and GPUs
  tune ALGO             search options for the best return
  plot PATH ...         learning curves of any number of runs

  envs [PATTERN]        environments that can be made here
  algos                 algorithms
  presets [ALGO]        settings by algorithm and family of environments
  check-env ENV         look for mistakes in an environment
  bench sampler         how fast each way of sampling is here, and which to use

  -h, --help            this text; rlpyt COMMAND --help for a command's options
  --version             the version

begin with
  rlpyt train ppo --env CartPole-v1
  rlpyt eval runs/CartPole-v1__ppo__... --video
  rlpyt plot runs --out curves.png"""

TRAIN = """\
usage: rlpyt train ALGORITHM --env ID [options]

Train an agent. Settings come from a preset, chosen by algorithm and environment; any option given
takes its place. Options may stand before or after the algorithm.

  ppo                   proximal policy optimization (Schulman et al., 2017)
  a2c                   advantage actor-critic, synchronous (Mnih et al., 2016)
  impala                actor-critic with V-trace, also asynchronous (Espeholt et al., 2018)
  appo                  asynchronous PPO with V-trace (Petrenko et al., 2020)
  dqn                   deep Q-learning, and its variants up to Rainbow and IQN
  r2d1                  recurrent Q-learning from sequences (R2D2 on one machine)
  ddpg                  deep deterministic policy gradient (Lillicrap et al., 2016)
  td3                   twin delayed DDPG (Fujimoto et al., 2018)
  sac                   soft actor-critic (Haarnoja et al., 2018), REDQ and TQC
  d4pg                  distributional DDPG (Barth-Maron et al., 2018)

every option and its default
  rlpyt train ppo --help
  rlpyt train ppo --env ALE/Pong-v5 --help      with the defaults for this environment

examples
  rlpyt train ppo --env CartPole-v1 --seed 1
  rlpyt train a2c --env Acrobot-v1 --env-steps 200k --num-envs 32
  rlpyt train dqn --env ALE/Pong-v5 --preset dopamine-qr
  rlpyt train sac --env HalfCheetah-v5 --preset spinning-up
  rlpyt train ppo --env my_module:make_env --env-kwargs size=5 --memory lstm
  rlpyt train ppo --env HalfCheetah-v5 --json > outcome.json

exit codes: 0 done, 1 error, 2 usage, 75 stopped by SIGTERM and saved, 130 Ctrl-C and saved, 143
SIGTERM and not saved."""

SWEEP = """\
Any option of rlpyt train may be given too, and then holds for all runs. What
they print is in the folder's logs/. Ctrl-C saves and stops; the same command
goes on where it was: what has finished is left, what was cut is resumed.

  rlpyt sweep ppo dqn --env CartPole-v1 Acrobot-v1 --seeds 5
  rlpyt sweep ppo --env CartPole-v1 --grid lr=1e-4,3e-4 horizon=64,128
  rlpyt sweep sac --env Pendulum-v1 --grid gamma=0.9,0.99 --dry-run
  rlpyt sweep ppo --env CartPole-v1 --seeds 100 --backend ray
  rlpyt sweep status FOLDER   what became of a sweep so far
  rlpyt sweep retry FOLDER    go on with it, and try again what failed

exit codes: 0 all finished, 1 some did not, 2 usage, 75 stopped by SIGTERM and
saved, 130 Ctrl-C."""

TUNE = """\
Any option of rlpyt train may be given too, and then holds for all runs. The trials lie in the
folder's study.jsonl; the same command goes on where it was. The winner is written as a preset.

  rlpyt tune ppo --env CartPole-v1 --env-steps 50k --over learning-rate=log:1e-5..1e-2
  rlpyt tune dqn --env CartPole-v1 --trials 50 --seeds 3 --over gamma=0.9..0.999 dueling=true,false
  rlpyt train ppo --env CartPole-v1 --preset FOLDER/best.json

exit codes: 0 there is a winner, 1 no trial was complete, 2 usage, 75 SIGTERM, 130 Ctrl-C."""
