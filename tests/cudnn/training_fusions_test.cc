// Fusions of convolutions in training: sums for a following BatchNorm, a preceding BatchNorm with
// ReLU, its gradient. cuDNN is a fake; numbers are compared with plain loops.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "cudnn/cudnn_fixture.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/cudnn_conv.h"
#include "support/gpu.h"
#include "support/half.h"

namespace crema::test {
namespace {

constexpr int64_t kBatch = 2, kIn = 16, kOut = 8, kHeight = 6, kWidth = 5;

struct Window {
  int64_t kernel, stride, pad;
};
constexpr Window kWindows[] = {{3, 1, 1}, {1, 1, 0}, {3, 2, 1}, {1, 2, 0}};

CudnnConvSpec::Axis AxisOf(int64_t size, const Window& w) {
  return {size, (size + 2 * w.pad - w.kernel) / w.stride + 1, w.kernel, w.stride, w.pad, 1};
}

CudnnConvSpec SpecOf(ConvPass pass, const Window& window) {
  CudnnConvSpec spec;
  spec.pass = pass;
  spec.dtype = DType::kF16;
  spec.channels_last = true;
  spec.batch = kBatch;
  spec.in_channels = kIn;
  spec.out_channels = kOut;
  spec.axes = {AxisOf(kHeight, window), AxisOf(kWidth, window)};
  return spec;
}

using Numbers = std::vector<double>;

// Multiples of 1/64: sums of some hundred products are exact in f64, in whatever order, so that
// results are compared bit for bit. Halves of them have to be rounded.
Numbers Draw(int64_t count, uint64_t seed) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = MixBits(seed, static_cast<uint64_t>(i));
    numbers.push_back(static_cast<double>(static_cast<int64_t>(bits % 129) - 64) / 64);
  }
  return numbers;
}

double Rounded(double x) {
  return static_cast<double>(static_cast<float>(Half(static_cast<float>(x))));
}

std::vector<Half> Halves(const Numbers& numbers) {
  std::vector<Half> halves;
  for (const double x : numbers) halves.emplace_back(static_cast<float>(x));
  return halves;
}
std::vector<float> Floats(const Numbers& numbers) { return {numbers.begin(), numbers.end()}; }
Numbers NumbersOf(const std::vector<Half>& halves) {
  Numbers numbers;
  for (const Half& half : halves) numbers.push_back(static_cast<double>(static_cast<float>(half)));
  return numbers;
}
Numbers NumbersOf(const std::vector<float>& floats) { return {floats.begin(), floats.end()}; }

Numbers RoundedToHalves(Numbers numbers) {
  std::ranges::transform(numbers, numbers.begin(), Rounded);
  return numbers;
}
Numbers RoundedToFloats(Numbers numbers) { return NumbersOf(Floats(numbers)); }

// body(x, w, y): places in memory of each product. Padding has none.
template <typename Body>
void ForProducts(const CudnnConvSpec& spec, const Body& body) {
  const CudnnConvSpec::Axis &v = spec.axes[0], &h = spec.axes[1];
  for (int64_t n = 0; n < spec.batch; ++n) {
    for (int64_t i = 0; i < v.out * h.out * v.kernel * h.kernel; ++i) {
      const int64_t s = i % h.kernel, r = i / h.kernel % v.kernel;
      const int64_t q = i / h.kernel / v.kernel % h.out, p = i / h.kernel / v.kernel / h.out;
      const int64_t row = p * v.stride - v.pad + r, column = q * h.stride - h.pad + s;
      if (row < 0 || row >= v.in || column < 0 || column >= h.in) continue;
      for (int64_t k = 0; k < spec.out_channels; ++k) {
        for (int64_t c = 0; c < spec.in_channels; ++c) {
          body(((n * v.in + row) * h.in + column) * spec.in_channels + c,
               ((k * v.kernel + r) * h.kernel + s) * spec.in_channels + c,
               ((n * v.out + p) * h.out + q) * spec.out_channels + k);
        }
      }
    }
  }
}

double& At(Numbers& numbers, int64_t i) { return numbers[static_cast<size_t>(i)]; }
double At(const Numbers& numbers, int64_t i) { return numbers[static_cast<size_t>(i)]; }
Numbers Zeros(int64_t count) { return Numbers(static_cast<size_t>(count)); }

// relu(scale * x + shift), in halves: the input of the convolution.
Numbers Normalized(Numbers x, const Numbers& scale, const Numbers& shift) {
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i % scale.size();
    x[i] = Rounded(std::max(scale[c] * x[i] + shift[c], 0.0));
  }
  return x;
}

class TrainingFusions : public CudnnTest {
 protected:
  // Queues that pass once and waits for it.
  static void Run(const CudnnConvSpec& spec, CudnnConvMemory memory) {
    alignas(kCudnnWorkspaceLine) static char workspace[1024];
    memory.workspace = workspace;
    const ExecContext context = GpuContext(1);
    CudaQueue& queue = BoundQueue(context);
    ASSERT_EQ(memory.Alignment(), 16);
    CudnnConvPass pass(queue, spec, memory, nullptr);
    pass.Run(queue, memory);
    queue.Synchronize();
  }

  static void CheckForward(const Window& window, bool normalized, bool statistics) {
    CudnnConvSpec spec = SpecOf(ConvPass::kForward, window);
    spec.normalized = normalized;
    spec.statistics = statistics;
    const Numbers x = Draw(spec.InCount(), 1), w = Draw(spec.FilterCount(), 2);
    const Numbers scale = Draw(kIn, 3), shift = Draw(kIn, 4);
    const auto x16 = Halves(x), w16 = Halves(w), scale16 = Halves(scale), shift16 = Halves(shift);
    std::vector<Half> y(static_cast<size_t>(spec.OutCount()));
    std::vector<float> sum(kOut, -1), squares(kOut, -1);
    CudnnConvMemory memory{.x = x16.data(), .w = w16.data(), .y = y.data()};
    if (normalized) memory.scale = scale16.data(), memory.shift = shift16.data();
    if (statistics) memory.sum_of_y = sum.data(), memory.sum_of_squares = squares.data();
    Run(spec, memory);

    const Numbers read = normalized ? Normalized(x, scale, shift) : x;
    Numbers wanted = Zeros(spec.OutCount()), sums = Zeros(kOut), of_squares = Zeros(kOut);
    ForProducts(spec, [&](int64_t from, int64_t weight, int64_t to) {
      At(wanted, to) += At(read, from) * At(w, weight);
    });
    wanted = RoundedToHalves(wanted);
    EXPECT_EQ(NumbersOf(y), wanted) << Describe(spec);
    if (!statistics) return;
    for (size_t i = 0; i < wanted.size(); ++i) {
      sums[i % kOut] += wanted[i];
      of_squares[i % kOut] += wanted[i] * wanted[i];
    }
    EXPECT_EQ(NumbersOf(sum), RoundedToFloats(sums)) << Describe(spec);
    EXPECT_EQ(NumbersOf(squares), RoundedToFloats(of_squares)) << Describe(spec);
  }

  // Returns the reason why cuDNN has no engine for it.
  static std::string WhyNot(const CudnnConvSpec& spec) {
    CudnnSupportCache answers;
    return answers.WhyNot(spec, 0);
  }

  // Each graph of training.
  static std::vector<CudnnConvSpec> Specs() {
    std::vector<CudnnConvSpec> specs(5, SpecOf(ConvPass::kForward, kWindows[0]));
    specs[0].statistics = true;
    specs[1].normalized = true;
    specs[2].normalized = specs[2].statistics = true;
    specs[3].normalized = true;
    specs[3].pass = ConvPass::kToWeights;
    specs[4].norm_gradient = true;
    specs[4].pass = ConvPass::kToInput;
    return specs;
  }
  template <typename Change>
  static void ExpectRefusal(const std::string& words, const Change& change) {
    for (CudnnConvSpec spec : Specs()) {
      change(&spec);
      const std::string reason = WhyNot(spec);
      EXPECT_NE(reason.find(words), std::string::npos) << Describe(spec) << ": " << reason;
      EXPECT_EQ(reason.find("finalize"), std::string::npos) << reason;
    }
  }
};

TEST_F(TrainingFusions, ForwardGivesTheStatisticsOfWhatItStores) {
  for (const Window& window : kWindows) CheckForward(window, false, true);
}

// Padding is zero after the ReLU, for any shift.
TEST_F(TrainingFusions, ForwardReadsNormalizedInput) {
  for (const Window& window : kWindows) CheckForward(window, true, false);
}

TEST_F(TrainingFusions, ForwardDoesBoth) {
  for (const Window& window : kWindows) CheckForward(window, true, true);
}

TEST_F(TrainingFusions, GradientsOfWeightsReadNormalizedInput) {
  for (const Window& window : kWindows) {
    CudnnConvSpec spec = SpecOf(ConvPass::kToWeights, window);
    spec.normalized = true;
    const Numbers x = Draw(spec.InCount(), 1), dy = Draw(spec.OutCount(), 2);
    const Numbers scale = Draw(kIn, 3), shift = Draw(kIn, 4);
    const auto x16 = Halves(x), dy16 = Halves(dy), scale16 = Halves(scale), shift16 = Halves(shift);
    std::vector<Half> dw(static_cast<size_t>(spec.FilterCount()));
    Run(spec, {.x = x16.data(),
               .w = dw.data(),
               .y = dy16.data(),
               .scale = scale16.data(),
               .shift = shift16.data()});

    const Numbers read = Normalized(x, scale, shift);
    Numbers wanted = Zeros(spec.FilterCount());
    ForProducts(spec, [&](int64_t from, int64_t weight, int64_t to) {
      At(wanted, weight) += At(read, from) * At(dy, to);
    });
    EXPECT_EQ(NumbersOf(dw), RoundedToHalves(wanted)) << Describe(spec);
  }
}

// Inputs and outputs of a BatchNorm, by channel.
struct Norm {
  Numbers x, mean = Draw(kIn, 13), inverse = Draw(kIn, 14), scale = Draw(kIn, 15);
  Numbers shift = Draw(kIn, 16);

  explicit Norm(int64_t count) : x(Draw(count, 12)) {
    // One number that ReLU is given as 0.
    x[0] = mean[0];
    shift[0] = 0;
  }
  double Deviation(size_t i) const { return (x[i] - mean[i % kIn]) * inverse[i % kIn]; }
  bool Passes(size_t i) const { return Deviation(i) * scale[i % kIn] + shift[i % kIn] > 0; }
};

TEST_F(TrainingFusions, GradientsOfInputsPassReluAndGiveTheSumsOfTheNorm) {
  for (const Window& window : kWindows) {
    CudnnConvSpec spec = SpecOf(ConvPass::kToInput, window);
    spec.norm_gradient = true;
    const Numbers dy = Draw(spec.OutCount(), 1), w = Draw(spec.FilterCount(), 2);
    const Norm norm(spec.InCount());
    const auto dy16 = Halves(dy), w16 = Halves(w), norm_x = Halves(norm.x);
    const auto mean = Floats(norm.mean), inverse = Floats(norm.inverse);
    const auto scale = Floats(norm.scale), shift = Floats(norm.shift);
    std::vector<Half> dx(norm.x.size());
    std::vector<float> dscale(kIn), dshift(kIn), equivalents(3 * kIn);
    CudnnConvMemory memory{.x = dx.data(), .w = w16.data(), .y = dy16.data()};
    memory.norm = {.x = norm_x.data(),
                   .mean = mean.data(),
                   .inverse = inverse.data(),
                   .scale = scale.data(),
                   .shift = shift.data(),
                   .dscale = dscale.data(),
                   .dshift = dshift.data(),
                   .equivalents = equivalents.data()};
    Run(spec, memory);

    Numbers wanted = Zeros(spec.InCount()), dscales = Zeros(kIn), dshifts = Zeros(kIn);
    ForProducts(spec, [&](int64_t from, int64_t weight, int64_t to) {
      At(wanted, from) += At(dy, to) * At(w, weight);
    });
    for (size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = norm.Passes(i) ? Rounded(wanted[i]) : 0;
      dscales[i % kIn] += wanted[i] * norm.Deviation(i);
      dshifts[i % kIn] += wanted[i];
    }
    EXPECT_EQ(NumbersOf(dx), wanted) << Describe(spec);
    EXPECT_EQ(NumbersOf(dscale), RoundedToFloats(dscales)) << Describe(spec);
    EXPECT_EQ(NumbersOf(dshift), RoundedToFloats(dshifts)) << Describe(spec);
  }
}

TEST_F(TrainingFusions, AreOfHalvesOnly) {
  ExpectRefusal("CUDNN_DATA_HALF", [](CudnnConvSpec* s) { s->dtype = DType::kBF16; });
  ExpectRefusal("CUDNN_DATA_HALF", [](CudnnConvSpec* s) { s->dtype = DType::kF32; });
  FakeRules().training_in_any_type = true;
  for (CudnnConvSpec spec : Specs()) {
    spec.dtype = DType::kBF16;
    EXPECT_EQ(WhyNot(spec), "") << Describe(spec);
  }
}

TEST_F(TrainingFusions, AreRefusedInOtherShapes) {
  for (const CudnnConvSpec& spec : Specs()) EXPECT_EQ(WhyNot(spec), "") << Describe(spec);
  ExpectRefusal("isAllTensorNHWC", [](CudnnConvSpec* s) { s->channels_last = false; });
  ExpectRefusal("getPtrAlignment", [](CudnnConvSpec* s) { s->alignment = 8; });
  ExpectRefusal("multiples of 8", [](CudnnConvSpec* s) { s->in_channels = 20; });
  ExpectRefusal("multiples of 8", [](CudnnConvSpec* s) { s->out_channels = 12; });
  ExpectRefusal("groups", [](CudnnConvSpec* s) { s->groups = 2; });
}

TEST_F(TrainingFusions, AreOfPassesThatHaveThem) {
  const auto refused = [](bool CudnnConvSpec::*flag, ConvPass pass, bool bias) {
    CudnnConvSpec spec = SpecOf(pass, kWindows[0]);
    spec.*flag = true;
    spec.bias = bias;
    return WhyNot(spec).find("internal error") != std::string::npos;
  };
  const ConvPass passes[] = {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights};
  for (const ConvPass pass : passes) {
    EXPECT_EQ(refused(&CudnnConvSpec::statistics, pass, false), pass != ConvPass::kForward);
    EXPECT_EQ(refused(&CudnnConvSpec::normalized, pass, false), pass == ConvPass::kToInput);
    EXPECT_EQ(refused(&CudnnConvSpec::norm_gradient, pass, false), pass != ConvPass::kToInput);
  }
  EXPECT_TRUE(refused(&CudnnConvSpec::statistics, ConvPass::kForward, true));
  EXPECT_TRUE(refused(&CudnnConvSpec::norm_gradient, ConvPass::kToInput, true));
}

}  // namespace
}  // namespace crema::test
