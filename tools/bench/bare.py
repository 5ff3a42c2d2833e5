#!/usr/bin/env python3
"""What the CUDA driver alone costs: `bare.py N` launches N empty kernels, one by one and as a graph.

Prints {"launch_us": all launches, "node_us": replay time a node} as JSON. Uses cuda-python's bindings.
"""

import ctypes
import json
import statistics
import sys
import time

SOURCE = b'extern "C" __global__ void empty(const float* in, float* out) { if (threadIdx.x == 9999) out[0] = in[0]; }\0'


def check(status):
    if status != 0:
        raise RuntimeError(f"CUDA error {status}")


def main():
    count = int(sys.argv[1])
    cuda, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13")
    u64, voidp = ctypes.c_uint64, ctypes.c_void_p
    device, context = ctypes.c_int(), voidp()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    program = voidp()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, None, 0, None, None))
    check(nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")))
    size = ctypes.c_size_t()
    check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    check(nvrtc.nvrtcGetCUBIN(program, image))
    module, function, stream, memory = voidp(), voidp(), voidp(), u64()
    check(cuda.cuModuleLoadData(ctypes.byref(module), image))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"empty"))
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), 1024))
    values = [u64(memory.value), u64(memory.value)]
    params = (voidp * 2)(*[ctypes.cast(ctypes.byref(value), voidp) for value in values])
    # The loop runs in C where it can: ctypes costs about as much as a launch, so it is measured and
    # taken off.
    launch = cuda.cuLaunchKernel
    launch.argtypes = [voidp] + [ctypes.c_uint] * 7 + [voidp, voidp, voidp]
    cheap = cuda.cuDriverGetVersion
    version = ctypes.c_int()

    def issue():
        for _ in range(count):
            launch(function, 1, 1, 1, 256, 1, 1, 0, stream, params, None)

    times = []
    for _ in range(11):
        start = time.perf_counter()
        issue()
        spent = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(count):
            cheap(ctypes.byref(version))
        times.append(spent - (time.perf_counter() - start))
        check(cuda.cuStreamSynchronize(stream))
    graph, executable = voidp(), voidp()
    check(cuda.cuStreamBeginCapture_v2(stream, 1))
    issue()
    check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, u64(0)))
    begin, end, elapsed = voidp(), voidp(), ctypes.c_float()
    check(cuda.cuEventCreate(ctypes.byref(begin), 0))
    check(cuda.cuEventCreate(ctypes.byref(end), 0))
    nodes = []
    for _ in range(21):
        check(cuda.cuEventRecord(begin, stream))
        check(cuda.cuGraphLaunch(executable, stream))
        check(cuda.cuEventRecord(end, stream))
        check(cuda.cuStreamSynchronize(stream))
        check(cuda.cuEventElapsedTime_v2(ctypes.byref(elapsed), begin, end) if hasattr(cuda, "cuEventElapsedTime_v2") else cuda.cuEventElapsedTime(ctypes.byref(elapsed), begin, end))
        nodes.append(elapsed.value * 1e3 / count)
    print(json.dumps({"launch_us": statistics.median(times) * 1e6, "node_us": statistics.median(nodes)}))


if __name__ == "__main__":
    main()
