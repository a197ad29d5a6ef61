"""Options of the algorithms. Nothing here imports torch: the command line's help reads it."""

from rlpyt.algos.options.policy_gradient import A2COptions as A2COptions
from rlpyt.algos.options.policy_gradient import APPOOptions as APPOOptions
from rlpyt.algos.options.policy_gradient import ClippedOptions as ClippedOptions
from rlpyt.algos.options.policy_gradient import IMPALAOptions as IMPALAOptions
from rlpyt.algos.options.policy_gradient import PolicyGradientOptions as PolicyGradientOptions
from rlpyt.algos.options.policy_gradient import PPOOptions as PPOOptions
from rlpyt.algos.options.q_learning import DQNOptions as DQNOptions
from rlpyt.algos.options.q_learning import QLearningOptions as QLearningOptions
from rlpyt.algos.options.q_learning import R2D1Options as R2D1Options
from rlpyt.algos.options.q_value import D4PGOptions as D4PGOptions
from rlpyt.algos.options.q_value import DDPGOptions as DDPGOptions
from rlpyt.algos.options.q_value import QValueOptions as QValueOptions
from rlpyt.algos.options.q_value import SACOptions as SACOptions
from rlpyt.algos.options.q_value import TD3Options as TD3Options
from rlpyt.algos.options.replay import ReplayOptions as ReplayOptions
