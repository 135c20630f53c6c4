"""The agents that the paper compares NEC with and that have no episodic memory."""
