// Update rules, which turn gradients into new parameters: the list of solver types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/exec_context.h"
#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// Collects problems, each with the name of its field. Thread safety: one thread.
class FieldChecks {
 public:
  void Report(const std::string& field, std::string message);
  void NotNegative(const std::string& field, double value);  // and finite
  void BelowOne(const std::string& field, double value);     // 0 <= value < 1
  void Positive(const std::string& field, double value);     // and finite
  // `rule` does without momentum.
  void NoMomentum(const SolverParameter& param, const std::string& rule);

  std::vector<Problem> Take() { return std::move(problems_); }

 private:
  std::vector<Problem> problems_;
};

enum class Regularization { kL2, kL1 };

// One parameter in an update.
struct BlobUpdate {
  TensorView weights;
  ConstTensorView gradient;             // empty: zero (a blob that no loss depends on)
  std::span<const TensorView> history;  // as many as the rule keeps, each of the blob's shape
  double rate = 0;                      // learning rate times lr_mult
  double decay = 0;                     // weight_decay times decay_mult
};

// One update of a net. Before the rule proper, each gradient becomes
//   g = clamp(gradient_scale * gradient, +-gradient_limit)
// and, unless the rule decouples the decay, g += decay * w (L2) or decay * sign(w) (L1).
struct UpdateArgs {
  const ExecContext& context;
  const SolverParameter& param;
  int64_t iteration = 0;
  std::span<const BlobUpdate> blobs;  // of one element type
  double gradient_scale = 1;          // clipping by norm and 1 / iter_size
  double gradient_limit = std::numeric_limits<double>::infinity();  // clip_gradient_value
  double momentum = 0;                                              // MomentumAt
  Regularization regularization = Regularization::kL2;
};

// One solver type. Thread safety: const.
struct UpdateRule {
  std::string name = {};                // SolverParameter.type
  int histories = 0;                    // blobs of state for each parameter
  unsigned squares = 0;                 // bit h: history h holds means of squares, never negative
  double default_momentum = 0;          // if the field is not set
  bool rate_in_history = false;         // the history moves weights even if the rate is 0
  bool takes_l1 = true;                 // supports L1 regularisation
  bool in_caffe = false;                // a type of BVLC Caffe
  std::vector<std::string> reads = {};  // those of the fields that only some rules read
  // Adds the problems of this rule's fields.
  void (*check)(const SolverParameter& param, FieldChecks* checks) = nullptr;
  // Makes one pass over all blobs, split evenly over the threads of the context: regularise, update
  // history and weights. The result does not depend on the number of threads. Returns the index of
  // the first blob that then has a weight or history that is not finite; -1: none.
  int64_t (*apply)(const UpdateArgs& args) = nullptr;
};

// Returns an entry of the table of rules. `rest` has the optional fields.
inline UpdateRule MakeRule(const char* name, int histories, decltype(UpdateRule::check) check,
                           decltype(UpdateRule::apply) apply, UpdateRule rest) {
  rest.name = name;
  rest.histories = histories;
  rest.check = check;
  rest.apply = apply;
  return rest;
}

// Returns all rules, in the order of listings.
std::span<const UpdateRule> UpdateRules();
// Returns null for an unknown name.
const UpdateRule* FindUpdateRule(const std::string& name);

// Returns the problems of the fields that an update by `rule` reads; where.field names the field.
std::vector<Problem> CheckUpdate(const UpdateRule& rule, const SolverParameter& param);

// Returns warnings about values that are allowed, as in Caffe, but make weights diverge.
std::vector<Problem> WarnAboutUpdate(const SolverParameter& param);

// Returns the momentum of this iteration: the field, or the default of the rule. During
// warmup_iter, if the history contains the rate, it is multiplied by rate / previous rate
// (IntelCaffe; Goyal et al., arXiv:1706.02677, section 2.1).
double MomentumAt(const UpdateRule& rule, const SolverParameter& param, int64_t iteration);

}  // namespace crema
