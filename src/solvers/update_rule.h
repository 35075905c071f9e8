// How a gradient changes a learned blob: the list of solver types.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/exec_context.h"
#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

enum class Regularization { kL2, kL1 };

// Everything an update of one blob needs. Before the rule proper, the gradient becomes
//   g = gradient_scale * gradient + decay * w   (L2), or + decay * sign(w) (L1).
struct UpdateArgs {
  const ExecContext& context;
  const SolverParameter& param;
  int64_t iteration = 0;
  TensorView weights;
  ConstTensorView gradient;             // empty: zero (a blob that is not learned)
  std::span<const TensorView> history;  // as many as the rule keeps, each of the blob's shape
  double rate = 0;                      // learning rate times lr_mult
  double gradient_scale = 1;            // clipping and 1 / iter_size
  double decay = 0;                     // weight_decay times decay_mult
  Regularization regularization = Regularization::kL2;
};

// One solver type. Thread safety: const.
struct UpdateRule {
  std::string name;   // SolverParameter.type
  int histories = 0;  // blobs of state for each learned blob
  // Problems with the solver's fields; where.field names the field.
  std::vector<Problem> (*check)(const SolverParameter& param) = nullptr;
  // One fused pass over the blob: regularise, update history and weights.
  void (*apply)(const UpdateArgs& args) = nullptr;
};

// All of them, in the order in which they are listed to people.
std::span<const UpdateRule> UpdateRules();
// Null when there is none of that name.
const UpdateRule* FindUpdateRule(const std::string& name);

// SGD with momentum m: h = m * h + rate * g; w = w - h. (Caffe's form: the rate is inside h.)
UpdateRule SgdRule();

}  // namespace crema
