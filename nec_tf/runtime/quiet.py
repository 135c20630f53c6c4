"""Silences what TensorFlow, pygame and the old Gym print when they are imported.

`nec_tf/__init__.py` imports this module before anything else. Variables that are already set in the
environment are kept.
"""

import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
warnings.filterwarnings("ignore", category=UserWarning, module="pygame")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gym_notices.notices

    gym_notices.notices.notices.clear()  # TF-Agents imports the old Gym, which prints a notice
