"""Q*(lambda) (Harutyunyan et al., 2016) and Retrace(lambda) (Munos et al., 2016)."""
