#include "common/run/trace_file.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

// The file is read by people too: nanoseconds are enough.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

std::string text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json dimensions(const dim3& size) { return {size.x, size.y, size.z}; }

Json event(const cuda::Tracer::Record& record, int rank) {
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
          {"ts", microseconds(record.start)},
          {"dur", microseconds(record.seconds)},
          {"args", std::move(args)}};
}

Json name_event(const char* what, int rank, int row, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

}  // namespace

TraceFile::TraceFile(const std::string& path, Process process)
    : file_(path),
      process_(std::move(process)),
      begin_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                 .count()),
      tracer_(most_operations) {}

TraceFile::~TraceFile() {
  if (written_) return;
  try {
    tracer_.read_done();
    write_records();
  } catch (const std::exception&) {  // the error that led here is the one to tell
  }
}

void TraceFile::write() {
  tracer_.read_all();
  written_ = true;
  write_records();
}

void TraceFile::write_records() {
  const int rank = process_.rank;
  Json other = {{"stage", process_.stage},
                {"device", process_.device_name},
                {"simulated", process_.simulated},
                {"begin_unix_seconds", begin_},
                {"omitted", tracer_.omitted()}};
  if (tracer_.omitted() > 0) {
    other["note"] = "only the first " + std::to_string(most_operations) + " operations are here";
  }
  file_.write_line(R"({"displayTimeUnit":"ms","otherData":)" + text(other) + ",\"traceEvents\":[");
  const std::string process = "rank " + std::to_string(rank) + ": " + process_.device_name;
  std::string before = text(name_event("process_name", rank, 0, process));
  int row = 0;
  for (const std::string& name : tracer_.rows()) {
    file_.write_line(before + ",");
    before = text(name_event("thread_name", rank, row++, name));
  }
  std::vector<cuda::Tracer::Record> records = tracer_.records();
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  for (const cuda::Tracer::Record& record : records) {
    file_.write_line(before + ",");
    before = text(event(record, rank));
  }
  file_.write_line(before);
  file_.write_line("]}");
}

}  // namespace ddp
