"""Commands one after another, each within a time of its own and all within one: what one of them
does, failing or hanging, does not end the rest."""
import json
import os
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Step:
    name: str
    status: str = "passed"  # failed, timed out, skipped
    reason: str = ""
    seconds: float = 0
    output: str = field(default="", repr=False)

    @property
    def passed(self):
        return self.status == "passed"

    def __str__(self):
        return self.status + (f": {self.reason}" if self.reason else "")


def reason_of(output):
    """The line that names the first error and what follows it, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    first = next((i for i, line in enumerate(lines) if re.search("error|failed", line, re.I)), -1)
    return " ".join(lines[first:first + 3] if first >= 0 else lines[-1:])[:300]


def records_in(output):
    """Its lines of JSON, without one that the end of its program cut."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                pass


def kill(process):
    """With what it started; returns what they had written."""
    os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired as error:  # a driver holds it: it ends when that lets go
        return error.output or b""


def run_command(name, seconds, command):
    start = time.monotonic()
    step = Step(name)
    # Between the command's start and the knowledge of what to kill, no signal ends this.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def unblock():
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=unblock)
        unblock()
        output, _ = process.communicate(timeout=seconds)
        step.output = output.decode(errors="replace")
        if process.returncode != 0:
            step.status = "failed"
            step.reason = f"exit status {process.returncode}: {reason_of(step.output)}"
    except OSError as error:
        step.status, step.reason = "failed", str(error)
    except subprocess.TimeoutExpired:
        step.output = kill(process).decode(errors="replace")
        step.status, step.reason = "timed out", f"took over {seconds:.0f} s"
    except KeyboardInterrupt:
        kill(process)
        raise
    finally:
        unblock()
    step.seconds = time.monotonic() - start
    return step


class TimeBox:
    def __init__(self, deadline, after_step, dry=False):
        self.deadline = deadline  # of time.monotonic()
        self.after_step = after_step  # called with all steps
        self.dry = dry
        self.steps = []

    def skip(self, name, reason):
        return self.add(Step(name, "skipped", reason))

    def run(self, name, seconds, command, after=None, fault=None):
        """Runs the command, unless the step `after` it did not pass. Where a `fault` is given, as a
        pattern of its output, running out of time before there is one is no failure."""
        command = [str(word) for word in command]
        if self.dry:
            print(f"{name} (at most {seconds} s)\n    {shlex.join(command)}")
            return Step(name)
        if after is not None and not after.passed:
            return self.skip(name, f"needs '{after.name}' ({after.status})")
        left = self.deadline - time.monotonic()
        if left < 5:
            return self.skip(name, "no time is left for it")
        print(f"{name} …", end=" ", flush=True)
        step = Step(name, "failed", "interrupted")
        try:
            step = run_command(name, min(seconds, left), command)
            if fault and step.status == "timed out" and not re.search(fault, step.output, re.M):
                step.status = "skipped"
        finally:
            self._keep(step)
        return step

    def add(self, step):
        print(f"{step.name} …", end=" ")
        return self._keep(step)

    def _keep(self, step):
        self.steps.append(step)
        if not self.dry:
            self.after_step(self.steps)
        print(step, f"({step.seconds:.1f} s)" if step.seconds else "", flush=True)
        return step
