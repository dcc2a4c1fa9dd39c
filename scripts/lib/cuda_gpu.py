"""CUDA's device 0, which is what a program gets: CUDA_VISIBLE_DEVICES and CUDA's own order choose
it, and it need not be nvidia-smi's first.

Run as a program, it prints what the driver says, as a line of JSON: asking may hang, and takes
memory of the GPU for as long as the process lasts."""
import ctypes
import json
import sys

from time_box import records_in, run_command

CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR


def ask():
    driver = ctypes.CDLL("libcuda.so.1")

    def call(function, *arguments):
        status = getattr(driver, function)(*arguments)
        if status != 0:
            name = ctypes.c_char_p()
            driver.cuGetErrorName(status, ctypes.byref(name))
            raise OSError(f"{function}: {name.value.decode() if name.value else status}")

    def text(function, device):
        buffer = ctypes.create_string_buffer(256)
        call(function, buffer, len(buffer), device)
        return buffer.value.decode(errors="replace")

    def number(function, *arguments):
        value = ctypes.c_int()
        call(function, ctypes.byref(value), *arguments)
        return value.value

    call("cuInit", 0)
    device = number("cuDeviceGet", 0)
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    capability = (str(number("cuDeviceGetAttribute", which, device)) for which in CAPABILITY)
    return {"name": text("cuDeviceGetName", device), "compute_cap": ".".join(capability),
            "memory_bytes": total.value, "free_bytes": free.value,
            "cuda_version": number("cuDriverGetVersion"),
            "pci": text("cuDeviceGetPCIBusId", device)}


def find_gpu():
    """What `ask` returns, and what nvidia-smi adds where it is and answers. Raises LookupError,
    saying what is missing."""
    asked = run_command("asking CUDA", 60, [sys.executable, __file__])
    if not asked.passed:
        raise LookupError(f"an NVIDIA GPU and its driver: {asked.name} {asked.status}, "
                          f"{asked.reason}")
    gpu = next(records_in(asked.output))
    fields = ("driver_version", "pcie.link.gen.max")
    smi = run_command("nvidia-smi", 10, ["nvidia-smi", "-i", gpu["pci"], "--format=csv,noheader",
                                         f"--query-gpu={','.join(fields)}"])
    if smi.passed:
        gpu.update(zip(fields, (value.strip() for value in smi.output.split(","))))
    return gpu


if __name__ == "__main__":
    try:
        print(json.dumps(ask()))
    except (OSError, AttributeError) as error:  # no library, an error of it, a function it lacks
        sys.exit(str(error))
