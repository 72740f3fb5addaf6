#pragma once

#include "01_single_gpu/parameter_store.hpp"
#include "01_single_gpu/reductions.cuh"
#include "06_mixed_precision/loss_scaler.cuh"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// The end of a step: from the gradient of the scaled loss, summed over micro-batches and ranks, to
/// new weights. An optimizer's step() leaves them as they are where `scalars` say so.
///
///     summed over all ranks       so that all see the same, and skip together
///     divided by the scale        so that what follows sees the gradient
///     looked through              for what has overflowed
///     clipped                     by its true norm
///     applied                     or skipped
///     next scale                  last: this step's was needed until here
template <class T, class Optimizer, class Rate>
void apply_gradient(const ParameterStore<T>& parameters, const LossScaler<T>& scaler,
                    const GradientClipper<T>& clipper, const Optimizer& optimizer, const Rate& rate,
                    StepScalars<T>* scalars, cudaStream_t stream) {
  // [exercise 6.5] The gradient is that of the scaled loss, summed over all ranks. What now?
  scaler.unscale(parameters.gradients(), scalars, stream);
  clipper.clip(parameters.gradients(), scalars, stream);
  optimizer.step(parameters, rate, scalars, stream);
  scaler.update(scalars, stream);
  // [/exercise]
}

}  // namespace ddp
