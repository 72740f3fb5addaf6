#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/cli/options.hpp"
#include "common/cuda/stream.hpp"
#include "common/run/ranks.hpp"

namespace ddp {

/// A device buffer that belongs to the state of a training run: a checkpoint keeps it.
template <class T>
struct NamedBuffer {
  std::string name;        ///< "model.layers.0.weight", "optimizer.layers.0.weight"
  std::vector<int> shape;  ///< row-major
  std::span<T> values;     ///< in device memory
};

/// Writes the state after `step` to `path`, a safetensors file whose text holds the step, the stage
/// and the options that decide how the run goes on. Waits for the device. The same state gives the
/// same bytes. Throws InputError.
template <class T>
void save_checkpoint(const std::string& path, const Options& options, std::int64_t step,
                     std::span<const NamedBuffer<T>> state, const cuda::Stream& stream);

/// Reads `path` into the buffers of `state` and returns the step after which it was written. The
/// buffers stay as they are unless the whole file fits. Throws InputError, with the path and the
/// reason, for a file that is missing, damaged or of another net, and OptionError, with both
/// values, where an option that decides how the run goes on is another one now.
template <class T>
std::int64_t load_checkpoint(const std::string& path, const Options& options,
                             std::span<const NamedBuffer<T>> state, const cuda::Stream& stream);

/// Rank 0's `step` and state to every rank: the others may not be able to read its file. Returns
/// the step. Collective.
template <class T>
std::int64_t share_state(const Ranks& ranks, std::int64_t step,
                         std::span<const NamedBuffer<T>> state, const cuda::Stream& stream);

}  // namespace ddp
