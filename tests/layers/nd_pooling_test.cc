// Pooling and normalisation over other than two axes, against plain loops and against the code for
// planes; the pyramid.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "crema.pb.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::ExpectClose;
using test::ExpectNear;

RunResult PoolRun(const char* type, const std::string& prototxt, const Blob& input, int outputs = 1,
                  std::vector<Values> output_grads = {}, Phase phase = TRAIN) {
  return CallLayer(*TestRegistry().Find(type), {.prototxt = prototxt,
                                                .inputs = {input},
                                                .outputs = outputs,
                                                .output_grads = std::move(output_grads),
                                                .phase = phase});
}

Blob DrawBlob(std::vector<int64_t> shape, uint64_t seed = 1) {
  Blob blob{std::move(shape), {}};
  int64_t count = 1;
  for (int64_t dim : blob.shape) count *= dim;
  const RandomStream stream(seed, 5);
  for (int64_t i = 0; i < count; ++i) {
    blob.values.push_back(static_cast<float>(stream.Uniform(static_cast<uint64_t>(i)) - 0.5));
  }
  return blob;
}

// A window that is flat in time does with each frame what pooling of planes does.
TEST(NdPooling, FlatWindowsAreThoseOfPlanes) {
  const Blob clip = DrawBlob({2, 3, 4, 5, 6});
  const Blob frames{{2 * 3, 4, 5, 6}, clip.values};
  for (const char* method : {"MAX", "AVE", "AVE avg_include_pad: false"}) {
    const std::string pool = std::string("pooling_param { pool: ") + method;
    const std::string plane = pool + " kernel_size: 3 stride: 2 pad: 1 }";
    const std::string flat = pool +
                             " kernel_nd: 1 kernel_nd: 3 kernel_nd: 3 stride_nd: 1 "
                             "stride_nd: 2 stride_nd: 2 pad_nd: 0 pad_nd: 1 pad_nd: 1 }";
    const std::string c3d =
        pool + " kernel_size: 3 kernel_depth: 1 stride: 2 temporal_stride: 1 pad: 1 }";
    const Values dy(PoolRun("Pooling", plane, frames).outputs[0].size(), 0.5);
    const RunResult expected = PoolRun("Pooling", plane, frames, 1, {dy});
    for (const auto& [type, text] : {std::pair{"Pooling", flat}, std::pair{"Pooling3D", c3d}}) {
      const RunResult got = PoolRun(type, text, clip, 1, {dy});
      ExpectClose(got.outputs[0], expected.outputs[0]);
      ExpectClose(got.input_grads[0], expected.input_grads[0]);
    }
  }
}

TEST(NdPooling, VolumesAgreeWithPlainLoops) {
  const int64_t n = 5, out = 3;  // kernel 3, stride 2, pad 1: windows start at -1, 1, 3
  const Blob volume = DrawBlob({1, 1, n, n, n}, 3);
  const std::string fields = "kernel_size: 3 stride: 2 pad: 1 }";
  const RunResult max = PoolRun("Pooling", "pooling_param { " + fields, volume, 2);
  const RunResult mean = PoolRun("Pooling", "pooling_param { pool: AVE " + fields, volume);
  size_t o = 0;
  for (int64_t a = 0; a < out; ++a) {
    for (int64_t b = 0; b < out; ++b) {
      for (int64_t c = 0; c < out; ++c, ++o) {
        double best = -FLT_MAX, sum = 0;
        int64_t where = -1;
        for (int64_t cell = 0; cell < n * n * n; ++cell) {
          const auto inside = [](int64_t at, int64_t window) {
            return at >= 2 * window - 1 && at < 2 * window + 2;
          };
          if (!inside(cell / n / n, a) || !inside(cell / n % n, b) || !inside(cell % n, c)) {
            continue;
          }
          const double value = volume.values[static_cast<size_t>(cell)];
          sum += value;
          if (value > best) {
            best = value;
            where = cell;
          }
        }
        EXPECT_EQ(max.outputs[0][o], best);
        EXPECT_EQ(max.outputs[1][o], static_cast<double>(where));
        EXPECT_NEAR(mean.outputs[0][o], sum / 27, 1e-6);  // padding counts
      }
    }
  }
}

TEST(NdPooling, LinesAreRowsOfPlanes) {
  const Blob line{{1, 1, 5}, {3, 1, 4, 1, 5}};
  const RunResult result = PoolRun("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", line, 2,
                                   {{1, 2, 3}, {0, 0, 0}});
  EXPECT_EQ(result.outputs[0], (Values{3, 4, 5}));
  EXPECT_EQ(result.outputs[1], (Values{0, 2, 4}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 0, 2, 0, 3}));
}

TEST(NdPooling, DrawsInProportionInVolumes) {
  const int64_t count = 20000;
  Blob blob{{count, 1, 1, 2, 2}, {}};
  for (int64_t i = 0; i < count; ++i) blob.values.insert(blob.values.end(), {1, 0, 2, 5});
  const std::string text =
      "pooling_param { pool: STOCHASTIC kernel_nd: 1 kernel_nd: 2 kernel_nd: 2 }";
  const RunResult drawn = PoolRun("Pooling", text, blob);
  const auto share = [&](double value) {
    return static_cast<double>(std::ranges::count(drawn.outputs[0], value)) /
           static_cast<double>(count);
  };
  EXPECT_NEAR(share(1), 0.125, 0.01);
  EXPECT_EQ(share(0), 0);
  EXPECT_NEAR(share(2), 0.25, 0.0125);
  EXPECT_NEAR(share(5), 0.625, 0.014);
  EXPECT_NEAR(PoolRun("Pooling", text, blob, 1, {}, Phase::TEST).outputs[0][0], 30.0 / 8, 1e-5);
}

// Windows far larger than 32 bits can number, and a batch of none with endless windows.
TEST(NdPooling, HugeWindowsNeitherOverflowNorCrash) {
  const Blob plane{{1, 1, 2, 2}, {1, 4, 3, 2}};
  for (const char* method : {"MAX", "AVE"}) {
    const std::string text = std::string("pooling_param { pool: ") + method +
                             " kernel_size: 4000000000 stride: 3999999999 pad: 3999999998 }";
    const RunResult result = PoolRun("Pooling", text, plane, 1, {Values(4, 1.0)});
    EXPECT_EQ(result.outputs[0].size(), 4U);
    for (double dx : result.input_grads[0]) EXPECT_TRUE(std::isfinite(dx));
  }
  const Blob none{{0, 1, 1, 1, 1}, {}};
  EXPECT_THROW(
      PoolRun("Pooling", "pooling_param { kernel_size: 4000000000 pad: 3999999999 }", none), Error);
}

TEST(Spp, LevelsFollowEachOther) {
  const Blob plane{{1, 2, 2, 2}, {1, 2, 3, 4, 8, 7, 6, 5}};
  const RunResult result = PoolRun("SPP", "spp_param { pyramid_height: 2 }", plane, 1,
                                   {{1, 2, 10, 20, 30, 40, 50, 60, 70, 80}});
  EXPECT_EQ(result.outputs[0], (Values{4, 8, 1, 2, 3, 4, 8, 7, 6, 5}));
  EXPECT_EQ(result.input_grads[0], (Values{10, 20, 30, 41, 52, 60, 70, 80}));
}

TEST(LrnNd, WithinALineAndAVolume) {
  const Blob line{{1, 1, 3}, {1, 2, 3}};
  const std::string text =
      "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 3 beta: 1 k: 9 }";
  ExpectClose(PoolRun("LRN", text, line).outputs[0], {1 / 6.0, 2 / 15.0, 3 / 14.0});
  // One axis after the other has size 1: the same sums, another divisor.
  const std::string volume =
      "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 27 beta: 1 }";
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 1, 3, 1, 1}, {1, 1, 1, 3, 1}, {1, 1, 1, 1, 3}}) {
    ExpectClose(PoolRun("LRN", volume, {shape, {1, 2, 3}}).outputs[0],
                {1 / 6.0, 2 / 15.0, 3 / 14.0});
  }
}

TEST(LrnNd, AcrossSeesOnePlaneOnly) {
  const Blob volume = DrawBlob({2, 5, 2, 3, 4});
  const Blob plane{{2, 5, 6, 4}, volume.values};
  ExpectNear(PoolRun("LRN", "lrn_param { local_size: 3 }", volume).outputs[0],
             PoolRun("LRN", "lrn_param { local_size: 3 }", plane).outputs[0], 0);
}

}  // namespace
}  // namespace crema::test
