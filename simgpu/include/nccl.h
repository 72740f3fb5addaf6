#pragma once
// Stands in for NVIDIA's header of this name in the sim preset: the calls of NCCL that the course
// uses, with NCCL's names, values and layouts (those of 2.28). Their meaning is NCCL's; see the
// NCCL User Guide. What is different on simulated GPUs, and how mistakes show, is in
// simgpu/README.md.

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

namespace simgpu {
/// From now on large device allocations lie where other ranks can map them, which spares NCCL
/// copies, but has them on small pages.
bool share_device_memory();
#ifndef SIMGPU_ITSELF  // its sources have this header in any program
/// A program that has this header wants that from its start.
inline const bool device_memory_is_shared = share_device_memory();
#endif
}  // namespace simgpu

/// A communicator: one rank's membership of a group of ranks, each with a device of its own.
typedef struct ncclComm* ncclComm_t;

/// What one rank makes with ncclGetUniqueId and sends to the others, who then find it.
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,  ///< a value that this call does not take
  ncclInvalidUsage = 5,     ///< calls that do not fit together, for instance of two ranks
  ncclRemoteError = 6,      ///< another rank has failed
  ncclInProgress = 7,       ///< of a communicator with blocking = 0: poll ncclCommGetAsyncError
  ncclNumResults = 8,
};

enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclNumTypes = 12,
};

enum ncclRedOp_t : int {
  ncclSum = 0,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,  ///< floats: each value times 1/ranks, then the sum; integers: the sum, then divided
  ncclNumOps = 5,
};

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL

/// Settings of a communicator, to be started from NCCL_CONFIG_INITIALIZER. Only `blocking` matters
/// to simulated GPUs (1, the default, or 0).
typedef struct {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
  {                                                                                                \
    sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,                    \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT \
  }

ncclResult_t ncclGetVersion(int* version);

/// What went wrong, in general; and the process's last failure in particular (`comm` may be null).
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);

// Communicators. A rank's communicator has the device that is current when it is initialised.
// Initialising returns when all ranks have come, except with blocking = 0: then this call and all
// later ones of the communicator return ncclInProgress, and it takes the next call only after
// ncclCommGetAsyncError has said ncclSuccess. Two ranks on one device are refused
// (ncclInvalidUsage).

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId unique_id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId unique_id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* ranks);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
/// Whether the communicator is still at work (ncclInProgress) or has failed. A peer that died or
/// made another call does not show here, as with NCCL inside a host, unless SIMGPU_NCCL=diagnose.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
/// Waits for what was enqueued; after it the communicator takes ncclCommDestroy or -Abort only.
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/// Ends running operations, whose results are undefined, and frees the communicator; the streams go
/// on. May be called by any thread. Other ranks are not told.
ncclResult_t ncclCommAbort(ncclComm_t comm);

// Operations, enqueued in `stream`. All ranks must make the same calls in the same order. Counts
// are in elements; buffers lie in memory of the communicator's device.

/// recv[i] on every rank = the reduction of all ranks' send[i]. In place: send == recv.
ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
/// recv on every rank = send of `root`, which only the root gives. In place: send == recv.
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
/// As ncclAllReduce, but only `root` gets the result and needs `recv`.
ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
/// recv: (ranks, send_count), row r is rank r's send. In place: send == recv + rank * send_count.
ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
/// send: (ranks, recv_count); rank r's recv is the reduction of all ranks' rows r. In place: recv
/// == send + rank * recv_count.
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t recv_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
/// Two ranks, one sends and one receives, with the same count and type. A rank that must do both at
/// once does them in a group.
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

/// Calls of this thread between the two count as one: nothing is enqueued before the outermost
/// ncclGroupEnd, and sends and receives of a group progress together. Wrong arguments are returned
/// at once and again by ncclGroupEnd, which then enqueues nothing.
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
