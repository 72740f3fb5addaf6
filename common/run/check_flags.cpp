#include "common/run/check_flags.hpp"

#include <cmath>
#include <string>

#include "common/errors.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {
namespace {

template <class Exception>
[[noreturn]] void fail(const Ranks& ranks, const Exception& error) {
  if (ranks.size() > 1) throw AgreedError(error.code(), error.what());
  throw error;
}

}  // namespace

void check_flags(const Ranks& ranks, std::int64_t step, unsigned flags, unsigned raised_by,
                 double loss, double loss_scale) {
  if (ranks.size() == 1) raised_by = 1;
  const std::string where =
      " in step " + std::to_string(step) +
      (raised_by == 0 ? " on all ranks" : " on rank " + std::to_string(raised_by - 1));
  if (flags & label_out_of_range) fail(ranks, InputError("label out of range" + where));
  if (!std::isfinite(loss)) flags |= non_finite_loss;
  std::string what;
  const auto add = [&](StepFlag flag, const char* name) {
    if (flags & flag) what += (what.empty() ? "" : ", ") + std::string(name);
  };
  add(non_finite_loss, "loss");
  add(non_finite_gradient, "gradient");
  add(non_finite_update, "update (learning rate times gradient)");
  if (what.empty()) return;
  fail(ranks, NonFiniteError("non-finite " + what + where +
                             "; the weights are those of the step before. A smaller " +
                             (loss_scale > 1 ? "--loss-scale" : "--lr") + " may help."));
}

}  // namespace ddp
