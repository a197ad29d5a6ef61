"""Numbers that come with the ends of episodes: what is stored is read, and there is a limit."""

import math

from rlpyt.samplers.news import News
from rlpyt.storage import Memory


def test_what_is_written_is_read_by_window():
    news = News(Memory(), 2)
    assert news.read(0) == news.read(1) == {}
    some = {(3, 0): {"steps": 12.0, "third": 1 / 3}, (16, 127): {"far": -math.inf, "none": 0.0}}
    news.write(1, some)
    assert news.read(1) == some and news.read(0) == {}
    news.write(1, {})
    assert news.read(1) == {}


def test_what_does_not_fit_is_left_out_and_the_rest_is_whole():
    news = News(Memory(), 1, size=1000)
    many = {(t, b): {"steps": float(t * b)} for t in range(16) for b in range(16)}
    news.write(0, many)
    read = news.read(0)
    assert 10 < len(read) < len(many)
    assert list(read.items()) == list(many.items())[: len(read)]
