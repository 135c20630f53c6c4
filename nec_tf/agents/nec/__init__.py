"""Neural Episodic Control (Pritzel et al., 2017)."""
