"""Videos without a display, and errors where there is nothing to see."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rlpyt.errors import UsageError
from rlpyt.logging import video
from rlpyt.logging.video import check_frames, default_suffix, write_video

PIL = pytest.importorskip("PIL.Image", reason="needs Pillow")


def frames(n: int = 12) -> np.ndarray:
    """A white square that moves over black."""
    out = np.zeros((n, 31, 45, 3), np.uint8)
    for i in range(n):
        out[i, 10:20, 2 * i : 2 * i + 10] = 255
    return out


@pytest.mark.parametrize("suffix", [".webp", ".gif"])
def test_every_frame_is_there_in_order(tmp_path: Path, suffix: str) -> None:
    path = write_video(tmp_path / "deep" / f"a{suffix}", list(frames()), fps=25)
    assert [x.name for x in path.parent.iterdir()] == [path.name]
    with PIL.open(path) as image:
        assert (image.n_frames, image.size) == (12, (45, 31))
        for i in range(12):
            image.seek(i)
            seen = np.asarray(image.convert("RGB"), np.int64)
            assert np.abs(seen - frames()[i]).mean() < 8
            assert image.info["duration"] == 40


@pytest.mark.skipif(
    importlib.util.find_spec("imageio_ffmpeg") is None, reason="needs imageio-ffmpeg"
)
def test_an_mp4_of_odd_size_has_every_frame(tmp_path: Path) -> None:
    import imageio_ffmpeg

    path = write_video(tmp_path / "a.mp4", frames(), fps=25)
    # Its read_frames leaves pipes to the garbage collector, which warns of them some time later.
    assert imageio_ffmpeg.count_frames_and_secs(str(path))[0] == 12
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-hide_banner", "-i", str(path)]
    described = subprocess.run(ffmpeg, capture_output=True, text=True, check=False, timeout=60)
    assert " 46x32" in described.stderr


@pytest.mark.parametrize(
    ("rendered", "message"),
    [
        ([], "renders nothing"),
        ([None, None], "render_mode='rgb_array'"),
        ([np.zeros((4, 4, 3), np.uint8)] * 3, "all 3 frames are black.*MUJOCO_GL"),
        ([np.ones((4, 4, 3), np.float32)], r"float32 \[4, 4, 3\], not uint8"),
        ([np.ones((4, 4, 3), np.uint8), np.ones((5, 4, 3), np.uint8)], "several sizes"),
        (["a line of text"], "not uint8"),
    ],
)
def test_an_environment_that_shows_nothing_is_said_so(
    tmp_path: Path, rendered: list[object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        write_video(tmp_path / "a.webp", rendered, fps=25)
    assert list(tmp_path.iterdir()) == []


def test_grey_frames_are_taken() -> None:
    assert check_frames([np.full((4, 5), 9, np.uint8)]).shape == (1, 4, 5, 3)


def test_a_format_that_cannot_be_written_is_said_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"ends in one of .mp4, .webp, .gif"):
        write_video(tmp_path / "a.avi", frames(), fps=25)
    monkeypatch.setattr(video, "_installed", lambda name: False)
    assert default_suffix() == ".webp"
    with pytest.raises(UsageError, match="pip install imageio-ffmpeg"):
        write_video(tmp_path / "a.mp4", frames(), fps=25)
    with pytest.raises(UsageError, match=r"pip install 'rlpyt\[video\]'"):
        write_video(tmp_path / "a.gif", frames(), fps=25)
