"""scripts/gpu_check on machines that it is told of: a driver without a GPU and with one, control
groups; what it keeps of commands, and how it chooses models."""

import ast
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import gpu_training
import this_machine
import time_box
from gpu_report import Report
from time_box import Step, TimeBox

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "gpu_check"
GIB = 2**30
GPU = {"name": "NVIDIA H200", "compute_cap": "9.0"}
# What containers may put in place of numbers.
SMI = 'echo "[Insufficient Permissions], [N/A]"'
MEASURED = {"kind": "memory", "name": "device copy", "seconds": 1, "bytes": 4e12, "flops": 0}
LOGGED = {"step_s": 2.0, "tokens_per_s": 4096.0, "bound_s": None}
LOG = "for log; do :; done; (" + 3 * f"echo '{json.dumps(LOGGED)}'; " + ") >$log"
DRIVER = """
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { return getenv("NO_GPU") != NULL ? 100 : 0; }
int cuGetErrorName(int status, const char** name) { *name = "CUDA_ERROR_NO_DEVICE"; return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = 40 + ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return device == 40 ? 0 : 101; }
int cuCtxSetCurrent(void* context) { return 0; }
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = (size_t)24 << 30;
  *total = (size_t)140 << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int which, int device) {
  *value = which == 75 ? 8 : 6;
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int device) { strcpy(name, "NVIDIA H200"); return 0; }
int cuDeviceGetPCIBusId(char* name, int bytes, int device) { strcpy(name, "0:1:0"); return 0; }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
"""


class Script(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.driver.cleanup)
        compiler = next(filter(None, map(shutil.which, ["cc", "gcc", "clang"])))
        subprocess.run([compiler, "-shared", "-fPIC", "-w", "-x", "c", "-",
                        "-o", f"{cls.driver.name}/libcuda.so.1"],
                       input=DRIVER, text=True, check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start_script(self, *options, **environment):
        environment = {**os.environ, "PATH": str(self.folder),
                       "LD_LIBRARY_PATH": self.driver.name, **environment}
        return subprocess.Popen([sys.executable, "-B", SCRIPT, *options], text=True,
                                env=environment, cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run_script(self, *options, **environment):
        process = self.start_script(*options, **environment)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def program(self, name, body="true"):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def all_programs(self):
        """Stand-ins that pass. Returns the options that name them."""
        for name in ["nvcc", "cmake", "compute-sanitizer", "build/gpu_device_test",
                     "build/gpu_ops_test", "build/gpu_optimizer_test"]:
            self.program(name)
        self.program("nvidia-smi", SMI)
        self.program("build/gpu_measure", f"[ $1 != memory ] || echo '{json.dumps(MEASURED)}'")
        return ["found.json", "--build", str(self.folder / "build"), "--strata",
                str(self.program("strata", LOG)), "--dir", str(self.folder)]

    def found(self):
        """What the file says of each step, and the whole of it."""
        found = json.loads((self.folder / "found.json").read_text())
        return {step["name"]: step["status"] for step in found["steps"]}, found

    def test_without_a_gpu_it_ends_with_one_line(self):
        done = self.run_script(NO_GPU="1")
        self.assertEqual(done.returncode, 77)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^gpu_check: nothing done; .*CUDA_ERROR_NO_DEVICE\n$")

    def test_an_old_python_reads_its_top_and_ends_with_one_line(self):
        ast.parse(SCRIPT.read_text(), feature_version=(3, 6))
        old = f"import runpy, sys; sys.version_info = (3, 7); runpy.run_path({str(SCRIPT)!r})"
        done = subprocess.run([sys.executable, "-c", old], text=True, capture_output=True)
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stderr, r"^gpu_check: nothing done; it needs Python 3\.8.*\n$")

    def test_a_dry_run_names_each_step_for_the_drivers_first_gpu_and_does_none(self):
        done = self.run_script("--dry-run", "--build", str(self.folder / "build"))
        self.assertIn("-DSTRATA_CUDA_ARCHITECTURES=86", done.stdout)
        for step in ["gpu_ops_test", "gpu_optimizer_test", "gpu_measure overlap",
                     "--place all=nvme", f"--device-memory {24 * 1024 * 8 // 10}MiB"]:
            self.assertIn(step, done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_run_goes_on_after_a_failure_and_writes_what_it_found(self):
        options = self.all_programs()
        self.program("build/gpu_ops_test", "echo '[  FAILED  ] Linear'; exit 1")
        done = self.run_script(*options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"\| device copy \| 4000 GB/s \| 100% \|")
        self.assertRegex(done.stdout, r"\| training .* \| 4096 tokens/s \| no bound \|")
        statuses, found = self.found()
        self.assertEqual(statuses["ops against double precision"], "failed")
        self.assertEqual(statuses["measure memory"], "passed")
        self.assertEqual(found["measurements"], [MEASURED])
        self.assertTrue(found["training"])
        self.assertEqual(found["gpu"]["pcie.link.gen.max"], "[N/A]")

    def test_sanitizers_load_kernels_when_they_are_used(self):
        options = self.all_programs()
        self.program("compute-sanitizer", 'test "$CUDA_MODULE_LOADING" = LAZY')
        self.assertEqual(self.run_script(*options).returncode, 0)

    def test_without_a_folder_to_write_to_training_is_skipped(self):
        done = self.run_script(*self.all_programs()[:-1], str(self.folder / "absent"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("skipped: needs a folder to write to", done.stdout)
        self.assertEqual(self.found()[0]["the rest of training"], "skipped")

    def test_a_file_that_cannot_be_written_ends_it_at_once(self):
        for path in ["absent/found.json", ".", "/dev/null"]:
            done = self.run_script(path, *self.all_programs()[1:])
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"^gpu_check: nothing done; {path} cannot be .*\n$")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())

    def test_what_was_found_before_it_was_ended_is_printed_and_written(self):
        options = self.all_programs()
        started = self.folder / "started"
        os.mkfifo(started)
        self.program("build/gpu_optimizer_test", f"echo $$ >{started}; exec sleep 600")
        (self.folder / "sleep").symlink_to(shutil.which("sleep"))
        process = self.start_script(*options)
        with open(started) as pipe:
            hanging = int(pipe.read())
        self.assertEqual(self.found()[0]["ops against double precision"], "passed")
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertIn("| optimizer: the bits of the CPU's | 0.0 | failed: interrupted |", stdout)
        self.assertEqual(self.found()[0]["the rest"], "failed")
        self.assertRaises(ProcessLookupError, os.kill, hanging, 0)


@mock.patch("builtins.print")
class Boxes(unittest.TestCase):
    def setUp(self):
        self.kept = []
        self.box = TimeBox(time.monotonic() + 600, lambda steps: self.kept.append(len(steps)))

    def run_python(self, text, seconds=60, **options):
        return self.box.run("it", seconds, [sys.executable, "-c", text], **options)

    def test_what_fails_or_hangs_does_not_end_the_rest(self, _):
        failed = self.run_python("raise SystemExit('error: no luck')")
        self.run_python("import time; time.sleep(600)", 0.2)
        self.box.run("missing", 60, ["/nowhere/program"])
        self.box.run("after", 60, ["true"], failed)
        last = self.run_python("print('done')")
        self.assertEqual([step.status for step in self.box.steps],
                         ["failed", "timed out", "failed", "skipped", "passed"])
        self.assertEqual(self.kept, [1, 2, 3, 4, 5])
        self.assertIn("no luck", failed.reason)
        self.assertEqual(last.output, "done\n")

    def test_output_may_end_within_a_character(self, _):
        half = "import sys; sys.stdout.buffer.write(b'5 \\xc2')"
        self.assertEqual(self.run_python(half).output, "5 \N{REPLACEMENT CHARACTER}")

    def test_running_out_of_time_without_a_fault_is_no_failure_where_one_is_sought(self, _):
        for output, status in [("=== fine\n", "skipped"), ("=== fine\n=== bad\n", "timed out")]:
            late = Step("it", "timed out", "took over 45 s", 45, output)
            with mock.patch.object(time_box, "run_command", lambda *_: late):
                self.assertEqual(self.run_python("", fault="^=== bad").status, status)

    def test_without_time_left_the_rest_is_skipped(self, _):
        box = TimeBox(time.monotonic(), lambda steps: None)
        self.assertEqual(box.run("late", 60, ["true"]).status, "skipped")


class Models(unittest.TestCase):
    def cases(self, device, host, disk):
        with (
            mock.patch.object(gpu_training, "memory_bytes", lambda: host),
            mock.patch.object(gpu_training.shutil, "disk_usage", lambda _: mock.Mock(free=disk)),
        ):
            return {case.name: case for case in gpu_training.training_cases(device, "/")}

    def test_each_regime_takes_the_largest_that_fits(self):
        names = list(self.cases(24 * GIB, 32 * GIB, 500 * GIB))
        self.assertEqual(names, ["training gpt2-774m, device only",
                                 "training gpt2-1.5b, host offload",
                                 "training gpt2-1.5b, NVMe offload",
                                 "training gpt2-1.5b, weights on NVMe"])

    def test_where_nothing_fits_it_says_what_is_needed(self):
        case = self.cases(GIB, GIB, 2**20)["training, NVMe offload"]
        self.assertRegex(case.reason, r"needs 1\.8 GiB of drive .*, has ")


class Machine(unittest.TestCase):
    def machine(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        files["proc/meminfo"] = f"MemTotal: 1 kB\nMemAvailable: {16 * GIB // 1024} kB\n"
        for name, text in files.items():
            path = pathlib.Path(folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        with (
            mock.patch.object(this_machine, "SYSTEM", pathlib.Path(folder.name)),
            mock.patch.object(os, "sched_getaffinity", lambda _: range(8)),
        ):
            return this_machine.processors(), this_machine.memory_bytes()

    def test_without_control_groups_all_of_the_machine_is_there(self):
        self.assertEqual(self.machine({}), (8, 16 * GIB))

    def test_the_least_of_a_group_and_those_above_it_counts(self):
        top = "sys/fs/cgroup"
        self.assertEqual(self.machine({
            "proc/self/cgroup": "0::/job/mine",
            f"{top}/job/cpu.max": "150000 100000", f"{top}/job/mine/cpu.max": "max 100000",
            f"{top}/job/memory.max": "max", f"{top}/job/memory.current": 5 * GIB,
            f"{top}/job/mine/memory.max": 8 * GIB, f"{top}/job/mine/memory.current": 5 * GIB,
            f"{top}/job/mine/memory.stat": f"anon {GIB}\ninactive_file {GIB}\nactive_file {GIB}",
        }), (2, 5 * GIB))

    def test_of_version_1_too_where_a_container_sees_its_own_group_as_the_top(self):
        top = "sys/fs/cgroup"
        self.assertEqual(self.machine({
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/it\n4:memory:/docker/it",
            f"{top}/cpu/cpu.cfs_quota_us": 300000, f"{top}/cpu/cpu.cfs_period_us": 100000,
            f"{top}/memory/memory.limit_in_bytes": 4 * GIB,
            f"{top}/memory/memory.usage_in_bytes": 3 * GIB,
            f"{top}/memory/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB}",
        }), (3, 2 * GIB))


class Reports(unittest.TestCase):
    def test_shares_are_of_the_copy_and_of_the_peak(self):
        report = Report(GPU, ROOT, "unused")
        lines = [{"kind": "memory", "name": "device copy", "seconds": 1, "bytes": 4e12, "flops": 0},
                 {"kind": "memory", "name": "add f32", "seconds": 2, "bytes": 4e12, "flops": 0},
                 {"kind": "matmul", "name": "square", "seconds": 1, "bytes": 0, "flops": 494.5e12},
                 {"kind": "enqueue", "name": "block", "host_seconds": 2e-4, "seconds": 1e-3}]
        report.add_measurements(mock.Mock(output="\n".join(map(json.dumps, lines))))
        self.assertEqual(list(report.rows()), [("device copy", "4000 GB/s", "100%"),
                                               ("add f32", "2000 GB/s", "50%"),
                                               ("square", "494 TFLOP/s", "50%"),
                                               ("block", "1000 µs", "20% of it to enqueue")])

    def test_a_part_of_a_gpu_has_no_peak(self):
        part = {**GPU, "name": "NVIDIA H200 MIG 1g.18gb"}
        self.assertEqual([Report(gpu, ROOT, "unused").peak for gpu in (GPU, part)], [989, None])


if __name__ == "__main__":
    unittest.main()
