#include "02_grad_accum/train.hpp"

#include "01_single_gpu/evaluate.cuh"
#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "01_single_gpu/training_state.hpp"
#include "02_grad_accum/accumulator.cuh"
#include "02_grad_accum/cut.hpp"
#include "02_grad_accum/gradient_check.cuh"
#include "common/run/run.hpp"

namespace ddp::grad_accum {
namespace {

template <class T>
TrainingResult train_in(const Options& options) {
  const int micro_batch = micro_batch_size(options);
  Run<T> run("02_grad_accum", options, micro_batch_cut(options), micro_batch);
  const cuda::Stream stream;
  Model<T> model(options, micro_batch, stream, loss_extras);
  const ParameterStore<T>& parameters = model.parameters();
  const Loss<T> loss(options.loss, options.layers.back(), micro_batch);
  GradientAccumulator<T> accumulator(options, parameters, leaf_count(options));
  GradientCheck<T> gradient_check(options, run, stream);
  const GradientClipper<T> clipper(options.clip_norm, parameters.gradients().size());
  const Sgd<T> sgd(options, parameters, stream);
  StepScalars<T>* scalars = run.scalars(stream);
  run.track(training_state(parameters, sgd), stream);

  for (const Step& step : run.steps()) {
    // [exercise 2.4] What is reported is the loss of the whole batch. Where does its sum begin?
    clear_sums(scalars, stream);
    // [/exercise]
    for (const MicroBatch& micro : step.micro_batches) {
      const Batch<T> batch = run.load(micro, stream);
      const T* outputs = model.forward(batch.inputs, batch.count);
      // [exercise 2.2] The loss, and back. From here on everything only adds: so divide by what?
      const T* gradient = loss.forward_backward(outputs, batch, step.count(), scalars, stream);
      model.backward(gradient, accumulator.beta(micro));
      // [/exercise]
      accumulator.add(micro, step, scalars, stream);
    }
    gradient_check.compare(step, parameters, scalars);

    check_finite(parameters.gradients(), scalars, stream);
    clipper.clip(parameters.gradients(), scalars, stream);
    sgd.step(parameters, options.learning_rate, scalars, stream);

    run.record(step, scalars, options.learning_rate, stream);
  }

  const EvaluationSums test =
      evaluate(model, loss, run.test_data(), all_samples(run.test_data()), stream);
  return run.finish(parameters.value_views(), test, stream);
}

}  // namespace

TrainingResult train(const Options& options) {
  return options.precision == Precision::fp64 ? train_in<double>(options)
                                              : train_in<float>(options);
}

}  // namespace ddp::grad_accum
