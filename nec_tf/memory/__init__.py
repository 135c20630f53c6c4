"""The differentiable neural dictionary (paper, section 3.1): a memory for each action."""
