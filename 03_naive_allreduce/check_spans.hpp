#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

namespace ddp {

/// Every all-reduce begins with this check of its two spans (see AllReduce::sum): of one size, and
/// either the same memory or apart. In spans that overlap in part, a value of the input would be
/// overwritten before it is read; that is refused with std::invalid_argument.
template <class T>
void check_spans(std::span<const T> input, std::span<T> output) {
  if (input.size() != output.size()) {
    throw std::invalid_argument("all-reduce: the input has " + std::to_string(input.size()) +
                                " elements, the output " + std::to_string(output.size()));
  }
  const T* const begin = output.data();
  const std::less<const T*> before;  // of any two pointers, also into different allocations
  const bool apart =
      !before(begin, input.data() + input.size()) || !before(input.data(), begin + output.size());
  if (input.data() != begin && !apart) {
    throw std::invalid_argument("all-reduce: input and output overlap in part; " +
                                std::to_string(output.size()) +
                                " elements must be the same memory or apart");
  }
}

}  // namespace ddp
