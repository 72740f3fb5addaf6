// Prints what the environment makes of the simulated host: how many devices, which, how large, how
// old.
#include <cuda_runtime.h>

#include <cstdio>

int main() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  std::printf("%s\ndevices: %d\n", cudaGetErrorName(status), devices);
  if (status != cudaSuccess) {
    int* pointer = nullptr;
    std::printf("cudaMalloc: %s\n", cudaGetErrorName(cudaMalloc(&pointer, 4)));
  }
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return 1;
    std::printf("%d: %s, %zu MiB, compute capability %d.%d\n", device, properties.name,
                properties.totalGlobalMem >> 20, properties.major, properties.minor);
  }
}
