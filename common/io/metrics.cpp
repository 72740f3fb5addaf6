#include "common/io/metrics.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/cli/option_names.hpp"
#include "common/io/checksum.hpp"
#include "common/io/version.hpp"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order in which the fields are written here

// A path or name may hold bytes that are no UTF-8; a log line must not fail for that.
std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json loss_scale_json(const LossScaleRule& rule) {
  if (rule.dynamic()) return "dynamic";
  return rule.first;
}

// All that changes what a run computes or sends.
Json options_json(const Options& options) {
  return {{"data", options.data},
          {"layers", options.layers},
          {"activation", name_of(options.activation)},
          {"loss", name_of(options.loss)},
          {"precision", name_of(options.precision)},
          {"global_batch", options.global_batch},
          {"epochs", options.epochs},
          {"steps", options.steps ? Json(*options.steps) : Json()},
          {"learning_rate", options.base_learning_rate ? Json() : Json(options.learning_rate)},
          {"momentum", options.momentum},
          {"weight_decay", options.weight_decay},
          {"clip_norm", options.clip_norm},
          {"seed", options.seed},
          {"shuffle", options.shuffle},
          {"micro_batch", options.micro_batch},
          {"accumulate", name_of(options.accumulate)},
          {"allreduce", name_of(options.allreduce)},
          {"by_parameter", options.by_parameter},
          {"mpi_buffers", name_of(options.mpi_buffers)},
          {"bucket_mb", options.bucket_mb},
          {"first_bucket_mb", options.first_bucket_mb},
          {"overlap", options.overlap},
          {"loss_scale", loss_scale_json(options.loss_scale)},
          {"reduce_dtype", name_of(options.reduce_type)},
          {"master_weights", options.master_weights},
          {"base_learning_rate",
           options.base_learning_rate ? Json(*options.base_learning_rate) : Json()},
          {"base_batch", options.base_batch},
          {"scaling", name_of(options.scaling)},
          {"warmup_steps", options.warmup_steps},
          {"warmup_epochs", options.warmup_epochs},
          {"warmup_from", options.warmup_from},
          {"schedule", name_of(options.schedule)},
          {"decay_every_epochs", options.decay_every_epochs},
          {"decay_factor", options.decay_factor},
          {"momentum_form", name_of(options.momentum_form)},
          {"check_replicas", options.check_replicas},
          {"check_gradients", options.check_gradients},
          {"no_broadcast", options.no_broadcast},
          {"device", options.device},
          {"resume", options.resume}};
}

// One object a rank, in order.
Json traffic_json(const std::vector<Traffic>& traffic) {
  Json ranks = Json::array();
  for (const Traffic& rank : traffic) {
    ranks.push_back({{"messages_sent", rank.messages_sent},
                     {"bytes_sent", rank.bytes_sent},
                     {"messages_received", rank.messages_received},
                     {"bytes_received", rank.bytes_received}});
    if (rank.modelled_seconds > 0) ranks.back()["modelled_seconds"] = rank.modelled_seconds;
    if (rank.collectives > 0) {
      ranks.back()["collectives"] = rank.collectives;
      ranks.back()["collective_bytes"] = rank.collective_bytes;
    }
  }
  return ranks;
}

}  // namespace

void MetricsFile::run(const RunDescription& description, const Options& options) {
  file_.write_line(line({{"event", "run"},
                         {"stage", description.stage},
                         {"options", options_json(options)},
                         {"world_size", description.world_size},
                         {"device", description.device_name},
                         {"simulated", description.simulated},
                         {"parameters", description.parameter_count},
                         {"versions",
                          {{"ddp_from_scratch", project_version()},
                           {"cuda_runtime", description.cuda_runtime_version}}},
                         {"train_samples", description.train_samples},
                         {"test_samples", description.test_samples},
                         {"input_mean", description.input_mean},
                         {"input_std", description.input_std}}));
}

void MetricsFile::step(const StepRecord& record) {
  Json json{{"event", "step"},
            {"step", record.step},
            {"epoch", record.epoch},
            {"loss", record.loss},
            {"learning_rate", record.learning_rate},
            {"samples", record.samples},
            {"seconds", record.seconds}};
  if (record.loss_scale > 0) {
    json["loss_scale"] = record.loss_scale;
    json["skipped"] = record.skipped;
  }
  file_.write_line(line(json));
}

void MetricsFile::gradient_difference(const GradientDifference& difference) {
  file_.write_line(line({{"event", "check"},
                         {"step", difference.step},
                         {"loss_difference", difference.loss},
                         {"gradient_difference", difference.gradient}}));
}

void MetricsFile::end(const TrainingResult& result) {
  file_.write_line(line({{"event", "end"},
                         {"test_accuracy", result.test.accuracy},
                         {"test_loss", result.test.loss},
                         {"parameter_checksum", checksum_text(result.parameter_checksum)},
                         {"samples_per_second", result.samples_per_second},
                         {"traffic", traffic_json(result.traffic)},
                         {"peak_device_bytes", result.peak_device_bytes},
                         {"interrupted", result.interrupted}}));
}

void SampleDump::step(std::int64_t step, int rank, std::span<const std::uint32_t> samples) {
  file_.write_line(line({{"step", step}, {"rank", rank}, {"ids", samples}}));
}

}  // namespace ddp
