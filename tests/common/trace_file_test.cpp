#include "common/run/trace_file.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

constexpr const char* other_event = R"({"name":"theirs","ph":"X","pid":1,"ts":7})";

// Rank 0 of many, of which rank 1 began a second earlier and has left out 3 operations. The others
// say nothing.
class OtherRanks final : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 25'000; }  // of 100,000 operations, 4 are for each
  std::vector<std::string> all_gather(const std::string& text) const override {
    std::int64_t words[2];
    if (text.size() != sizeof words) return {text, other_event};
    std::memcpy(words, text.data(), sizeof words);
    words[0] -= 1'000'000'000;
    words[1] = 3;
    return {text, {reinterpret_cast<const char*>(words), sizeof words}};
  }
  Traffic traffic() const override { return {}; }
  void at_failure(std::function<void()> action) const override { last_action = std::move(action); }

  mutable std::function<void()> last_action;
};

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_file(path)); }

// Six operations, of which the trace takes four.
void work(const cuda::Stream& stream) {
  const cuda::DeviceBuffer<float> values(8);
  const cuda::Range step("step", 1);
  for (int i = 0; i < 6; ++i) cuda::clear_async(values.data(), 8, stream);
  stream.synchronize();
}

TEST_CASE("A trace of several ranks is laid together by their begins, and counts what each omits") {
  const TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const cuda::Stream stream;
  const OtherRanks ranks;
  {
    TraceFile trace(path, {"a stage", "a device", true}, ranks);
    work(stream);
    trace.write();
  }
  CHECK_FALSE(ranks.last_action);
  const nlohmann::json whole = read_json(path);
  const nlohmann::json& about = whole["otherData"];
  CHECK(about["world_size"] == 25'000);
  CHECK(about["omitted"] == 2 + 3);
  CHECK(about["omitted_by_rank"] == std::vector{2, 3});
  const nlohmann::json& events = whole["traceEvents"];
  REQUIRE(events.size() == 2 + 4 + 1);  // names of process and stream; ours; theirs
  for (std::size_t i = 2; i < 6; ++i) {
    CHECK(events[i]["pid"] == 0);
    CHECK(events[i]["ts"] >= 1e6);  // microseconds since rank 1 began
  }
  CHECK(events[6] == nlohmann::json::parse(other_event));
}

TEST_CASE("A trace that was not written has what rank 0 saw, with or without unwinding") {
  const TemporaryFolder folder;
  const std::string path = folder / "trace.json";
  const cuda::Stream stream;
  const OtherRanks ranks;
  const bool unwinds = GENERATE(true, false);
  nlohmann::json whole;
  {
    const TraceFile trace(path, {"a stage", "a device", true}, ranks);
    work(stream);
    if (!unwinds) {
      ranks.last_action();
      whole = read_json(path);  // while the object lives: nothing is destroyed then
    }
  }
  if (unwinds) whole = read_json(path);
  CHECK(whole["otherData"]["omitted_by_rank"] == std::vector{2});
  CHECK(whole["traceEvents"].size() == 2 + 4);
  const std::string note = whole["otherData"]["note"];
  CHECK(note.find("this is what rank 0 saw") != std::string::npos);
}

}  // namespace
}  // namespace ddp
