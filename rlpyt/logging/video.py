"""Videos of rendered frames: WebP or GIF by Pillow, MP4 by imageio-ffmpeg; no display needed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlpyt.errors import UsageError

SUFFIXES = (".mp4", ".webp", ".gif")


def default_suffix() -> str:
    """What this installation can write: .mp4, else .webp."""
    return ".mp4" if _installed("imageio_ffmpeg") else ".webp"


def write_video(path: Path, frames: Sequence[Any] | np.ndarray, fps: float) -> Path:
    """Write frames; the file is there when it is complete, or not at all.

    Args:
        path: ends in .mp4, .webp or .gif.
        frames: [N, H, W, 3] uint8, or a list of N such frames as an environment renders them.
        fps: frames a second.

    Raises:
        UsageError: nothing was rendered, or the format cannot be written here.
    """
    frames = check_frames(frames)
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        (_write_mp4 if path.suffix == ".mp4" else _write_animation)(part, frames, fps)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def check_format(path: Path) -> None:
    """A UsageError where a video of this name cannot be written here."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{path.name}: a video ends in one of {', '.join(SUFFIXES)}")
    if path.suffix == ".mp4" and not _installed("imageio_ffmpeg"):
        raise UsageError(".mp4 needs imageio-ffmpeg: pip install imageio-ffmpeg (or use .webp)")
    if path.suffix != ".mp4" and not _installed("PIL"):
        raise UsageError(f"{path.suffix} needs Pillow: pip install 'rlpyt[video]'")


def check_frames(frames: Sequence[Any] | np.ndarray) -> np.ndarray:
    """[N, H, W, 3] uint8; a UsageError says what an environment rendered instead."""
    remedy = "make the environment with render_mode='rgb_array'"
    if len(frames) == 0 or any(frame is None for frame in frames):
        raise UsageError(f"the environment renders nothing (render() gave None); {remedy}")
    shapes = {np.shape(frame) for frame in frames}
    if len(shapes) > 1:
        raise UsageError(f"the environment renders frames of several sizes: {sorted(shapes)}")
    stacked = np.asarray(frames)
    if stacked.ndim == 3:  # grey
        stacked = np.repeat(stacked[..., None], 3, axis=-1)
    if stacked.ndim != 4 or stacked.shape[-1] != 3 or stacked.dtype != np.uint8:
        got = f"{stacked.dtype} {list(stacked.shape[1:])}"
        raise UsageError(f"render() gave {got}, not uint8 [height, width, 3]; {remedy}")
    if not stacked.any():
        raise UsageError(
            f"all {len(stacked)} frames are black: rendering does not work here; without a "
            "display, set MUJOCO_GL=egl (or osmesa) for MuJoCo, SDL_VIDEODRIVER=dummy for pygame"
        )
    return stacked


def _write_animation(path: Path, frames: np.ndarray, fps: float) -> None:
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    options: dict[str, Any] = {"quality": 80, "method": 0}
    milliseconds = max(1, round(1000 / fps))
    if path.suffix == ".gif":
        images = [
            image.quantize(method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            for image in images
        ]
        options = {}
        milliseconds = max(20, round(100 / fps) * 10)  # players ignore less than 2/100 s
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=milliseconds,
        loop=0,
        **options,
    )


def _write_mp4(path: Path, frames: np.ndarray, fps: float) -> None:
    import imageio_ffmpeg  # type: ignore[import-not-found]

    height, width = frames.shape[1:3]
    even = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    size = (width + width % 2, height + height % 2)
    writer = imageio_ffmpeg.write_frames(
        str(path),
        size,
        fps=fps,  # type: ignore[arg-type]  # a float is written as it is
        macro_block_size=2,
    )
    writer.send(None)
    for frame in even:
        writer.send(np.ascontiguousarray(frame))
    writer.close()


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
