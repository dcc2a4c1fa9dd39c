"""What this process may use of the machine, within the limits of its control groups and of those
above: as kernels/base/control_groups.h has it, where they are mounted in the usual place."""
import math
import os
import pathlib
import re

SYSTEM = pathlib.Path("/")  # another folder in tests


def read(path):
    """Empty if it is absent or not to be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def groups(controller):
    """The folders of this process's control group and of those above it, in versions 1 and 2."""
    for line in read(SYSTEM / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" or controller in controllers.split(","):
            mount = SYSTEM / "sys/fs/cgroup" / (controller if controllers else "")
            folder = mount / path.strip("/")
            while folder != mount:  # in a container, some of these are not to be seen
                yield folder
                folder = folder.parent
            yield mount


def numbers(*paths):
    """Those of these files that hold nothing else: one may be absent, or say "max"."""
    texts = [read(path) for path in paths]
    return [int(word) for text in texts if "max" not in text for word in text.split()]


def keyed(path):
    """The numbers of a file of lines like "MemAvailable: 12 kB"."""
    found = re.findall(r"^(\w+):?\s+(\d+)", read(path), re.M)
    return {key: int(number) for key, number in found}


def processors():
    least = len(os.sched_getaffinity(0))
    for group in groups("cpu"):
        quota = (numbers(group / "cpu.max") or
                 numbers(group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us"))
        if len(quota) == 2 and quota[0] > 0:
            least = min(least, math.ceil(quota[0] / quota[1]))
    return least


def memory_bytes():
    """What is free. File pages are, since the kernel drops them first."""
    least = keyed(SYSTEM / "proc/meminfo")["MemAvailable"] * 1024
    for group in groups("memory"):
        limits = numbers(*(group / f"memory.{name}" for name in ("max", "high", "limit_in_bytes")))
        used = numbers(group / "memory.current", group / "memory.usage_in_bytes")
        if limits and used:
            stat = keyed(group / "memory.stat")
            pages = sum(stat.get(f"total_{key}", stat.get(key, 0))
                        for key in ("inactive_file", "active_file"))
            least = min(least, min(limits) - used[0] + pages)
    return max(least, 0)
