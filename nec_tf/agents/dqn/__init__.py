"""Nature DQN (Mnih et al., 2015): TF-Agents' own agent with the published settings."""
