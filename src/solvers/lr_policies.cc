#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "crema.pb.h"
#include "solvers/learning_rate.h"

namespace crema {
namespace {

double Dropped(const SolverParameter& param, int drops) {
  return param.base_lr() * std::pow(static_cast<double>(param.gamma()), drops);
}

// Returns the completed share of the run, 0..1; a run of length 0 is complete.
double Progress(const SolverParameter& param, int64_t iteration) {
  if (iteration >= param.max_iter()) return 1;
  return static_cast<double>(iteration) / param.max_iter();
}

// Moves from `begin` to `end` as `share` goes from 0 to 1.
double Anneal(OneCycleParameter::Anneal shape, double begin, double end, double share) {
  if (shape == OneCycleParameter::LINEAR) return begin + (end - begin) * share;
  return end + (begin - end) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double Fixed(const SolverParameter& param, int64_t, int*) { return param.base_lr(); }

double Step(const SolverParameter& param, int64_t iteration, int* step) {
  *step = static_cast<int>(iteration / param.stepsize());
  return Dropped(param, *step);
}

double Exp(const SolverParameter& param, int64_t iteration, int*) {
  return param.base_lr() *
         std::pow(static_cast<double>(param.gamma()), static_cast<double>(iteration));
}

double Inv(const SolverParameter& param, int64_t iteration, int*) {
  const double grown = 1 + static_cast<double>(param.gamma()) * static_cast<double>(iteration);
  return param.base_lr() * std::pow(grown, -static_cast<double>(param.power()));
}

double Multistep(const SolverParameter& param, int64_t iteration, int* step) {
  if (*step < param.stepvalue_size() && iteration >= param.stepvalue(*step)) ++*step;
  return Dropped(param, *step);
}

// NVCaffe's formula, which equals Caffe's if min_lr is 0. Caffe's is NaN beyond max_iter.
double Poly(const SolverParameter& param, int64_t iteration, int*) {
  const double left = 1 - Progress(param, iteration);
  const double power = param.power();
  const double share = left > 0 || power == 0 ? std::pow(left, power) : 0;
  const double floor = param.min_lr();
  return (param.base_lr() - floor) * share + floor;
}

double Sigmoid(const SolverParameter& param, int64_t iteration, int*) {
  const double past = static_cast<double>(iteration) - param.stepsize();
  return param.base_lr() / (1 + std::exp(-static_cast<double>(param.gamma()) * past));
}

double Cosine(const SolverParameter& param, int64_t iteration, int*) {
  return Anneal(OneCycleParameter::COS, param.base_lr(), param.min_lr(),
                Progress(param, iteration));
}

// As PyTorch's OneCycleLR, whose last step is max_iter - 1; the rate stays there.
double OneCycle(const SolverParameter& param, int64_t iteration, int*) {
  const OneCycleParameter& cycle = param.one_cycle_param();
  const double peak = param.base_lr();
  const double first = peak / cycle.div_factor();
  const double last = first / cycle.final_div_factor();
  const auto now = static_cast<double>(iteration);
  const double end = param.max_iter() - 1.0;
  const double top = static_cast<double>(cycle.pct_start()) * param.max_iter() - 1;
  const auto share = [now](double from, double to) {
    return to > from ? std::min((now - from) / (to - from), 1.0) : 1.0;
  };
  if (now <= top) return Anneal(cycle.anneal(), first, peak, share(0, top));
  return Anneal(cycle.anneal(), peak, last, share(top, end));
}

double Plateau(const SolverParameter& param, int64_t, int* step) { return Dropped(param, *step); }

double Multifixed(const SolverParameter& param, int64_t iteration, int*) {
  const int last = param.stagelr_size() - 1;
  int stage = 0;
  while (stage < last && iteration > param.stageiter(stage)) ++stage;
  return param.stagelr(stage);
}

int Stepvalues(const SolverParameter& param) { return param.stepvalue_size(); }

std::array<LrPolicy, 11> MakePolicies() {
  return {{
      {.name = "fixed", .needs = {"base_lr"}, .rate = Fixed},
      {.name = "step", .needs = {"base_lr", "gamma", "stepsize"}, .rate = Step},
      {.name = "exp", .needs = {"base_lr", "gamma"}, .rate = Exp},
      {.name = "inv", .needs = {"base_lr", "gamma", "power"}, .rate = Inv},
      {.name = "multistep",
       .needs = {"base_lr", "gamma", "stepvalue"},
       .rate = Multistep,
       .reads_step = true,
       .most_steps = Stepvalues},
      {.name = "poly", .needs = {"base_lr", "power", "max_iter"}, .rate = Poly},
      {.name = "sigmoid", .needs = {"base_lr", "gamma", "stepsize"}, .rate = Sigmoid},
      {.name = "cosine", .needs = {"base_lr", "max_iter"}, .rate = Cosine},
      {.name = "one_cycle",
       .needs = {"base_lr", "max_iter"},
       .reads = {"one_cycle_param"},
       .rate = OneCycle},
      {.name = "plateau",
       .needs = {"base_lr", "gamma"},
       .reads = {"plateau", "plateau_winsize"},
       .rate = Plateau,
       .reads_step = true},
      {.name = "multifixed", .needs = {"stagelr", "stageiter"}, .rate = Multifixed},
  }};
}

}  // namespace

std::span<const LrPolicy> LrPolicies() {
  static const std::array<LrPolicy, 11> policies = MakePolicies();
  return policies;
}

const LrPolicy* FindLrPolicy(const std::string& name) {
  const std::span<const LrPolicy> policies = LrPolicies();
  const auto found = std::ranges::find(policies, name, &LrPolicy::name);
  return found == policies.end() ? nullptr : &*found;
}

}  // namespace crema
