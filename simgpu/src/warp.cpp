// Warp functions: the lanes of a mask meet and exchange values.

#include <bit>

#include "engine.hpp"
#include "sanitizer.hpp"

namespace simgpu {

/// True once every lane in `mask` that has not returned is here with the same mask; then all go on.
bool Engine::complete_exchange(unsigned warp, unsigned mask) {
  std::uint64_t values[32] = {};
  std::array<const void*, 32> tags{};
  unsigned present = 0, ballot = 0;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = static_cast<unsigned>(std::countr_zero(lanes));
    const unsigned thread = warp * 32 + lane;
    if (thread >= count) break;
    if (!(plain ? thread < next : started_[thread])) return false;
    const Fiber* fiber = owner_[thread];
    if (fiber == nullptr) continue;  // returned
    if (fiber->state != Fiber::State::at_warp || fiber->mask != mask) return false;
    values[lane] = fiber->value;
    tags[lane] = fiber->sync_tag;
    present |= 1u << lane;
    ballot |= (fiber->value != 0 ? 1u : 0u) << lane;
  }
  for (unsigned lanes = present; lanes != 0; lanes &= lanes - 1) {
    Fiber& fiber = *owner_[warp * 32 + static_cast<unsigned>(std::countr_zero(lanes))];
    fiber.source_present = (present >> fiber.source & 1) != 0;
    fiber.value = values[fiber.source];
    fiber.present = present;
    fiber.ballot = ballot;
    if (sanitizer::tsan) fiber.partner_tags = tags;
    fiber.state = Fiber::State::ready;
    if (&fiber != current_) ready_.push(fiber);
  }
  waiting_lanes_[warp] &= ~present;
  return true;
}

Fiber& Engine::exchange(unsigned mask, std::uint64_t value, unsigned source, const char* file,
                        int line) {
  Fiber& fiber = stop(Fiber::State::at_warp, file, line);
  fiber.mask = mask;
  fiber.value = value;
  fiber.source = source & 31;
  const unsigned lane = fiber.linear % 32;
  if ((mask >> lane & 1) == 0) {
    fail(cudaErrorLaunchFailure, fiber.where() + ": " + thread_text() + " is lane " +
                                     std::to_string(lane) + ", which its own mask does not name");
    leave();
  }
  // The last of the mask to come lets all go on. Where lanes are missing, release_waiting()
  // decides.
  unsigned& waiting = waiting_lanes_[fiber.linear / 32];
  waiting |= 1u << lane;
  if ((waiting & mask) == mask && complete_exchange(fiber.linear / 32, mask)) {
    fiber.state = Fiber::State::running;
  } else {
    wait(fiber);
  }
  return fiber;
}

void Engine::report_stuck_warp(const Fiber& waiting) {
  std::string message = "divergent warp: thread " + text(waiting.thread) + " of block " +
                        text(blockIdx) + " waits at " + waiting.where() + " for lanes";
  const unsigned first = waiting.linear / 32 * 32;
  for (unsigned lane = 0; lane < 32 && first + lane < count; ++lane) {
    const Fiber* other = owner_[first + lane];
    if ((waiting.mask >> lane & 1) == 0 || other == nullptr) continue;
    if (other->state == Fiber::State::at_warp && other->mask == waiting.mask) continue;
    message += " " + std::to_string(lane) + " (at " + other->where() + ")";
  }
  fail(cudaErrorLaunchFailure, message);
}

void Engine::sync_warp(unsigned mask, const char* file, int line) {
  Fiber& fiber = *current_;
  SyncTags& tags = sync_tags_[current_thread()];
  fiber.sync_tag = &tags.tag[tags.uses++ % 2];  // in turn, as in sync_threads
  sanitizer::release(fiber.sync_tag);
  exchange(mask, 0, 0, file, line);
  for (unsigned i = 0; i < 32; ++i) {
    if ((fiber.present >> i & 1) != 0) sanitizer::acquire(fiber.partner_tags[i]);
  }
}

}  // namespace simgpu
