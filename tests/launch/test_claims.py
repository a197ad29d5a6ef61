"""CPUs that runs of one machine take for themselves."""

import os

from rlpyt.launch.claims import Claims


def test_what_is_claimed_is_nobody_elses_until_it_is_released(tmp_path):
    allowed = sorted(os.sched_getaffinity(0))
    one, two = Claims(1, tmp_path), Claims(1, tmp_path)
    assert one.cpus == (allowed[0],)
    assert two.cpus == (allowed[1] if len(allowed) > 1 else allowed[0],)
    one.release()
    again = Claims(1, tmp_path)
    assert again.cpus == (allowed[0],)
    for claims in (again, two):
        claims.release()
