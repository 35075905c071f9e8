// What a model computed where it was exported, and whether it still does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "crema_file.pb.h"
#include "inference/model.h"

namespace crema {

// Values of the inputs and outputs of a model, in their order.
struct RecordedRun {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

// One sample where the model takes any number, values drawn as images or as numbers in -1..1;
// zeros where the net refuses those. Throws what running throws.
RecordedRun RecordRun(const std::shared_ptr<const Model>& model);

// How far values may be from recorded ones, as a part of the largest of them. Other processors and
// numbers of threads sum in another order: in single precision that moved the outputs of no net of
// models/ by more than 1e-5; 1e-3 leaves room for deeper ones and is far below what a wrong weight
// or a wrong kernel does. In bfloat16 (5e-2) a sum that lies near the middle of two values may be
// rounded to either, a quarter of a percent each time. Other precisions (0.15) may not be there at
// all on another processor, which then computes in single precision: that is an error of quantising
// and not of rounding.
double RecordedTolerance(const NetParameter& net);

// Runs the recorded inputs, which lie in `bytes`. Throws kDataLoss where an output differs, or
// where the model does not take them; `path` is for messages. Outputs whose rows depend on
// thresholds (DetectionOutput) or are positions (ArgMax) may differ in a tenth of their elements,
// and in their number of rows as much.
void CheckRecording(const std::shared_ptr<const Model>& model, const Recording& recording,
                    std::string_view bytes, const std::string& path);

}  // namespace crema
