// A CUDA driver and an NVRTC whose devices do nothing: memory is the host's, copies are made when they are
// issued, flags and kernels do nothing, every event is reached at once. It has what hir-run calls for a program
// without products and NCCL, on four devices that reach each other. In the environment, DRIVER_LAUNCHES=N says
// that launches behind the first N of a process do not return, as those of a full queue, which it then says;
// DRIVER_EVENTS=N, that no event is reached any more behind the first N questions. DRIVER_WAITS=N says that with each Nth
// launch devices begin to wait: no event is reached, and what frees memory or waits for a stream does not return.
// With DRIVER_FAILS=N the launch fails too. With DRIVER_LETS_GO=1 devices go on when flags were written three times.
// DRIVER_FREE_MS=N says that calls which free memory or a graph take so long, as cublasLtDestroy and ncclCommDestroy can;
// DRIVER_RUN_MS=N, that no event is reached before the process has asked for one for so long. As in libcublasLt, the
// library's destructors, which run when a process exits, end badly if a thread is in a call that frees.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long Address;

#define DONE 0
#define NOT_READY 600
#define LAUNCH_FAILED 719
#define NOTHING(name) \
    int name(void) { return DONE; }
#define HANDLE(name) \
    int name(void **made) { return handle(made); }

enum { MAJOR = 75, MINOR = 76, MULTIPROCESSORS = 16, DEVICES = 4 };

// Whether devices wait, for what was launched since, and how often flags were written meanwhile.
static int waiting, launches, written;
// Whether this thread records a graph.
static __thread int recording;

static int number(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}
static void wait_for_devices(void) {
    while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE)) {
        usleep(1000);
    }
}

static int handle(void **made) {
    *made = malloc(1);
    return DONE;
}

// Threads in calls that free.
static int freeing;
static void begin_freeing(void) {
    __atomic_add_fetch(&freeing, 1, __ATOMIC_SEQ_CST);
    usleep(1000 * number("DRIVER_FREE_MS"));
}
static int end_freeing(void) {
    __atomic_sub_fetch(&freeing, 1, __ATOMIC_SEQ_CST);
    return DONE;
}
// A handler of the process's exit, registered as soon as the library is opened.
static void destroy_library(void) {
    if (__atomic_load_n(&freeing, __ATOMIC_SEQ_CST)) {
        fprintf(stderr, "stand-in: the library is destroyed while a thread is inside of it\n");
        abort();
    }
}
static void __attribute__((constructor)) create_library(void) {
    atexit(destroy_library);
}

// ---- devices and contexts ----

NOTHING(cuInit)
NOTHING(cuDevicePrimaryCtxRelease_v2)
// The device whose context is current in this thread.
static __thread int current;
int cuCtxSetCurrent(void *context) {
    current = (int)(Address)context - 1;
    return DONE;
}
NOTHING(cuCtxEnablePeerAccess)

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return DONE;
}
int cuDeviceGetCount(int *count) {
    *count = DEVICES;
    return DONE;
}
int cuDeviceGet(int *device, int number) {
    *device = number;
    return DONE;
}
int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    strncpy(name, "Nothing", (size_t)size);
    return DONE;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    memset(uuid, device + 1, 16);
    return DONE;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == MAJOR ? 9 : attribute == MINOR ? 0 : attribute == MULTIPROCESSORS ? 132 : 1;
    return DONE;
}
int cuDeviceCanAccessPeer(int *can) {
    *can = 1;
    return DONE;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = (void *)(Address)(device + 1);
    return DONE;
}
int cuCtxGetCurrent(void **context) {
    *context = 0;
    return DONE;
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return DONE;
}

// ---- memory ----

NOTHING(cuIpcGetMemHandle)
NOTHING(cuIpcCloseMemHandle)

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = *total = (size_t)1 << 36;
    return DONE;
}
int cuMemAlloc_v2(Address *address, size_t bytes) {
    *address = (Address)aligned_alloc(512, (bytes + 512) / 512 * 512);
    return *address ? DONE : 2;
}
int cuMemFree_v2(Address address) {
    wait_for_devices();
    begin_freeing();
    free((void *)address);
    return end_freeing();
}
// All memory is the current device's. The attributes are those that the backend asks for: context, kind (2 is a
// device's), managed, device, start and size.
int cuPointerGetAttributes(unsigned count, const int *attributes, void **places, Address address) {
    (void)count, (void)attributes, (void)address;
    *(void **)places[0] = 0;
    *(unsigned *)places[1] = 2;
    *(unsigned *)places[2] = 0;
    *(int *)places[3] = current;
    *(Address *)places[4] = 0;
    *(size_t *)places[5] = 0;
    return DONE;
}
// Another process's memory is some of this one's.
int cuIpcOpenMemHandle_v2(Address *address) {
    return cuMemAlloc_v2(address, 1 << 20);
}
int cuMemcpyHtoD_v2(Address to, const void *from, size_t bytes) {
    memcpy((void *)to, from, bytes);
    return DONE;
}
int cuMemcpyDtoH_v2(void *to, Address from, size_t bytes) {
    memcpy(to, (void *)from, bytes);
    return DONE;
}
int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes) {
    return cuMemcpyDtoH_v2(to, from, bytes);
}
int cuMemcpyAsync(Address to, Address from, size_t bytes) {
    memmove((void *)to, (void *)from, bytes);
    return DONE;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes) {
    return cuMemcpyAsync(to, from, bytes);
}
int cuMemsetD8Async(Address to, unsigned char byte, size_t bytes) {
    memset((void *)to, byte, bytes);
    return DONE;
}

// ---- streams, events, kernels ----

HANDLE(cuStreamCreateWithPriority)
NOTHING(cuStreamDestroy_v2)
int cuStreamSynchronize(void) {
    wait_for_devices();
    return DONE;
}
NOTHING(cuStreamQuery)
NOTHING(cuStreamWaitEvent)
int cuStreamBatchMemOp_v2(void) {
    if (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) && number("DRIVER_LETS_GO")
        && __atomic_add_fetch(&written, 1, __ATOMIC_RELAXED) >= 3) {
        __atomic_store_n(&waiting, 0, __ATOMIC_RELEASE);
    }
    return DONE;
}
HANDLE(cuEventCreate)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventRecord)
NOTHING(cuEventRecordWithFlags)
HANDLE(cuGraphInstantiateWithFlags)
NOTHING(cuGraphUpload)
NOTHING(cuGraphDestroy)
int cuGraphExecDestroy(void) {
    begin_freeing();
    return end_freeing();
}
HANDLE(cuModuleLoadData)
HANDLE(cuModuleGetFunction)
NOTHING(cuModuleUnload)

// Whether one more call is more than a variable says.
static int exceeds(int *calls, const char *variable) {
    const char *most = getenv(variable);
    return most && __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED) > atoi(most);
}
// A launch that devices carry out; what is being recorded is not.
static int launched(void) {
    int fails = number("DRIVER_FAILS"), waits = number("DRIVER_WAITS"), nth = fails ? fails : waits;
    if (nth == 0 || __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) != nth) {
        return DONE;
    }
    __atomic_store_n(&launches, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&written, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    return fails ? LAUNCH_FAILED : DONE;
}
int cuLaunchKernelEx(void) {
    static int calls;
    if (exceeds(&calls, "DRIVER_LAUNCHES")) {
        static const char said[] = "no launch returns\n";
        if (write(2, said, sizeof said - 1) < 0) {
            return NOT_READY;
        }
        for (;;) {
            pause();
        }
    }
    return recording ? DONE : launched();
}
int cuGraphLaunch(void) {
    return launched();
}
int cuStreamBeginCapture_v2(void) {
    recording = 1;
    return DONE;
}
int cuStreamEndCapture(void *stream, void **graph) {
    (void)stream;
    recording = 0;
    return handle(graph);
}
// Whether the device still works on what DRIVER_RUN_MS is for.
static int is_running(void) {
    static long long begun;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long time = now.tv_sec * 1000LL + now.tv_nsec / 1000000, never = 0;
    __atomic_compare_exchange_n(&begun, &never, time, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return time - __atomic_load_n(&begun, __ATOMIC_SEQ_CST) < number("DRIVER_RUN_MS");
}
int cuEventQuery(void) {
    static int calls;
    if (is_running()) {
        return NOT_READY;
    }
    int waits = __atomic_load_n(&waiting, __ATOMIC_ACQUIRE);
    return waits || exceeds(&calls, "DRIVER_EVENTS") ? NOT_READY : DONE;
}

// ---- NVRTC ----

HANDLE(nvrtcCreateProgram)
NOTHING(nvrtcCompileProgram)
NOTHING(nvrtcDestroyProgram)

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return DONE;
}
int nvrtcGetCUBINSize(void *program, size_t *bytes) {
    (void)program;
    *bytes = 128;
    return DONE;
}
// A cubin with one section, which is empty: a file's header and a section's.
int nvrtcGetCUBIN(void *program, char *image) {
    static const struct { int at, value; } bytes[] = {
        {0, 0x7f}, {1, 'E'}, {2, 'L'}, {3, 'F'}, {4, 2}, {5, 1}, {6, 1},
        {18, 190}, {40, 64}, {52, 64}, {58, 64}, {60, 1},
    };
    (void)program;
    for (int byte = 0; byte < 128; byte++) image[byte] = 0;
    for (unsigned entry = 0; entry < sizeof bytes / sizeof *bytes; entry++)
        image[bytes[entry].at] = (char)bytes[entry].value;
    return DONE;
}
