// Records a run at export and verifies it later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "crema.pb.h"
#include "crema_file.pb.h"
#include "inference/model.h"

namespace crema {

// Inputs and outputs of a model, in their order.
struct RecordedRun {
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

// Records one sample if the model accepts any number. Draws values as images or from -1..1; uses
// zeros if the net rejects those. Throws what running throws.
RecordedRun RecordRun(const std::shared_ptr<const Model>& model);

// Returns the tolerance relative to the largest recorded value. Other processors and numbers of
// threads sum in another order. In single precision this changed no net of models/ by more than
// 1e-5; 1e-3 leaves room for deeper nets and is far below the effect of a wrong weight or kernel.
// bfloat16 (5e-2): a sum near the middle of two values may be rounded to either, a quarter of a
// percent each time. Other precisions (0.15): another processor may lack them and compute in single
// precision, so that the tolerance covers quantization error.
double RecordedTolerance(const NetParameter& net);

// Repeats the recorded run, whose values are in `bytes`. Throws kDataLoss if an output differs, or
// if the model does not accept the inputs; `path` is for messages. Outputs with rows that depend on
// thresholds (DetectionOutput) or with positions (ArgMax) may differ in a tenth of their elements
// and of their rows.
void CheckRecording(const std::shared_ptr<const Model>& model, const Recording& recording,
                    std::string_view bytes, const std::string& path);

}  // namespace crema
