"""The table and the JSON file of scripts/gpu_check."""
import datetime
import json
import pathlib
import statistics

from gpu_training import WARM_UP
from time_box import records_in, run_command

# bf16 with f32 sums, dense, in TFLOP/s, as NVIDIA's data sheets have it.
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100 NVL": 835, "H100": 989, "A100": 312, "B200": 2250,
         "L40S": 362, "L4": 121, "RTX 3090": 71, "RTX 4090": 165, "RTX 5090": 209}


class Report:
    def __init__(self, gpu, root, path):
        self.gpu = gpu
        self.path = path
        self.measured = []
        self.training = []
        git = run_command("git", 10, ["git", "-C", root, "rev-parse", "HEAD"])
        self.commit = git.output.strip() if git.passed else ""  # no git, or only the files
        name = f" {gpu['name'].replace('-', ' ')} "
        self.peak = next((PEAKS[known] for known in PEAKS
                          if f" {known} " in name and " MIG " not in name), None)

    def add_measurements(self, step):
        self.measured += records_in(step.output)

    def add_training(self, case, log):
        """Of a run that was ended too, what it had logged."""
        text = log.read_text(errors="replace") if log.exists() else ""
        records = list(records_in(text))[WARM_UP:]
        if not records:
            return
        bounds = [r["bound_s"] for r in records if r.get("bound_s")]
        step_s = statistics.median(r["step_s"] for r in records)
        self.training.append({
            "name": case.name, "model": case.model, "placement": case.placement,
            "steps": len(records), "step_s": step_s,
            "tokens_per_s": statistics.median(r["tokens_per_s"] for r in records),
            "bound_s": statistics.median(bounds) if bounds else None})

    def rate_of(self, name, key):
        """Of the measurement of that name, per second; None if there is none."""
        found = [m for m in self.measured if m["name"].startswith(name)]
        return found[0][key] / found[0]["seconds"] if found else None

    def rows(self):
        """(what, result, share)"""
        copy = self.rate_of("device copy", "bytes")
        peak = self.peak * 1e12 if self.peak else self.rate_of("square", "flops")
        for m in self.measured:
            if m["kind"] == "context":
                yield (f"memory that kernels took, {m['name']}",
                       f"{m['grew_bytes'] / 2**20:.1f} MiB",
                       f"beside {m['context_bytes'] / 2**20:.0f} MiB measured")
            elif m["kind"] == "enqueue":
                share = m["host_seconds"] / m["seconds"]
                yield m["name"], f"{m['seconds'] * 1e6:.0f} µs", f"{share:.0%} of it to enqueue"
            elif m["kind"] == "overlap":
                yield f"overlap, {m['name']}", f"{m['seconds'] * 1e3:.2f} ms", self.overlap(m)
            else:
                unit, rate, of = (("GB/s", m["bytes"], copy) if m["bytes"] else
                                  ("TFLOP/s", m["flops"], peak))
                rate /= m["seconds"]
                shown = rate / (1e9 if unit == "GB/s" else 1e12)
                yield m["name"], f"{shown:.0f} {unit}", f"{rate / of:.0%}" if of else ""
        for t in self.training:
            bound = f"{t['step_s'] / t['bound_s']:.2f} x bound" if t["bound_s"] else "no bound"
            yield t["name"], f"{t['tokens_per_s']:.0f} tokens/s", bound

    def overlap(self, measurement):
        alone = [m["seconds"] for m in self.measured
                 if m["kind"] == "overlap" and m["name"] != "all at once"]
        if measurement["name"] == "all at once":
            return f"{measurement['seconds'] / max(alone):.2f} x the longest alone"
        return (f"{measurement['bytes'] / measurement['seconds'] / 1e9:.1f} GB/s"
                if measurement["bytes"] else "")

    def print(self, steps):
        peak = f"{self.peak} TFLOP/s" if self.peak else "the square product"
        print(f"\n{self.gpu['name']}, compute capability {self.gpu['compute_cap']}; shares are of "
              f"the device copy and of {peak}\n\n| what | result | share |\n| --- | ---: | ---: |")
        for row in self.rows():
            print("| " + " | ".join(row) + " |")
        print("\n| step | seconds | |\n| --- | ---: | --- |")
        for step in steps:
            print(f"| {step.name} | {step.seconds:.1f} | {step} |")

    def write(self, steps):
        """Rewrites the file, whole or not at all. Returns what prevented it, or nothing."""
        result = {
            "gpu": self.gpu, "peak_tflops": self.peak, "commit": self.commit,
            "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "steps": [{"name": s.name, "status": s.status, "reason": s.reason,
                       "seconds": round(s.seconds, 1),
                       "output": "" if s.passed else s.output[-4000:]} for s in steps],
            "measurements": self.measured, "training": self.training}
        try:
            path = pathlib.Path(self.path).resolve()
            if path.exists() and not path.is_file():
                raise OSError("it is there, and is no file")
            part = path.with_name(f"{path.name}.part")
            part.write_text(json.dumps(result, indent=1))
            part.replace(path)
        except OSError as error:
            return f"{self.path} cannot be written ({error}): name another file"
        return ""
