#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "common/run/ranks.hpp"

namespace ddp {

/// Does `action` on every rank, then lets all ranks know how it went. If it throws on one of them,
/// all throw AgreedError with the code and the message of the first, so that nobody goes on and
/// waits for a rank that has given up. Collective; alone it is `action` and no more.
void on_all_ranks(const Ranks& ranks, const std::function<void()>& action);

/// Every rank's `value`, in the order of the ranks. For values that are bytes and no pointers.
template <class Value>
std::vector<Value> all_gather_value(const Ranks& ranks, const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::vector<Value> values;
  for (const std::string& bytes :
       ranks.all_gather({reinterpret_cast<const char*>(&value), sizeof value})) {
    std::memcpy(&values.emplace_back(), bytes.data(), sizeof value);
  }
  return values;
}

}  // namespace ddp
