"""scripts/gpu_check on machines that it is told of: without a GPU, and with a nvidia-smi that
speaks of one; what it keeps of commands, and how it chooses models."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import gpu_training
from gpu_report import Report
from time_box import TimeBox

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GPU = {"name": "NVIDIA H200", "compute_cap": "9.0", "memory.total": "143771"}
SMI = 'echo "NVIDIA H200, 8.6, 143771, 580.1, 5"'
MEASURED = {"kind": "memory", "name": "device copy", "seconds": 1, "bytes": 4e12, "flops": 0}
LOGGED = {"step_s": 2.0, "tokens_per_s": 4096.0, "bound_s": None}


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *options):
        return subprocess.run(
            [sys.executable, "-B", ROOT / "scripts" / "gpu_check", *options], text=True,
            capture_output=True, cwd=self.folder, env={**os.environ, "PATH": str(self.folder)})

    def program(self, name, body="true"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def test_without_a_gpu_it_ends_with_one_line(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 77)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("nvidia-smi", done.stderr)

    def test_a_dry_run_names_each_step_and_does_none(self):
        self.program("nvidia-smi", SMI)
        done = self.run_script("--dry-run", "--build", str(self.folder / "build"))
        self.assertIn("-DSTRATA_CUDA_ARCHITECTURES=86", done.stdout)
        for step in ["gpu_ops_test", "gpu_optimizer_test", "gpu_measure overlap",
                     "--place all=nvme"]:
            self.assertIn(step, done.stdout)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["nvidia-smi"])

    def test_a_run_goes_on_after_a_failure_and_writes_what_it_found(self):
        for name in ["nvcc", "cmake", "compute-sanitizer", "build/gpu_device_test",
                     "build/gpu_optimizer_test"]:
            self.program(name)
        self.program("nvidia-smi", SMI)
        self.program("build/gpu_ops_test", "echo '[  FAILED  ] Linear'; exit 1")
        self.program("build/gpu_measure", f"[ $1 = memory ] && echo '{json.dumps(MEASURED)}'")
        log = f"echo '{json.dumps(LOGGED)}'"
        strata = self.program("strata", f"for log; do :; done; ({log}; {log}; {log}) >$log")
        done = self.run_script("found.json", "--build", str(self.folder / "build"), "--strata",
                               str(strata), "--dir", str(self.folder))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"\| device copy \| 4000 GB/s \| 100% \|")
        self.assertRegex(done.stdout, r"\| training .* \| 4096 tokens/s \| no bound \|")
        found = json.loads((self.folder / "found.json").read_text())
        statuses = {step["name"]: step["status"] for step in found["steps"]}
        self.assertEqual(statuses["ops against double precision"], "failed")
        self.assertEqual(statuses["measure memory"], "passed")
        self.assertEqual(found["measurements"], [MEASURED])
        self.assertTrue(found["training"])


@mock.patch("builtins.print")
class Boxes(unittest.TestCase):
    def test_what_fails_or_hangs_does_not_end_the_rest(self, _):
        box = TimeBox(time.monotonic() + 600)
        failing = "raise SystemExit('error: no luck')"
        failed = box.run("failing", 60, [sys.executable, "-c", failing])
        box.run("hanging", 0.2, [sys.executable, "-c", "import time; time.sleep(600)"])
        box.run("missing", 60, ["/nowhere/program"])
        box.run("after", 60, ["true"], failed)
        box.run("last", 60, [sys.executable, "-c", "print('done')"])
        self.assertEqual([step.status for step in box.steps],
                         ["failed", "timed out", "failed", "skipped", "passed"])
        self.assertIn("no luck", failed.reason)
        self.assertEqual(box.steps[-1].output, "done\n")

    def test_without_time_left_the_rest_is_skipped(self, _):
        box = TimeBox(time.monotonic())
        self.assertEqual(box.run("late", 60, ["true"]).status, "skipped")


class Models(unittest.TestCase):
    def cases(self, device, host, disk):
        with (
            mock.patch.object(gpu_training, "host_bytes", lambda: host),
            mock.patch.object(gpu_training.shutil, "disk_usage", lambda _: mock.Mock(free=disk)),
        ):
            return {case.name: case for case in gpu_training.training_cases(device, "/")}

    def test_each_regime_takes_the_largest_that_fits(self):
        gib = 2**30
        names = list(self.cases(24 * gib, 32 * gib, 500 * gib))
        self.assertEqual(names, ["training gpt2-774m, device only",
                                 "training gpt2-1.5b, host offload",
                                 "training gpt2-1.5b, NVMe offload",
                                 "training gpt2-1.5b, weights on NVMe"])

    def test_where_nothing_fits_it_says_what_is_needed(self):
        case = self.cases(2**30, 2**30, 2**20)["training, NVMe offload"]
        self.assertRegex(case.reason, r"needs 1\.8 GiB of drive .*, has ")


class Reports(unittest.TestCase):
    def test_shares_are_of_the_copy_and_of_the_peak(self):
        report = Report(GPU, ROOT)
        lines = [{"kind": "memory", "name": "device copy", "seconds": 1, "bytes": 4e12, "flops": 0},
                 {"kind": "memory", "name": "add f32", "seconds": 2, "bytes": 4e12, "flops": 0},
                 {"kind": "matmul", "name": "square", "seconds": 1, "bytes": 0, "flops": 494.5e12},
                 {"kind": "enqueue", "name": "block", "host_seconds": 2e-4, "seconds": 1e-3}]
        report.add_measurements(mock.Mock(output="\n".join(map(json.dumps, lines))))
        self.assertEqual(list(report.rows()), [("device copy", "4000 GB/s", "100%"),
                                               ("add f32", "2000 GB/s", "50%"),
                                               ("square", "494 TFLOP/s", "50%"),
                                               ("block", "1000 µs", "20% of it to enqueue")])


if __name__ == "__main__":
    unittest.main()
