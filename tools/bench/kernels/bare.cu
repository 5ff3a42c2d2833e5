// What CUDA alone costs: launches N kernels of one block that add 1 to 256 floats, each to the result of the one
// before, one by one and as a graph. Prints {"launch_us": all launches, "node_us": replay time a node}.
//
//   nvcc -O2 -arch=native -o bare tools/bench/kernels/bare.cu && ./bare 1000

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void add(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x] + 1.0f; }

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
        std::exit(1);
    }
}

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

int main(int argc, char** argv) {
    const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
    float* memory;
    cudaStream_t stream;
    check(cudaMalloc(&memory, sizeof(float) * 256 * (count + 1)));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    auto issue = [&] {
        for (int n = 0; n < count; ++n) add<<<1, 256, 0, stream>>>(memory + 256 * n, memory + 256 * (n + 1));
    };
    std::vector<double> launches, nodes;
    for (int round = 0; round < 21; ++round) {
        check(cudaStreamSynchronize(stream));
        auto start = std::chrono::steady_clock::now();
        issue();
        std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
        launches.push_back(spent.count());
    }
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    issue();
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (int round = 0; round < 21; ++round) {
        float elapsed;
        check(cudaEventRecord(begin, stream));
        check(cudaGraphLaunch(executable, stream));
        check(cudaEventRecord(end, stream));
        check(cudaStreamSynchronize(stream));
        check(cudaEventElapsedTime(&elapsed, begin, end));
        nodes.push_back(elapsed * 1e3 / count);
    }
    std::printf("{\"launch_us\": %.1f, \"node_us\": %.4f}\n", median(launches), median(nodes));
    return 0;
}
