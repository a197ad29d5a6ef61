"""What the columns of CountEnvs must hold, written out, and what they do hold."""

FLAGS = {"term": (True, False), "trunc": (False, True), "both": (True, True)}


def written_out(n, end, gap, rows):
    """(episode, steps, reward, terminated, truncated, first) of each row of a CountEnv's column."""
    found, episode, steps = [], 0, 0
    while len(found) < rows:
        last = end != "never" and steps > 0 and steps >= n + gap * episode
        flags = FLAGS[end] if last else (False, False)
        found.append((episode, steps, float(steps > 0), *flags, steps == 0))
        episode, steps = (episode + 1, 0) if last else (episode, steps + 1)
    return found


def read_back(rows, b):
    columns = (rows.reward, rows.terminated, rows.truncated, rows.first)
    numbers = [column[:, b].tolist() for column in columns]
    return list(zip(*rows.observation[:, b, 1:].T.astype(int).tolist(), *numbers, strict=True))
