#include "common/run/checkpoint.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <map>

#include "common/cli/option_names.hpp"
#include "common/cuda/buffer.hpp"
#include "common/errors.hpp"
#include "common/io/safetensors.hpp"

namespace ddp {
namespace {

template <class T>
constexpr const char* dtype_of = nullptr;
template <>
constexpr const char* dtype_of<float> = "F32";
template <>
constexpr const char* dtype_of<double> = "F64";

/// The options that must be the same for a run to go on as if it had never stopped, by their names
/// on the command line. The order of samples and every update follow from them and the step; the
/// learning rate, the length of the run and the outputs may change.
std::map<std::string, std::string> deciding_options(const Options& options) {
  const LossScaleRule& scale = options.loss_scale;
  return {{"data", options.data},
          {"layers", layers_text(options.layers)},
          {"activation", std::string(name_of(options.activation))},
          {"loss", std::string(name_of(options.loss))},
          {"precision", std::string(name_of(options.precision))},
          {"global-batch", std::to_string(options.global_batch)},
          {"momentum", fmt::format("{}", options.momentum)},
          {"momentum-form", std::string(name_of(options.momentum_form))},
          {"weight-decay", fmt::format("{}", options.weight_decay)},
          {"clip-norm", fmt::format("{}", options.clip_norm)},
          {"loss-scale", scale.dynamic() ? "dynamic" : fmt::format("{}", scale.first)},
          {"seed", std::to_string(options.seed)},
          {"no-shuffle", options.shuffle ? "false" : "true"}};
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::int64_t step_of(const std::string& path, const TextMetadata& metadata) {
  const auto found = metadata.find("step");
  if (found == metadata.end())
    throw InputError(fmt::format("{}: its metadata names no step", path));
  const std::string& text = found->second;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc{} || end != text.data() + text.size() || step < 0) {
    throw InputError(fmt::format("{}: its step is '{}', expected a number from 0", path, text));
  }
  return step;
}

/// The array for `buffer`, of its shape and type.
template <class T>
const Tensor& matching_tensor(const std::string& path, const TensorFile& file,
                              const NamedBuffer<T>& buffer) {
  const auto found = file.tensors.find(buffer.name);
  if (found == file.tensors.end())
    throw InputError(fmt::format("{}: no tensor {}", path, buffer.name));
  const Tensor& tensor = found->second;
  const std::vector<std::int64_t> shape(buffer.shape.begin(), buffer.shape.end());
  if (tensor.shape != shape || tensor.dtype != dtype_of<T>) {
    throw InputError(fmt::format("{}: tensor {} is {} {}, the model has {} {}", path, buffer.name,
                                 tensor.dtype, shape_text(tensor.shape), dtype_of<T>,
                                 shape_text(shape)));
  }
  return tensor;
}

}  // namespace

template <class T>
void save_checkpoint(const std::string& path, const Options& options, std::int64_t step,
                     std::span<const NamedBuffer<T>> state, const cuda::Stream& stream) {
  std::vector<std::vector<T>> values;
  std::vector<TensorView> tensors;
  values.reserve(state.size());
  for (const NamedBuffer<T>& buffer : state) {
    values.push_back(cuda::download<T>(buffer.values.data(), buffer.values.size(), stream));
    tensors.push_back({buffer.name,
                       dtype_of<T>,
                       {buffer.shape.begin(), buffer.shape.end()},
                       std::as_bytes(std::span(values.back()))});
  }
  TextMetadata metadata = deciding_options(options);
  metadata["step"] = std::to_string(step);
  write_safetensors(path, tensors, metadata);
}

template <class T>
std::int64_t load_checkpoint(const std::string& path, const Options& options,
                             std::span<const NamedBuffer<T>> state, const cuda::Stream& stream) {
  const TensorFile file = read_safetensors(path);
  const std::int64_t step = step_of(path, file.metadata);
  for (const NamedBuffer<T>& buffer : state) matching_tensor(path, file, buffer);
  if (file.tensors.size() != state.size()) {
    throw InputError(fmt::format("{}: {} tensors, the model and its optimizer have {}", path,
                                 file.tensors.size(), state.size()));
  }
  for (const auto& [name, value] : deciding_options(options)) {
    const auto saved = file.metadata.find(name);
    if (saved == file.metadata.end())
      throw InputError(fmt::format("{}: its metadata lacks {}", path, name));
    if (saved->second != value) {
      throw OptionError(
          fmt::format("--{} is {}, but {} was written with {}", name, value, path, saved->second));
    }
  }
  for (const NamedBuffer<T>& buffer : state) {
    const std::vector<std::byte>& bytes = matching_tensor(path, file, buffer).bytes;
    const auto* values = reinterpret_cast<const T*>(bytes.data());
    cuda::upload(buffer.values.data(), std::span(values, buffer.values.size()), stream);
  }
  return step;
}

template <class T>
std::int64_t share_state(const Ranks& ranks, std::int64_t step,
                         std::span<const NamedBuffer<T>> state, const cuda::Stream& stream) {
  if (ranks.size() == 1) return step;
  std::string bytes;
  const auto append = [&](const auto* values, std::size_t count) {
    bytes.append(reinterpret_cast<const char*>(values), count * sizeof *values);
  };
  if (ranks.rank() == 0) {
    append(&step, 1);
    for (const NamedBuffer<T>& buffer : state) {
      const auto values = cuda::download<T>(buffer.values.data(), buffer.values.size(), stream);
      append(values.data(), values.size());
    }
  }
  bytes = ranks.all_gather(bytes)[0];
  if (ranks.rank() == 0) return step;
  const char* next = bytes.data();
  const auto take = [&](auto* values, std::size_t count) {
    std::memcpy(values, next, count * sizeof *values);
    next += count * sizeof *values;
  };
  take(&step, 1);
  for (const NamedBuffer<T>& buffer : state) {
    std::vector<T> values(buffer.values.size());
    take(values.data(), values.size());
    cuda::upload<T>(buffer.values.data(), values, stream);
  }
  return step;
}

template std::int64_t share_state(const Ranks&, std::int64_t, std::span<const NamedBuffer<float>>,
                                  const cuda::Stream&);
template std::int64_t share_state(const Ranks&, std::int64_t, std::span<const NamedBuffer<double>>,
                                  const cuda::Stream&);
template void save_checkpoint(const std::string&, const Options&, std::int64_t,
                              std::span<const NamedBuffer<float>>, const cuda::Stream&);
template void save_checkpoint(const std::string&, const Options&, std::int64_t,
                              std::span<const NamedBuffer<double>>, const cuda::Stream&);
template std::int64_t load_checkpoint(const std::string&, const Options&,
                                      std::span<const NamedBuffer<float>>, const cuda::Stream&);
template std::int64_t load_checkpoint(const std::string&, const Options&,
                                      std::span<const NamedBuffer<double>>, const cuda::Stream&);

}  // namespace ddp
