"""What scripts/gpu_check trains: in each regime, of a list of models, the largest whose state takes
at most 80 % of what is free of each tier, and whose steps should end in time."""
import shutil
from dataclasses import dataclass

from strata_bench import TOKENS
from this_machine import memory_bytes

TOKEN_FILE = "tokens.bin"
LOG_FILE = "log.jsonl"
SHARE = 0.8
WARM_UP = 1
STEPS = 2
SECONDS = 60  # that a drive or the host should take at most
GIB = 2**30
# Parameters.
MODELS = {"gpt2-124m": 124e6, "gpt2-355m": 355e6, "gpt2-774m": 774e6, "gpt2-1.5b": 1558e6,
          "llama3.2-3b": 3213e6, "llama3.1-8b": 8030e6}
WORKING_BYTES = 4 * GIB  # of the device, beside state: activations, the widest unit twice


@dataclass
class Regime:
    name: str
    placement: str
    # Of a parameter's 16 bytes (weight 2, remainder 2, moments 8, gradient 4), those on each tier.
    device: int
    host: int
    drive: int
    seconds: float  # of a parameter and step, on the slower of host and drive: usual ones

    def fits(self, parameters, room):
        needs = (self.device, self.host, self.drive)
        return (all(need * parameters <= has for need, has in zip(needs, room)) and
                self.seconds * parameters * (WARM_UP + STEPS) <= SECONDS)

    def needs(self, parameters):
        return describe([parameters * need for need in (self.device, self.host, self.drive)])


DRIVE = 3e9  # bytes per second
HOST = 10e9
REGIMES = [
    Regime("device only", "all=device", 16, 0, 0, 0),
    Regime("host offload", "all=host", 0, 16, 0, 24 / HOST),
    Regime("NVMe offload", "all=nvme", 0, 0, 16, 26 / DRIVE),
    Regime("weights on NVMe", "all=host,moments=device,weights=nvme", 8, 6, 2, 6 / DRIVE),
]


@dataclass
class Case:
    name: str
    model: str = ""
    placement: str = ""
    memory: tuple = (0, 0)  # device, host
    reason: str = ""  # why it is skipped

    def command(self, folder):
        """The program's arguments, with all its files in the folder."""
        device, host = (f"{size // 2**20}MiB" for size in self.memory)
        return ["train", "--from-scratch", "--model", self.model, "--data", folder / TOKEN_FILE,
                "--seq-len", TOKENS, "--steps", STEPS + WARM_UP, "--device", "cuda",
                "--device-memory", device, "--host-memory", host, "--nvme", folder,
                "--place", self.placement, "--clip-norm", 0, "--on-nonfinite", "stop",
                "--global-batch", 16, "--micro-batch", 8, "--log", folder / LOG_FILE]


def describe(tiers):
    names = ("device memory", "host memory", "drive")
    return ", ".join(f"{size / GIB:.1f} GiB of {name}" for size, name in zip(tiers, names) if size)


def training_cases(device_bytes, directory):
    device = int(SHARE * device_bytes)
    host = int(SHARE * memory_bytes())
    room = (device - WORKING_BYTES, host, int(SHARE * shutil.disk_usage(directory).free))
    smallest = next(iter(MODELS.values()))
    for regime in REGIMES:
        fitting = [model for model, count in MODELS.items() if regime.fits(count, room)]
        if fitting:
            yield Case(f"training {fitting[-1]}, {regime.name}", fitting[-1], regime.placement,
                       (device, host))
        else:
            yield Case(f"training, {regime.name}", reason=f"needs {regime.needs(smallest)} beside "
                       f"what compute takes, has {describe(room)}")
