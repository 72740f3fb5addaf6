#pragma once

#include <set>
#include <string>

#include "common/cli/option_table.hpp"
#include "common/cli/options.hpp"

namespace ddp {

/// The options of stage 07 that together say at which rate to learn, `--lr` among them.
class RateOptions {
 public:
  /// Adds them to the table; both must outlive it.
  RateOptions(OptionTable& table, Options& options);
  RateOptions(const RateOptions&) = delete;
  RateOptions& operator=(const RateOptions&) = delete;

  /// Once the command line is read: throws OptionError where two of them contradict each other, or
  /// one says nothing without another.
  void check() const;

 private:
  bool given(const std::string& name) const { return given_.contains(name); }

  Options& options_;
  std::set<std::string> given_;
};

}  // namespace ddp
