// NCCL's all-reduce beside MPI's, in place, interleaved in one run: medians of the slowest rank.
//
//   tools/launch.py -n 2 build/sim/bin/nccl_allreduce [repetitions (50)]
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"

namespace ddp {
namespace {

void check_nccl(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/// Microseconds of the slowest rank.
double microseconds(const std::function<void()>& operation) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  operation();
  double elapsed = MPI_Wtime() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &elapsed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return elapsed * 1e6;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void run(int repetitions) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  cuda::check(cudaSetDevice(rank));
  ncclUniqueId id{};
  if (rank == 0) check_nccl(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm = nullptr;
  check_nccl(ncclCommInitRank(&comm, ranks, id, rank));
  const cuda::Stream stream;

  if (rank == 0) std::printf("%12s %12s %12s\n", "bytes", "nccl us", "MPI us");
  for (const std::size_t bytes :
       {std::size_t{4}, std::size_t{1} << 10, std::size_t{1} << 14, std::size_t{1} << 16,
        std::size_t{1} << 20, std::size_t{25} << 20}) {
    const std::size_t count = bytes / sizeof(float);
    const cuda::DeviceBuffer<float> values(count);
    cuda::check(cudaMemset(values.data(), 0, bytes));
    std::vector<float> host(count);
    std::vector<double> nccl_times, mpi_times;
    for (int i = 0; i < repetitions + 3; ++i) {
      const double nccl_time = microseconds([&] {
        check_nccl(
            ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, stream));
        stream.synchronize();
      });
      const double mpi_time = microseconds([&] {
        MPI_Allreduce(MPI_IN_PLACE, host.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      });
      if (i < 3) continue;
      nccl_times.push_back(nccl_time);
      mpi_times.push_back(mpi_time);
    }
    if (rank == 0) {
      std::printf("%12zu %12.1f %12.1f\n", bytes, median(nccl_times), median(mpi_times));
    }
  }
  check_nccl(ncclCommDestroy(comm));
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  ddp::run(argc > 1 ? std::atoi(argv[1]) : 50);
  MPI_Finalize();
}
