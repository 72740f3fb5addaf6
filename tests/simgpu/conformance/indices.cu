// threadIdx, blockIdx, blockDim and gridDim in one, two and three dimensions.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

struct Place {
  unsigned block_x, block_y, block_z;
  unsigned thread_x, thread_y, thread_z;
  int visits;
};

__device__ unsigned volume(dim3 size) { return size.x * size.y * size.z; }

__global__ void record_place(Place* places) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  Place& place = places[block * volume(blockDim) + thread];
  place.block_x = blockIdx.x;
  place.block_y = blockIdx.y;
  place.block_z = blockIdx.z;
  place.thread_x = threadIdx.x;
  place.thread_y = threadIdx.y;
  place.thread_z = threadIdx.z;
  atomicAdd(&place.visits, 1);
}

void check_every_place_once(dim3 grid, dim3 block) {
  const cuda::Stream stream;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  const cuda::DeviceBuffer<Place> buffer = zeros_on_device<Place>(blocks * threads);
  cuda::launch<record_place>({stream, grid, block}, buffer.data());
  const std::vector<Place> places = read_back(buffer);

  std::size_t index = 0;
  std::size_t wrong = 0;
  for (unsigned bz = 0; bz < grid.z; ++bz)
    for (unsigned by = 0; by < grid.y; ++by)
      for (unsigned bx = 0; bx < grid.x; ++bx)
        for (unsigned tz = 0; tz < block.z; ++tz)
          for (unsigned ty = 0; ty < block.y; ++ty)
            for (unsigned tx = 0; tx < block.x; ++tx) {
              const Place& place = places[index++];
              const bool right = place.visits == 1 && place.block_x == bx && place.block_y == by &&
                                 place.block_z == bz && place.thread_x == tx &&
                                 place.thread_y == ty && place.thread_z == tz;
              if (!right) ++wrong;
            }
  CHECK(index == places.size());
  CHECK(wrong == 0);
}

TEST_CASE("every thread of every block runs exactly once", "[indices]") {
  check_every_place_once(1, 1);
  check_every_place_once(7, 33);
  check_every_place_once(3, 1024);
  check_every_place_once(dim3(3, 2), dim3(5, 7));
  check_every_place_once(dim3(2, 3, 4), dim3(5, 3, 2));
  check_every_place_once(dim3(1, 1, 5), dim3(2, 8, 64));
}

struct Sizes {
  dim3 grid, block;
  int warp_size;
};

__global__ void record_sizes(Sizes* sizes) {
  if (blockIdx.y + threadIdx.y + threadIdx.z != 0) return;
  sizes->grid = gridDim;
  sizes->block = blockDim;
  sizes->warp_size = warpSize;
}

TEST_CASE("gridDim and blockDim are those of the launch; a missing dimension is 1", "[indices]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<Sizes> sizes(1);
  cuda::launch<record_sizes>({stream, dim3(1, 4), dim3(1, 2, 3)}, sizes.data());
  const Sizes seen = read_back(sizes).front();
  CHECK(seen.grid.x == 1);
  CHECK(seen.grid.y == 4);
  CHECK(seen.grid.z == 1);
  CHECK(seen.block.x == 1);
  CHECK(seen.block.y == 2);
  CHECK(seen.block.z == 3);
  CHECK(seen.warp_size == 32);
}

__global__ void gray_image(unsigned char* image, unsigned width, unsigned height) {
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column < width && row < height) {
    image[row * width + column] = static_cast<unsigned char>((3 * row + column) % 251);
  }
}

TEST_CASE("a two-dimensional grid covers an image whose sides fit no block", "[indices]") {
  const cuda::Stream stream;
  constexpr unsigned width = 37, height = 19;
  const cuda::DeviceBuffer<unsigned char> image = zeros_on_device<unsigned char>(width * height);
  const dim3 grid(cuda::blocks_for(width, 16), cuda::blocks_for(height, 8));
  cuda::launch<gray_image>({stream, grid, dim3(16, 8)}, image.data(), width, height);
  const std::vector<unsigned char> pixels = read_back(image);
  std::size_t wrong = 0;
  for (unsigned row = 0; row < height; ++row)
    for (unsigned column = 0; column < width; ++column)
      if (pixels[row * width + column] != (3 * row + column) % 251) ++wrong;
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace ddp::conformance
