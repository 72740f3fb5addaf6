#pragma once

#include <set>
#include <string>

#include "common/cli/option_table.hpp"
#include "common/cli/options.hpp"

namespace ddp {

/// The options of stage 06 that say in which numbers to compute, and how to keep them in range.
class PrecisionOptions {
 public:
  /// Adds them to the table; both must outlive it.
  PrecisionOptions(OptionTable& table, Options& options);
  PrecisionOptions(const PrecisionOptions&) = delete;
  PrecisionOptions& operator=(const PrecisionOptions&) = delete;

  /// Once the command line is read: fills in what depends on the precision. Throws OptionError
  /// where two options contradict each other, or one says nothing without another.
  void complete();

 private:
  Options& options_;
  std::set<std::string> given_;
  bool dynamic_ = false;
  double fixed_scale_ = 0;  // 0: not given
};

}  // namespace ddp
