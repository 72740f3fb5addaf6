#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/io/training_result.hpp"

namespace ddp {

/// The processes that train together, as Run sees them: it needs to know who it is and to agree
/// with the others, nothing more. Stages 01 and 02 run alone; common/mpi has the ranks of a job.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Every rank's text, in the order of the ranks. Collective: all ranks call it.
  virtual std::vector<std::string> all_gather(const std::string& text) const = 0;
  /// Of this rank, so far.
  virtual Traffic traffic() const = 0;
  /// Notes the step that begins, for messages about failures.
  virtual void set_step(std::int64_t) const {}
  /// What this rank is to do before it ends a job that has failed, where nothing is unwound; empty:
  /// nothing. It must neither throw nor wait.
  virtual void at_failure(std::function<void()>) const {}
};

/// One process that trains alone.
class SingleRank final : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& text) const override { return {text}; }
  Traffic traffic() const override { return {}; }
};
inline const SingleRank alone;

}  // namespace ddp
