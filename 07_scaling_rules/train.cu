#include "07_scaling_rules/train.hpp"

#include <stdexcept>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/training_state.hpp"
#include "02_grad_accum/accumulator.cuh"
#include "02_grad_accum/gradient_check.cuh"
#include "03_naive_allreduce/evaluate_share.cuh"
#include "03_naive_allreduce/rank_cut.hpp"
#include "03_naive_allreduce/replicas.hpp"
#include "05_nccl_ddp/step_reducer.hpp"
#include "06_mixed_precision/apply_gradient.cuh"
#include "06_mixed_precision/half_allreduce.hpp"
#include "06_mixed_precision/loss_scaler.cuh"
#include "06_mixed_precision/mixed_model.cuh"
#include "06_mixed_precision/require_precision.hpp"
#include "07_scaling_rules/learning_rate.hpp"
#include "07_scaling_rules/momentum_sgd.cuh"
#include "common/run/run.hpp"

namespace ddp::scaling_rules {
namespace {

/// The layers compute in H, all that is added up is T: the same, but for halves.
template <class H, class T = Wide<H>, class Net = MixedModel<H>>
TrainingResult train_in(const Options& options, const mpi::Communicator& ranks) {
  const int micro_batch = rank_micro_batch_size(options, ranks.size());
  Run<T> run("07_scaling_rules", options, rank_cut(options), micro_batch, ranks);
  const cuda::Stream stream;
  const LossScaler<T> scaler(options.loss_scale, stream);
  Net model(seeded_apart(options, ranks.rank()), micro_batch, stream, scaler.scale(),
            step_extras(ranks.size()));
  const ParameterStore<T>& parameters = model.parameters();
  const Loss<T> loss(options.loss, options.layers.back(), micro_batch);
  GradientAccumulator<T> accumulator(options, parameters, leaves_of_a_rank(options, ranks.size()));
  GradientCheck<T, Net> gradient_check(options, run, stream, ranks.rank(), scaler.scale());
  const GradientClipper<T> clipper(options.clip_norm, parameters.gradients().size());
  const MomentumSgd<T> sgd(options, parameters, stream);
  StepScalars<T>* scalars = run.scalars(stream);
  StepReducer<T> reducer(options, parameters, scalars, ranks, run.simulated(), stream,
                         nccl_in<H>(options, parameters));
  if (!options.no_broadcast) broadcast_parameters(parameters, ranks, stream);
  run.track(training_state(parameters, sgd, {scaler.state(), sgd.state()}), stream);
  const RateSchedule schedule = rate_schedule(options, run.training_data().size());
  const ReplicaCheck<T> replicas(options, parameters, ranks, stream);

  for (const Step& step : run.steps()) {
    clear_sums(scalars, stream);
    model.cast_weights();
    for (const MicroBatch& micro : step.micro_batches) {
      const Batch<T> batch = run.load(micro, stream);
      const T* outputs = model.forward(batch.inputs, batch.count);
      const T* gradient = loss.forward_backward(outputs, batch, step.count(), scalars, stream);
      model.backward(gradient, accumulator.beta(micro),
                     reducer.during_backward(step, micro, run.stop_requested()));
      accumulator.add(micro, step, scalars, stream);
    }
    reducer.finish(run.stop_requested());
    gradient_check.compare(step, parameters, scalars);
    apply_gradient(parameters, scaler, clipper, sgd, schedule, scalars, stream);

    run.record(step, scalars, stream);
    replicas.after(step.number);
  }

  replicas.at_the_end();
  model.cast_weights();
  const EvaluationSums test = evaluate_share(model, loss, run.test_data(), ranks, stream);
  return run.finish(parameters.value_views(), test, stream);
}

}  // namespace

TrainingResult train(const Options& options, const mpi::Communicator& ranks) {
  require_precision(options.precision, ranks);
  switch (options.precision) {
    case Precision::fp64:
      return train_in<double>(options, ranks);
    case Precision::fp32:
      return train_in<float>(options, ranks);
    case Precision::fp16:
      return train_in<__half>(options, ranks);
    case Precision::bf16:
      return train_in<__nv_bfloat16>(options, ranks);
  }
  throw std::invalid_argument("train: no such precision");
}

}  // namespace ddp::scaling_rules
