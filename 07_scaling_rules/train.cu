#include "07_scaling_rules/train.hpp"

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/training_state.hpp"
#include "02_grad_accum/accumulator.cuh"
#include "02_grad_accum/gradient_check.cuh"
#include "03_naive_allreduce/evaluate_share.cuh"
#include "03_naive_allreduce/rank_cut.hpp"
#include "03_naive_allreduce/replicas.hpp"
#include "05_nccl_ddp/step_reducer.hpp"
#include "07_scaling_rules/learning_rate.hpp"
#include "07_scaling_rules/momentum_sgd.cuh"
#include "common/run/run.hpp"

namespace ddp::scaling_rules {
namespace {

template <class T>
TrainingResult train_in(const Options& options, const mpi::Communicator& ranks) {
  const int micro_batch = rank_micro_batch_size(options, ranks.size());
  Run<T> run("07_scaling_rules", options, rank_cut(options), micro_batch, ranks);
  const cuda::Stream stream;
  Model<T> model(seeded_apart(options, ranks.rank()), micro_batch, stream,
                 step_extras(ranks.size()));
  const ParameterStore<T>& parameters = model.parameters();
  const Loss<T> loss(options.loss, options.layers.back(), micro_batch);
  GradientAccumulator<T> accumulator(options, parameters, leaves_of_a_rank(options, ranks.size()));
  GradientCheck<T> gradient_check(options, run, stream, ranks.rank());
  const GradientClipper<T> clipper(options.clip_norm, parameters.gradients().size());
  const MomentumSgd<T> sgd(options, parameters, stream);
  StepScalars<T>* scalars = run.scalars(stream);
  StepReducer<T> reducer(options, parameters, scalars, ranks, run.simulated(), stream);
  if (!options.no_broadcast) broadcast_parameters(parameters, ranks, stream);
  run.track(training_state(parameters, sgd, {sgd.state()}), stream);
  const RateSchedule schedule = rate_schedule(options, run.training_data().size());
  const ReplicaCheck<T> replicas(options, parameters, ranks, stream);

  for (const Step& step : run.steps()) {
    clear_sums(scalars, stream);
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

    check_finite(parameters.gradients(), scalars, stream);
    clipper.clip(parameters.gradients(), scalars, stream);
    sgd.step(parameters, schedule, scalars, stream);

    run.record(step, scalars, stream);
    replicas.after(step.number);
  }

  replicas.at_the_end();
  const EvaluationSums test = evaluate_share(model, loss, run.test_data(), ranks, stream);
  return run.finish(parameters.value_views(), test, stream);
}

}  // namespace

TrainingResult train(const Options& options, const mpi::Communicator& ranks) {
  return options.precision == Precision::fp64 ? train_in<double>(options, ranks)
                                              : train_in<float>(options, ranks);
}

}  // namespace ddp::scaling_rules
