"""Model-Free Episodic Control (Blundell et al., 2016)."""
