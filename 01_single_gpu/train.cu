#include "01_single_gpu/train.hpp"

#include "01_single_gpu/evaluate.cuh"
#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "01_single_gpu/training_state.hpp"
#include "common/run/run.hpp"

namespace ddp::single_gpu {
namespace {

template <class T>
TrainingResult train_in(const Options& options) {
  Run<T> run("01_single_gpu", options);
  const cuda::Stream stream;
  Model<T> model(options, options.global_batch, stream);
  const ParameterStore<T>& parameters = model.parameters();
  const Loss<T> loss(options.loss, options.layers.back(), options.global_batch);
  const GradientClipper<T> clipper(options.clip_norm, parameters.gradients().size());
  const Sgd<T> sgd(options, parameters, stream);
  StepScalars<T>* scalars = run.scalars(stream);
  run.track(training_state(parameters, sgd), stream);

  // The host only enqueues work here. The device is a few steps behind it, and nobody waits.
  for (const Step& step : run.steps()) {
    const Batch<T> batch = run.load(step, stream);
    clear_sums(scalars, stream);

    const T* outputs = model.forward(batch.inputs, batch.count);
    const T* gradient = loss.forward_backward(outputs, batch, batch.count, scalars, stream);
    model.backward(gradient);

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

}  // namespace ddp::single_gpu
