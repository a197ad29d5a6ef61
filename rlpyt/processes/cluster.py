"""The connection to a Ray cluster, and what its nodes have."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Mapping

import ray

from rlpyt.errors import UsageError

NAMESPACE = "rlpyt"
REACH_SECONDS = 10.0  # for a cluster's head to answer; Ray itself would try for an hour


def reach(address: str) -> None:
    """Refuse the address of a cluster that does not answer.

    Args:
        address: "HOST:PORT"; "auto" is the cluster of RAY_ADDRESS, or that this machine is part of.
    """
    if ray.is_initialized():
        return
    if address.startswith("ray://"):
        raise UsageError(
            f"ray_address={address} is of Ray's client, which cannot start runs; give this command "
            "on a node of the cluster, or to `ray job submit --`"
        )
    try:
        host, _, port = _found(address).rpartition(":")
        if host:
            socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except (OSError, RuntimeError, ValueError) as error:
        raise _none_at(address, error) from None


def connect(address: str) -> bool:
    """Connect to a cluster; False where this process is connected already."""
    if ray.is_initialized():
        return False
    reach(address)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        raise _none_at(address, error) from None
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray has taken it
    return True


def alive_nodes() -> list[Mapping[str, float]]:
    """What the nodes have that are there."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def is_there(actor: str) -> bool:
    """Whether an actor of ours has this name."""
    try:
        ray.get_actor(actor, namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def last_line(error: BaseException) -> str:
    """What an error comes to: Ray's begin with pages of logs."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]


def _found(address: str) -> str:
    """The address that Ray finds for "auto"; "" where it is to start a cluster of its own."""
    try:
        from ray._private.services import canonicalize_bootstrap_address as find
    except ImportError:  # it is Ray's own, and may go; then Ray finds it a second time only
        return "" if address == "auto" else address
    return find(address) or ""


def _none_at(address: str, error: Exception) -> UsageError:
    return UsageError(
        f"ray_address={address}: no Ray cluster answers there ({last_line(error)}); start one with "
        "`ray start --head`, or give the HOST:PORT of one"
    )
