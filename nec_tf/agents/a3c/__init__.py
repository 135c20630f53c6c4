"""A3C (Mnih et al., 2016): asynchronous advantage actor-critic with the published settings."""
