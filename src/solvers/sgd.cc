// Stochastic gradient descent with momentum; see SgdRule.
#include <cmath>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "math/vectorize.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

template <typename T>
struct SgdPass {
  T* w;
  const T* gradient;  // null: zero
  T* h;
  T momentum;
  T rate;
  T scale;
  T decay;
};

template <typename T>
inline void RunL2(const SgdPass<T>& p, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const T g = p.scale * p.gradient[i] + p.decay * p.w[i];
    p.h[i] = p.momentum * p.h[i] + p.rate * g;
    p.w[i] -= p.h[i];
  }
}

template <typename T>
inline void RunL1(const SgdPass<T>& p, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const T sign = static_cast<T>((p.w[i] > 0) - (p.w[i] < 0));
    const T g = p.scale * p.gradient[i] + p.decay * sign;
    p.h[i] = p.momentum * p.h[i] + p.rate * g;
    p.w[i] -= p.h[i];
  }
}

// A blob that no loss depends on: decay and its history still move it.
template <typename T>
void RunWithoutGradient(const SgdPass<T>& p, bool l1, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const T pull = l1 ? static_cast<T>((p.w[i] > 0) - (p.w[i] < 0)) : p.w[i];
    p.h[i] = p.momentum * p.h[i] + p.rate * p.decay * pull;
    p.w[i] -= p.h[i];
  }
}

CREMA_MULTIVERSION void LoopL2(const SgdPass<float>& p, int64_t b, int64_t e) { RunL2(p, b, e); }
void LoopL2(const SgdPass<double>& p, int64_t b, int64_t e) { RunL2(p, b, e); }
CREMA_MULTIVERSION void LoopL1(const SgdPass<float>& p, int64_t b, int64_t e) { RunL1(p, b, e); }
void LoopL1(const SgdPass<double>& p, int64_t b, int64_t e) { RunL1(p, b, e); }

void ApplySgd(const UpdateArgs& args) {
  constexpr int64_t kGrain = 1 << 15;
  DispatchFloat(args.weights.dtype(), [&]<typename T>(T) {
    const SgdPass<T> pass{.w = args.weights.data<T>(),
                          .gradient = args.gradient.empty() ? nullptr : args.gradient.data<T>(),
                          .h = args.history[0].data<T>(),
                          .momentum = static_cast<T>(args.param.momentum()),
                          .rate = static_cast<T>(args.rate),
                          .scale = static_cast<T>(args.gradient_scale),
                          .decay = static_cast<T>(args.decay)};
    ParallelFor(args.context.threads(), args.weights.count(), kGrain,
                [&](int64_t begin, int64_t end, int) {
                  const bool l1 = args.regularization == Regularization::kL1;
                  if (pass.gradient == nullptr) {
                    RunWithoutGradient(pass, l1, begin, end);
                  } else if (l1 && pass.decay != 0) {
                    LoopL1(pass, begin, end);
                  } else {
                    LoopL2(pass, begin, end);
                  }
                });
  });
}

std::vector<Problem> CheckSgd(const SolverParameter& param) {
  std::vector<Problem> problems;
  if (!std::isfinite(param.momentum()) || param.momentum() < 0) {
    Where where;
    where.field = "momentum";
    problems.push_back({ErrorCode::kInvalidArgument, where,
                        StrCat("momentum is ", param.momentum(), "; use 0 or more")});
  }
  return problems;
}

}  // namespace

UpdateRule SgdRule() {
  return {.name = "SGD", .histories = 1, .check = CheckSgd, .apply = ApplySgd};
}

}  // namespace crema
