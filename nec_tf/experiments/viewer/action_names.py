"""Names of actions, for people."""

import gymnasium

# As the documentation of each environment of Gymnasium 1.3 describes its actions.
_OF_ENVIRONMENTS = {
    "CartPole": ("LEFT", "RIGHT"),
    "MountainCar": ("LEFT", "COAST", "RIGHT"),
    "Acrobot": ("TORQUE -1", "TORQUE 0", "TORQUE +1"),
    "LunarLander": ("COAST", "LEFT ENGINE", "MAIN ENGINE", "RIGHT ENGINE"),
    "FrozenLake": ("LEFT", "DOWN", "RIGHT", "UP"),
    "CliffWalking": ("UP", "RIGHT", "DOWN", "LEFT"),
    "Taxi": ("SOUTH", "NORTH", "EAST", "WEST", "PICK UP", "DROP OFF"),
    "Blackjack": ("STICK", "HIT"),
}


def action_names(env: gymnasium.Env) -> list[str]:
    """Returns a name for each action of an environment; "action 3" where it has none."""
    count = int(env.action_space.n)  # type: ignore[attr-defined]
    meanings = getattr(env.unwrapped, "get_action_meanings", None)  # Atari
    names = list(meanings()) if meanings is not None else []
    if len(names) != count and env.spec is not None:
        names = list(_OF_ENVIRONMENTS.get(env.spec.name, ()))
    return names if len(names) == count else [f"action {number}" for number in range(count)]
