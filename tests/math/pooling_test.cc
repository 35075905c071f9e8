// Hand-computed values of pooling's corner cases, and the vector code against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/memory_format.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/blocked_pool.h"
#include "math/pool.h"
#include "support/layer_fixture.h"

namespace crema::test {
namespace {

constexpr double kNone = -static_cast<double>(FLT_MAX);
const double kNanPixel = std::numeric_limits<double>::quiet_NaN();

RunResult Pool(const std::string& fields, const Blob& input, int outputs = 1,
               std::vector<Values> output_grads = {}, Phase phase = TRAIN) {
  static const Registry registry = BuiltinRegistry();
  LayerCall call;
  call.prototxt = "pooling_param { " + fields + " }";
  call.inputs = {input};
  call.outputs = outputs;
  call.output_grads = std::move(output_grads);
  call.phase = phase;
  return CallLayer(*registry.Find("Pooling"), call);
}

// Blobs of two images with two blocks of channels, of 5 x 6 pixels.
TEST(BlockedPool, PoolsChannelsLastAsBlocked) {
  const int64_t block = ChannelBlock();
  if (block == 0) GTEST_SKIP() << "this processor has no blocks";
  const PoolWindow window{{.in = 5, .out = 3, .kernel = 3, .stride = 2, .pad = 1},
                          {.in = 6, .out = 4, .kernel = 2, .stride = 2, .pad = 1}};
  const int64_t batch = 2, channels = 2 * block;
  const auto place = [&](int64_t n, int64_t c, int64_t p, int64_t pixels, bool last) {
    if (last) return static_cast<size_t>((n * pixels + p) * channels + c);
    return static_cast<size_t>(((n * 2 + c / block) * pixels + p) * block + c % block);
  };
  std::vector<float> x(size_t(batch * channels * window.InSize())), x_last(x);
  const RandomStream random(1, HashName("channels_last"));
  for (int64_t n = 0, i = 0; n < batch; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < window.InSize(); ++p, ++i) {
        const auto v = static_cast<float>(random.Uniform(static_cast<uint64_t>(i)));
        x[place(n, c, p, window.InSize(), false)] = v;
        x_last[place(n, c, p, window.InSize(), true)] = v;
      }
    }
  }
  for (const bool average : {false, true}) {
    std::vector<float> y(size_t(batch * channels * window.OutSize())), y_last(y);
    const auto pool = [&](const BlockedPoolPlanes& planes, const float* from, float* to) {
      if (average) return BlockedAveragePool(2, window, false, planes, from, to);
      BlockedMaxPool(2, window, planes, from, to, static_cast<uint8_t*>(nullptr));
    };
    pool({batch, 2, 0}, x.data(), y.data());
    pool(BlockedPoolPlanes::ChannelsLast(batch, channels), x_last.data(), y_last.data());
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t p = 0; p < window.OutSize(); ++p) {
          EXPECT_EQ(y[place(n, c, p, window.OutSize(), false)],
                    y_last[place(n, c, p, window.OutSize(), true)])
              << n << " " << c << " " << p;
        }
      }
    }
  }
}

Blob Counting(int64_t height, int64_t width) {
  Blob blob{{1, 1, height, width}, {}};
  for (int64_t i = 0; i < height * width; ++i) blob.values.push_back(static_cast<double>(i));
  return blob;
}

TEST(Pooling, MaxRoundsTheSizeUp) {
  // 5 wide, kernel 2, stride 2: ceil(3 / 2) + 1 = 3 windows, of which the last holds one column.
  const RunResult result = Pool("kernel_size: 2 stride: 2", Counting(4, 5), 2);
  EXPECT_EQ(result.outputs[0], (Values{6, 8, 9, 16, 18, 19}));
  EXPECT_EQ(result.outputs[1], (Values{6, 8, 9, 16, 18, 19}));  // position = value here
}

TEST(Pooling, FloorLeavesTheRestOut) {
  const RunResult result =
      Pool("kernel_size: 2 stride: 2 round_mode: FLOOR", Counting(5, 5), 1, {{1, 2, 3, 4}});
  EXPECT_EQ(result.outputs[0], (Values{6, 8, 16, 18}));
  Values dx(25);
  dx[6] = 1;
  dx[8] = 2;
  dx[16] = 3;
  dx[18] = 4;
  EXPECT_EQ(result.input_grads[0], dx);
}

TEST(Pooling, CeilModeOffMeansFloor) {
  EXPECT_EQ(Pool("kernel_size: 2 stride: 2 ceil_mode: false", Counting(3, 3)).outputs[0],
            (Values{4}));
}

TEST(Pooling, WithPaddingALastWindowAfterTheImageIsDropped) {
  // 3 wide, kernel 2, stride 2, pad 1: ceil(3 / 2) + 1 = 3, but window 2 starts at 3, in the
  // padding after the image: (3 - 1) * 2 >= 3 + 1, so it is dropped. The others cover columns {0}
  // and {1, 2}.
  const RunResult result = Pool("kernel_size: 2 stride: 2 pad: 1", Counting(3, 3));
  EXPECT_EQ(result.outputs[0], (Values{0, 2, 6, 8}));
}

TEST(Pooling, AverageCountsPaddingButNotWhatLiesBeyondIt) {
  // 4 wide, kernel 3, stride 2, pad 1: ceil(3 / 2) + 1 = 3 windows, starting at -1, 1, 3. The last
  // one ends at 5, not 6: columns {3, padding}, so it counts as 2 wide.
  const Blob ones{{1, 1, 4, 4}, Values(16, 1)};
  const RunResult result = Pool("pool: AVE kernel_size: 3 stride: 2 pad: 1", ones);
  const double corner = 4.0 / 9, edge = 6.0 / 9, last = 2.0 / 6;
  const Values expected = {corner, edge, last, edge, 1, 0.5, last, 0.5, 0.25};
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(result.outputs[0][i], expected[i], 1e-7) << i;
}

TEST(Pooling, AverageWithoutPaddingInTheDivisor) {
  const Blob ones{{1, 1, 4, 4}, Values(16, 1)};
  EXPECT_EQ(
      Pool("pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false", ones).outputs[0],
      Values(9, 1));
}

TEST(Pooling, AverageBackwardSharesByTheSameDivisor) {
  const RunResult result =
      Pool("pool: AVE kernel_size: 3 stride: 2 pad: 1", Counting(3, 3), 1, {{9, 9, 9, 9}});
  // Each of the four windows covers the middle; the sides belong to two, the corners to one.
  EXPECT_EQ(result.input_grads[0], (Values{1, 2, 1, 2, 4, 2, 1, 2, 1}));
}

TEST(Pooling, MaxOfAnEmptyWindowIsTheLowestFloatFromNowhere) {
  // 3 wide, kernel 1, stride 4: ceil(2 / 4) + 1 = 2 windows, starting at 0 and 4, past the end.
  const RunResult result =
      Pool("kernel_size: 1 stride: 4", Counting(3, 3), 2, {{1, 2, 3, 4}, Values(4)});
  EXPECT_EQ(result.outputs[0], (Values{0, kNone, kNone, kNone}));
  EXPECT_EQ(result.outputs[1], (Values{0, -1, -1, -1}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Pooling, MeanOfAnEmptyWindowIsAnError) {
  try {
    Pool("pool: AVE kernel_size: 1 stride: 4", Counting(3, 3));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.problems()[0].where.field, "pooling_param.stride");
  }
}

TEST(Pooling, FirstOfEqualMaximaIsTaken) {
  const Blob equal{{1, 1, 2, 2}, Values(4, 5)};
  const RunResult result = Pool("kernel_size: 2", equal, 2, {{1}, {0}});
  EXPECT_EQ(result.outputs[1], (Values{0}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 0, 0, 0}));
}

TEST(Pooling, NanIsNeverTheMaximum) {
  const Blob some{{1, 1, 2, 4},
                  {kNanPixel, 3, kNanPixel, kNanPixel, 2, kNanPixel, kNanPixel, kNanPixel}};
  const RunResult result = Pool("kernel_size: 2 stride: 2", some, 2, {{1, 1}, {0, 0}});
  EXPECT_EQ(result.outputs[0], (Values{3, kNone}));
  EXPECT_EQ(result.outputs[1], (Values{1, -1}));
  EXPECT_EQ(result.input_grads[0], (Values{0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(Pooling, GlobalPoolingTakesThePlane) {
  EXPECT_EQ(Pool("pool: AVE global_pooling: true", Counting(3, 5)).outputs[0], (Values{7}));
  EXPECT_EQ(Pool("global_pooling: true", Counting(3, 5)).outputs[0], (Values{14}));
}

TEST(Pooling, StochasticDrawsInProportionToTheValues) {
  // One window of 1, 0, 2, 5 in each of 4000 planes: shares 1/8, 0, 2/8, 5/8.
  Blob input{{4000, 1, 2, 2}, {}};
  for (int i = 0; i < 4000; ++i) input.values.insert(input.values.end(), {1, 0, 2, 5});
  const RunResult result = Pool("pool: STOCHASTIC kernel_size: 2", input);
  const auto share = [&](double value) {
    return static_cast<double>(std::ranges::count(result.outputs[0], value)) / 4000;
  };
  EXPECT_NEAR(share(1), 1.0 / 8, 0.03);
  EXPECT_EQ(share(0), 0);
  EXPECT_NEAR(share(2), 2.0 / 8, 0.03);
  EXPECT_NEAR(share(5), 5.0 / 8, 0.03);
}

TEST(Pooling, StochasticInTestIsAWeightedMean) {
  const Blob input{{1, 1, 2, 4}, {1, 0, 0, 0, 2, 5, 0, 0}};
  const RunResult result = Pool("pool: STOCHASTIC kernel_size: 2 stride: 2", input, 1, {}, TEST);
  EXPECT_NEAR(result.outputs[0][0], 30.0 / 8, 1e-6);
  EXPECT_EQ(result.outputs[0][1], 0);
}

TEST(Pooling, StochasticWindowOfZerosGivesZero) {
  const Blob zeros{{1, 1, 2, 2}, Values(4)};
  EXPECT_EQ(Pool("pool: STOCHASTIC kernel_size: 2", zeros).outputs[0], (Values{0}));
}

// The plainest possible maximum pooling of one plane.
void NaiveMax(const PoolWindow& w, const float* x, float* y, int* place) {
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    for (int64_t ow = 0; ow < w.w.out; ++ow, ++y, ++place) {
      *y = -FLT_MAX;
      *place = -1;
      for (int64_t k = 0; k < w.h.kernel * w.w.kernel; ++k) {
        const int64_t h = w.h.Start(oh) + k / w.w.kernel, v = w.w.Start(ow) + k % w.w.kernel;
        if (h < 0 || h >= w.h.in || v < 0 || v >= w.w.in || !(x[h * w.w.in + v] > *y)) continue;
        *y = x[h * w.w.in + v];
        *place = static_cast<int>(k);
      }
    }
  }
}

PoolWindow DrawWindow(uint64_t number) {
  const RandomStream stream(3, number);
  uint64_t next = 0;
  const auto draw = [&](int64_t low, int64_t high) {
    return low + stream.Below(next++, static_cast<uint32_t>(high - low + 1));
  };
  PoolWindow w;
  const bool halving = draw(0, 2) == 0;
  for (PoolAxis* axis : {&w.h, &w.w}) {
    axis->kernel = halving ? 2 : draw(1, 4);
    axis->stride = halving ? 2 : draw(1, 3);
    axis->pad = halving ? 0 : draw(0, axis->kernel - 1);
    axis->in = axis->kernel + draw(0, draw(0, 6) == 0 ? 600 : 40);
    axis->out = (axis->in + 2 * axis->pad - axis->kernel) / axis->stride + 1;
    if (draw(0, 2) == 0 && !halving) ++axis->out;  // as rounding up does
    axis->out = std::min(axis->out, (axis->in + axis->pad - 1) / axis->stride + 1);
  }
  if (w.InSize() > 20000) w.h = {2, 1, 2, 2, 0};
  return w;
}

TEST(MaxPool, VectorCodeAgreesWithPlainLoops) {
  for (uint64_t number = 0; number < 300; ++number) {
    const PoolWindow w = DrawWindow(number);
    const RandomStream stream(4, number);
    std::vector<float> x(static_cast<size_t>(2 * w.InSize()));
    // Few different values, so that ties are common, and some NaN.
    for (size_t i = 0; i < x.size(); ++i) {
      const uint32_t value = stream.Below(i, 12);
      x[i] = value == 0 ? std::nanf("") : static_cast<float>(value);
    }
    const auto outputs = static_cast<size_t>(2 * w.OutSize());
    std::vector<float> y(outputs), expected(outputs), unsaved(outputs);
    std::vector<int> place(outputs);
    std::vector<uint8_t> index(outputs);
    MaxPool(w, 2, x.data(), y.data(), index.data());
    MaxPool<float, uint8_t>(w, 2, x.data(), unsaved.data(), nullptr);
    for (int64_t p = 0; p < 2; ++p) {
      NaiveMax(w, x.data() + p * w.InSize(), expected.data() + p * w.OutSize(),
               place.data() + p * w.OutSize());
    }
    const std::string what =
        StrCat("case ", number, ": ", w.h.in, "x", w.w.in, " kernel ", w.h.kernel, "x", w.w.kernel);
    ASSERT_EQ(y, expected) << what;
    ASSERT_EQ(unsaved, expected) << what;
    for (size_t i = 0; i < outputs; ++i) {
      ASSERT_EQ(index[i], static_cast<uint8_t>(place[i])) << what << " output " << i;
    }
    std::vector<float> dy(outputs), dx(x.size(), 7), sum(x.size());
    for (size_t i = 0; i < outputs; ++i) dy[i] = static_cast<float>(i % 5 + 1);
    MaxPoolBackward(w, 2, index.data(), dy.data(), dx.data());
    for (size_t i = 0; i < outputs; ++i) {
      if (place[i] < 0) continue;
      const auto o = static_cast<int64_t>(i);
      const int64_t oh = o % w.OutSize() / w.w.out, ow = o % w.w.out;
      const int64_t h = w.h.Start(oh) + place[i] / w.w.kernel;
      const int64_t v = w.w.Start(ow) + place[i] % w.w.kernel;
      sum[static_cast<size_t>(o / w.OutSize() * w.InSize() + h * w.w.in + v)] += dy[i];
    }
    ASSERT_EQ(dx, sum) << what;
  }
}

}  // namespace
}  // namespace crema::test
