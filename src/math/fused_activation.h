// An element-wise activation that a convolution or a product computes while it writes its output.
#pragma once

namespace crema {

// Thread safety: const.
struct FusedActivation {
  enum class Kind {
    kNone,
    kClip,       // y = min(max(x, alpha), beta)
    kElu,        // y = x > 0 ? x : alpha * (e^x - 1)
    kGelu,       // y = x * P(x), P the distribution function of the standard normal
    kGeluTanh,   // the same, P by the tanh formula
    kHardSwish,  // y = x * min(max(x / 6 + 1 / 2, 0), 1)
    kMish,       // y = x * tanh(log(1 + e^x))
    kTanH,       // y = tanh(x)
  };

  bool on() const { return kind != Kind::kNone; }

  Kind kind = Kind::kNone;
  float alpha = 0;
  float beta = 0;
};

}  // namespace crema
