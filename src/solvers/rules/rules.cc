// The table of update rules.
#include <vector>

#include "crema.pb.h"
#include "solvers/rules/field_checks.h"
#include "solvers/rules/layerwise_steps.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

void CheckSgd(const SolverParameter& param, FieldChecks* checks) {
  checks->NotNegative("momentum", param.momentum());
}

void CheckAdaGrad(const SolverParameter& param, FieldChecks* checks) {
  checks->NoMomentum(param, "AdaGrad");
  checks->NotNegative("delta", param.delta());
}

void CheckRmsProp(const SolverParameter& param, FieldChecks* checks) {
  checks->NoMomentum(param, "RMSProp");
  checks->BelowOne("rms_decay", param.rms_decay());
  checks->NotNegative("delta", param.delta());
}

void CheckAdaDelta(const SolverParameter& param, FieldChecks* checks) {
  checks->BelowOne("momentum", param.momentum());
  checks->NotNegative("delta", param.delta());
}

void CheckLion(const SolverParameter& param, FieldChecks* checks) {
  checks->BelowOne("momentum", param.momentum());
  checks->BelowOne("momentum2", param.momentum2());
}

void CheckAdam(const SolverParameter& param, FieldChecks* checks) {
  CheckLion(param, checks);
  checks->NotNegative("delta", param.delta());
}

void CheckLars(const SolverParameter& param, FieldChecks* checks) {
  checks->BelowOne("momentum", param.momentum());
  checks->Positive("trust_coefficient", param.trust_coefficient());
}

// `rest` has the optional fields.
UpdateRule MakeRule(const char* name, int histories, decltype(UpdateRule::check) check,
                    decltype(UpdateRule::apply) apply, UpdateRule rest) {
  rest.name = name;
  rest.histories = histories;
  rest.check = check;
  rest.apply = apply;
  return rest;
}

}  // namespace

std::span<const UpdateRule> UpdateRules() {
  static const std::vector<UpdateRule> rules = {
      MakeRule("SGD", 1, CheckSgd, UpdateByStep<SgdStep>,
               {.rate_in_history = true, .in_caffe = true}),
      MakeRule("Nesterov", 1, CheckSgd, UpdateByStep<NesterovStep>,
               {.rate_in_history = true, .in_caffe = true}),
      MakeRule("AdaGrad", 1, CheckAdaGrad, UpdateByStep<AdaGradStep>,
               {.squares = 1, .in_caffe = true, .reads = {"delta"}}),
      MakeRule("RMSProp", 1, CheckRmsProp, UpdateByStep<RmsPropStep>,
               {.squares = 1, .in_caffe = true, .reads = {"rms_decay", "delta"}}),
      MakeRule("AdaDelta", 2, CheckAdaDelta, UpdateByStep<AdaDeltaStep>,
               {.squares = 0b11, .in_caffe = true, .reads = {"delta"}}),
      MakeRule("Adam", 2, CheckAdam, UpdateByStep<AdamStep>,
               {.squares = 0b10, .in_caffe = true, .reads = {"momentum2", "delta"}}),
      MakeRule("AdamW", 2, CheckAdam, UpdateByStep<AdamWStep>,
               {.squares = 0b10,
                .default_momentum = 0.9,
                .takes_l1 = false,
                .reads = {"momentum2", "delta"}}),
      MakeRule("LARS", 1, CheckLars, ApplyLars,
               {.default_momentum = 0.9,
                .rate_in_history = true,
                .takes_l1 = false,
                .reads = {"trust_coefficient"}}),
      MakeRule("LAMB", 2, CheckAdam, ApplyLamb,
               {.squares = 0b10,
                .default_momentum = 0.9,
                .takes_l1 = false,
                .reads = {"momentum2", "delta"}}),
      MakeRule("Lion", 1, CheckLion, UpdateByStep<LionStep>,
               {.default_momentum = 0.9, .takes_l1 = false, .reads = {"momentum2"}})};
  return rules;
}

}  // namespace crema
