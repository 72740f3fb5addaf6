#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  /// Notes the step that begins, for messages about failures.
  virtual void set_step(std::int64_t) const {}
};

/// One process that trains alone.
class SingleRank final : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(const std::string& text) const override { return {text}; }
};

/// What one rank has sent and received, as its calls asked for it: a message counts when it is
/// handed over, and its bytes are those of its values.
struct Traffic {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
};

}  // namespace ddp
