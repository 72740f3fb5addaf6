#include "common/run/trace_file.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/io/output_file.hpp"
#include "common/run/agree.hpp"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

// The file is read by people too: nanoseconds are enough.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

std::string text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json dimensions(const dim3& size) { return {size.x, size.y, size.z}; }

Json event(const cuda::Tracer::Record& record, int rank, double begin) {
  const cuda::Operation& operation = record.operation;
  Json args = {{"step", record.step}, {"range", *record.range}};
  if (operation.bytes > 0) args["bytes"] = operation.bytes;
  if (operation.flops > 0) args["flops"] = operation.flops;
  if (operation.grid.x > 0) {
    args["grid"] = dimensions(operation.grid);
    args["block"] = dimensions(operation.block);
  }
  if (operation.m > 0) args["mnk"] = {operation.m, operation.n, operation.k};
  return {{"name", *record.name},
          {"cat", operation.kind},
          {"ph", "X"},
          {"pid", rank},
          {"tid", record.row},
          {"ts", microseconds(begin + record.start)},
          {"dur", microseconds(record.seconds)},
          {"args", std::move(args)}};
}

Json name_event(const char* what, int rank, int row, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

std::size_t share_of_a_rank(const Ranks& ranks) {
  return TraceFile::most_operations / static_cast<std::size_t>(ranks.size());
}

}  // namespace

TraceFile::TraceFile(const std::string& path, Process process, const Ranks& ranks)
    : path_(path),
      process_(std::move(process)),
      ranks_(ranks),
      tracer_(share_of_a_rank(ranks)),
      begin_(tracer_.begin()) {
  if (ranks.rank() != 0) return;
  // Stays if rank 0 is ended from outside, as by another rank's failure.
  write_file({{begin_, 0}}, {}, "the run was ended before rank 0 could write what it saw");
  ranks.at_failure([this] { write_what_this_rank_saw(); });
}

TraceFile::~TraceFile() {
  if (ranks_.rank() != 0) return;
  ranks_.at_failure({});
  write_what_this_rank_saw();
}

void TraceFile::write() {
  tracer_.read_all();
  const std::vector<Seen> seen = all_gather_value(ranks_, Seen{begin_, tracer_.omitted()});
  const auto earlier = [](const Seen& a, const Seen& b) { return a.begin < b.begin; };
  const std::int64_t first = std::min_element(seen.begin(), seen.end(), earlier)->begin;
  const std::vector<std::string> events = ranks_.all_gather(events_since(first));
  written_ = true;
  if (ranks_.rank() == 0) write_file(seen, events, "");
}

void TraceFile::write_what_this_rank_saw() noexcept {
  if (std::exchange(written_, true)) return;
  try {
    tracer_.read_done();
    const bool only_rank = ranks_.size() == 1;
    write_file({{begin_, tracer_.omitted()}}, {events_since(begin_)},
               only_rank ? "" : "the run failed: this is what rank 0 saw");
  } catch (const std::exception&) {  // the error that led here is the one to tell
  }
}

std::string TraceFile::events_since(std::int64_t begin) const {
  const int rank = ranks_.rank();
  const std::string process = "rank " + std::to_string(rank) + ": " + process_.device_name;
  std::string events = text(name_event("process_name", rank, 0, process));
  int row = 0;
  for (const std::string& name : tracer_.rows()) {
    events += ",\n" + text(name_event("thread_name", rank, row++, name));
  }
  std::vector<cuda::Tracer::Record> records = tracer_.records();
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  const double later = static_cast<double>(begin_ - begin) / 1e9;
  for (const cuda::Tracer::Record& record : records) {
    events += ",\n" + text(event(record, rank, later));
  }
  return events;
}

void TraceFile::write_file(const std::vector<Seen>& seen, const std::vector<std::string>& events,
                           std::string note) {
  std::int64_t begin = seen.front().begin;
  std::uint64_t omitted = 0;
  Json omitted_by_rank = Json::array();
  for (const Seen& of_rank : seen) {
    begin = std::min(begin, of_rank.begin);
    omitted += of_rank.omitted;
    omitted_by_rank.push_back(of_rank.omitted);
  }
  Json other = {{"stage", process_.stage},
                {"device", process_.device_name},
                {"simulated", process_.simulated},
                {"world_size", ranks_.size()},
                {"begin_unix_seconds", static_cast<double>(begin) / 1e9},
                {"omitted", omitted},
                {"omitted_by_rank", std::move(omitted_by_rank)}};
  if (omitted > 0) {
    note += (note.empty() ? "" : "; ") + std::string("only the first ") +
            std::to_string(share_of_a_rank(ranks_)) + " operations of each rank are here";
  }
  if (!note.empty()) other["note"] = note;
  OutputFile file(path_);
  file.write_line(R"({"displayTimeUnit":"ms","otherData":)" + text(other) + ",\"traceEvents\":[");
  for (std::size_t rank = 0; rank < events.size(); ++rank) {
    file.write_line(events[rank] + (rank + 1 < events.size() ? "," : ""));
  }
  file.write_line("]}");
}

}  // namespace ddp
