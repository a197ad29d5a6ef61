"""Networks: encoders by leaf of the observation, memory, heads, and flat parameters."""
