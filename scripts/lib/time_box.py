"""Commands one after another, each within a time of its own and all within one: what one of them
does, failing or hanging, does not end the rest."""
import os
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass, field


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


def reason_of(output):
    """The line that names the first error and what follows it, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["no output"]
    first = next((i for i, line in enumerate(lines) if re.search("error|failed", line, re.I)), -1)
    return " ".join(lines[first:first + 3] if first >= 0 else lines[-1:])[:300]


class TimeBox:
    def __init__(self, deadline, dry=False):
        self.deadline = deadline  # of time.monotonic()
        self.dry = dry
        self.steps = []

    def skip(self, name, reason):
        return self._keep(Step(name, "skipped", reason))

    def run(self, name, seconds, command, after=None):
        """Runs the command, unless the step `after` it did not pass."""
        command = [str(word) for word in command]
        if self.dry:
            print(f"{name} (at most {seconds} s)\n    {shlex.join(command)}")
            return Step(name)
        if after is not None and not after.passed:
            return self.skip(name, f"needs '{after.name}', which {after.status}")
        left = self.deadline - time.monotonic()
        if left < 5:
            return self.skip(name, "no time is left for it")
        print(f"{name} …", end=" ", flush=True)
        return self._keep(self._run(name, min(seconds, left), command))

    def _run(self, name, seconds, command):
        start = time.monotonic()
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL, text=True, start_new_session=True)
        except OSError as error:
            return Step(name, "failed", str(error))
        step = Step(name)
        try:
            step.output, _ = process.communicate(timeout=seconds)
            if process.returncode != 0:
                step.status = "failed"
                step.reason = f"exit status {process.returncode}: {reason_of(step.output)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            step.output, _ = process.communicate()
            step.status = "timed out"
            step.reason = f"after {seconds:.0f} s"
        step.seconds = time.monotonic() - start
        return step

    def _keep(self, step):
        self.steps.append(step)
        if step.status == "skipped":
            print(f"{step.name} … skipped: {step.reason}", flush=True)
        else:
            print(f"{step.status}, {step.seconds:.1f} s {step.reason}", flush=True)
        return step
