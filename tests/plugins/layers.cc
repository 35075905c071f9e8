// A plugin with one layer type for each part of the interface; plugin_test.cc runs them.
#include <crema/plugin.h>

#include <cmath>
#include <stdexcept>
#include <string>

namespace {

using crema::plugin::Infer;
using crema::plugin::Params;
using crema::plugin::Pass;
using crema::plugin::Reach;

// y = g[c] * x: a parameter, and code for GPUs, which the tests run on the CPU.
class Gain {
 public:
  explicit Gain(const Params& params)
      : filler_("type: '" + params.Text("filler", "constant") + "' value: 1") {}

  void Infer(::Infer& infer) const {
    const auto x = infer.bottom(0);
    if (x.size() < 2) throw std::invalid_argument("x needs two axes");
    infer.SetTop(0, x);
    infer.AddParameter("gain", {x[1]}, filler_.c_str());
    infer.SetReach(Reach::kPlace);
    infer.BackwardReadsBottom(0);
  }
  template <typename T>
  void Forward(const Pass<T>& pass) const {
    const auto x = pass.bottom();
    for (int64_t i = 0; i < x.count(); ++i) {
      pass.top().data()[i] = pass.parameter().data()[Channel(x, i)] * x.data()[i];
    }
  }
  template <typename T>
  void Backward(const Pass<T>& pass) const {
    const auto x = pass.bottom();
    const auto dx = pass.bottom_gradient(), dg = pass.parameter_gradient();
    const auto dy = pass.top_gradient();
    for (int64_t i = 0; i < x.count(); ++i) {
      const int64_t c = Channel(x, i);
      if (!dx.empty()) dx.data()[i] = pass.parameter().data()[c] * dy.data()[i];
      if (!dg.empty()) dg.data()[c] += x.data()[i] * dy.data()[i];
    }
  }
  void CudaForward(const Pass<float>& pass) const { Forward(pass); }
  void CudaBackward(const Pass<float>& pass) const { Backward(pass); }

 private:
  template <typename T>
  static int64_t Channel(const crema::plugin::Tensor<T>& x, int64_t i) {
    int64_t inner = 1;
    for (int axis = 2; axis < x.axes(); ++axis) inner *= x.size(axis);
    return i / inner % x.size(1);
  }

  const std::string filler_;
};

// max(x, 0) by a mask: saved and scratch memory.
class Mask {
 public:
  explicit Mask(const Params&) {}

  void Infer(::Infer& infer) const {
    infer.SetTop(0, infer.bottom(0));
    infer.SetReach(Reach::kElement);
    infer.AllowInPlace();
    infer.raw->saved_bytes = 1;
    for (const int64_t size : infer.bottom(0)) {
      infer.raw->saved_bytes *= static_cast<size_t>(size);
    }
    infer.raw->scratch_bytes = 8;
    infer.raw->scratch_bytes_per_thread = 8;
  }
  template <typename T>
  void Forward(const Pass<T>& pass) const {
    if (pass.raw().scratch_bytes != 8 + 8 * static_cast<size_t>(pass.threads())) {
      throw std::logic_error("other scratch than planned");
    }
    static_cast<double*>(pass.raw().scratch)[pass.threads()] = 1;
    auto* saved = static_cast<unsigned char*>(pass.raw().saved);
    const T* x = pass.bottom().data();
    T* y = pass.top().data();
    pass.ParallelFor(
        pass.top().count(),
        [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            if (saved != nullptr) saved[i] = x[i] > 0;
            y[i] = x[i] > 0 ? x[i] : 0;
          }
        },
        1);
  }
  template <typename T>
  void Backward(const Pass<T>& pass) const {
    const auto* saved = static_cast<const unsigned char*>(pass.raw().saved);
    for (int64_t i = 0; i < pass.top_gradient().count(); ++i) {
      const T dy = pass.top_gradient().data()[i];
      pass.bottom_gradient().data()[i] = saved[i] != 0 ? dy : 0;
    }
  }
};

// The mean of (x - target)^2 / 2: a loss, and a bottom without a gradient.
class Loss {
 public:
  explicit Loss(const Params&) {}

  void Infer(::Infer& infer) const {
    if (infer.bottom(0) != infer.bottom(1)) throw std::invalid_argument("two shapes");
    infer.SetTop(0, {});
    infer.NoGradient(1);
    infer.BackwardReadsBottom(0);
    infer.BackwardReadsBottom(1);
  }
  template <typename T>
  void Forward(const Pass<T>& pass) const {
    T sum = 0;
    for (int64_t i = 0; i < pass.bottom(0).count(); ++i) {
      const T distance = pass.bottom(0).data()[i] - pass.bottom(1).data()[i];
      sum += distance * distance / 2;
    }
    pass.top().data()[0] = sum / static_cast<T>(pass.bottom(0).count());
  }
  template <typename T>
  void Backward(const Pass<T>& pass) const {
    const T scale = pass.top_gradient().data()[0] / static_cast<T>(pass.bottom(0).count());
    for (int64_t i = 0; i < pass.bottom(0).count(); ++i) {
      pass.bottom_gradient().data()[i] =
          scale * (pass.bottom(0).data()[i] - pass.bottom(1).data()[i]);
    }
  }
};

// The number of its passes: a source with a state, and without a gradient.
class Counter {
 public:
  struct State {
    int passes = 0;
  };
  explicit Counter(const Params&) {}
  void Infer(::Infer& infer) const { infer.SetTop(0, {1}); }
  template <typename T>
  void Forward(const Pass<T>& pass) const {
    pass.top().data()[0] = static_cast<T>(++pass.template state<State>().passes);
  }
};

// Makes the mistake that its parameter names.
class Faulty {
 public:
  explicit Faulty(const Params& params) : fault_(params.text()) {
    if (fault_ == "create") throw std::runtime_error("cannot be made");
  }
  void Infer(::Infer& infer) const {
    if (fault_ != "top") infer.SetTop(0, infer.bottom(0));
    if (fault_ == "axes") infer.raw->tops[0].axes = 33;
    if (fault_ == "negative") infer.SetTop(0, {-1});
    if (fault_ == "reach") infer.raw->reach = 7;
    if (fault_ == "filler") infer.AddParameter("w", {1}, "typo: 1");
    if (fault_ == "parameter") infer.AddParameter("w", {1, -2});
  }
  template <typename T>
  void Forward(const Pass<T>& pass) const {
    if (fault_ == "forward") throw std::runtime_error("cannot run");
    if (fault_ == "body") {
      pass.ParallelFor(
          2, [](int64_t, int64_t) { throw std::runtime_error("a piece cannot run"); }, 1);
    }
    if (fault_ == "number") throw 1;
    if (fault_ == "memory") throw std::bad_alloc();
    for (int64_t i = 0; i < pass.top().count(); ++i) pass.top().data()[i] = 0;
  }

 private:
  const std::string fault_;
};

}  // namespace

CREMA_PLUGIN("layers", "2.1", Describe<Gain>("PluginGain"), Describe<Mask>("PluginMask"),
             Describe<Loss>("PluginLoss", 2, 1, 1), Describe<Counter>("PluginCounter", 0),
             Describe<Faulty>("PluginFaulty"))
