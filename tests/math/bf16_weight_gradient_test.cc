// The gradient of weights in bfloat16 against direct loops in double precision: by vectors, by
// tiles (of the processor, or emulated), and by the code of tiles with a stand-in of the
// instructions.
#include "math/bf16_weight_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <vector>

#include "core/memory_format.h"
#include "core/rng.h"
#include "core/strings.h"
#include "math/cpu/bf16_gradient_driver.h"
#include "math/cpu/bf16_gradient_products.h"
#include "support/guarded_tensor.h"
#include "support/tile_emulator.h"
#include "support/tile_stand_in.h"

namespace crema {
namespace {

using Blob = std::vector<BFloat16>;
using Floats = std::vector<float>;

std::string Text(const BlockedConvShape& s) {
  const auto axis = [](const BlockedConvShape::Axis& a) {
    return StrCat(" in ", a.in, " kernel ", a.kernel, " stride ", a.stride, " pad ", a.pad,
                  " dilation ", a.dilation);
  };
  return StrCat("batch ", s.batch, " groups ", s.groups, " channels ", s.in_channels, " to ",
                s.out_channels, ", h", axis(s.h), ", w", axis(s.w));
}

// Planes in channel blocks.
struct GradientBlocks {
  int64_t batch, channels, height, width;

  int64_t Count() const { return batch * ((channels + 15) / 16) * 16 * height * width; }
  size_t At(int64_t n, int64_t c, int64_t y, int64_t x) const {
    const int64_t block = n * ((channels + 15) / 16) + c / 16;
    return static_cast<size_t>(((block * height + y) * width + x) * 16 + c % 16);
  }
};

GradientBlocks InputsOf(const BlockedConvShape& s) {
  return {s.batch, s.in_channels, s.h.in, s.w.in};
}
GradientBlocks OutputsOf(const BlockedConvShape& s) {
  return {s.batch, s.out_channels, s.h.out, s.w.out};
}

// Zeros after the last channel.
Blob Random(const GradientBlocks& blocks, uint64_t stream, float scale = 1) {
  const RandomStream random(9, stream);
  Blob values(static_cast<size_t>(blocks.Count()), BFloat16(0.0F));
  uint64_t next = 0;
  for (int64_t n = 0; n < blocks.batch; ++n) {
    for (int64_t c = 0; c < blocks.channels; ++c) {
      for (int64_t y = 0; y < blocks.height; ++y) {
        for (int64_t x = 0; x < blocks.width; ++x) {
          values[blocks.At(n, c, y, x)] =
              scale * static_cast<float>(2 * random.Uniform(next++) - 1);
        }
      }
    }
  }
  return values;
}

using Function = bf16_gradient::GradientFunction;
void RunVectors(const BlockedConvShape& s, int threads, const BFloat16* x, const BFloat16* dy,
                float* dweight, std::span<std::byte> scratch) {
  BF16WeightGradient(BF16Unit::kVectors, s, threads, x, dy, dweight, scratch);
}
// If the processor has no tiles, their instructions are emulated.
void RunTiles(const BlockedConvShape& s, int threads, const BFloat16* x, const BFloat16* dy,
              float* dweight, std::span<std::byte> scratch) {
  std::optional<test::TileEmulator> emulator;
  if (!HasBF16Unit(BF16Unit::kTiles)) emulator.emplace();
  bf16_gradient::TileGradient(s, threads, x, dy, dweight, scratch);
}
constexpr Function kStandIn =
    bf16_gradient::RunGradient<bf16_gradient::TileProducts<test::TileStandIn>>;

// Added to ones.
Floats Gradient(Function run, const BlockedConvShape& s, int threads, const Blob& x,
                const Blob& dy) {
  Floats dweight(static_cast<size_t>(s.WeightCount()), 1);
  test::GuardedBuffer scratch(BF16WeightGradientScratch(s, threads));
  run(s, threads, x.data(), dy.data(), dweight.data(), scratch.bytes());
  EXPECT_TRUE(scratch.Intact()) << Text(s);
  return dweight;
}

// visit(weight, x, dy) for each product.
template <typename Visit>
void ForProducts(const BlockedConvShape& s, Visit&& visit) {
  const GradientBlocks inputs = InputsOf(s), outputs = OutputsOf(s);
  const int64_t depth = s.in_channels / s.groups, filter = s.h.kernel * s.w.kernel;
  for (int64_t i = 0; i < s.WeightCount(); ++i) {
    const int64_t o = i / (depth * filter),
                  c = o / (s.out_channels / s.groups) * depth + i / filter % depth;
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t p = 0; p < s.h.out * s.w.out; ++p) {
        const int64_t row = p / s.w.out, column = p % s.w.out;
        const int64_t y = row * s.h.stride - s.h.pad + i % filter / s.w.kernel * s.h.dilation;
        const int64_t x = column * s.w.stride - s.w.pad + i % s.w.kernel * s.w.dilation;
        if (y < 0 || y >= s.h.in || x < 0 || x >= s.w.in) continue;
        visit(static_cast<size_t>(i), inputs.At(n, c, y, x), outputs.At(n, o, row, column));
      }
    }
  }
}

// Products of two numbers of 8 bits are exact in single precision, so that only additions round: of
// the sum of absolute products, which is at least 1, less than 1e-6 for some thousand of them.
void ExpectGradient(const BlockedConvShape& s, const Blob& x, const Blob& dy, const Floats& got) {
  std::vector<double> expected(got.size(), 1), scale(got.size(), 1);
  ForProducts(s, [&](size_t w, size_t i, size_t o) {
    const double product = double{float{x[i]}} * double{float{dy[o]}};
    expected[w] += product;
    scale[w] += std::abs(product);
  });
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 1e-6 * scale[i]) << Text(s) << " weight " << i;
  }
}

BlockedConvShape::Axis Axis(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                            int64_t dilation) {
  const int64_t out = (in + 2 * pad - (dilation * (kernel - 1) + 1)) / stride + 1;
  return {in, out, kernel, stride, pad, dilation};
}

BlockedConvShape RandomShape(uint64_t number) {
  const RandomStream stream(7, number);
  uint64_t next = 0;
  const auto draw = [&](int64_t low, int64_t high) {
    return low + stream.Below(next++, static_cast<uint32_t>(high - low + 1));
  };
  BlockedConvShape s;
  s.batch = draw(1, 3);
  s.groups = draw(0, 5) == 0 ? draw(2, 3) : 1;
  const auto channels = [&] {
    if (s.groups > 1) return 16 * s.groups * draw(1, 2);
    return draw(0, 2) == 0 ? 16 * draw(1, 4) : draw(1, draw(0, 2) == 0 ? 90 : 20);
  };
  s.in_channels = channels();
  s.out_channels = channels();
  const auto axis = [&] {
    const int64_t kernel = draw(0, 2) == 0 ? 1 : draw(2, 5), dilation = draw(1, 3);
    const int64_t pad = draw(0, 3), reach = dilation * (kernel - 1) + 1;
    const int64_t least = std::max<int64_t>(1, reach - 2 * pad);
    return Axis(least + draw(0, draw(0, 4) == 0 ? 30 : 8), kernel, draw(1, 4), pad, dilation);
  };
  s.h = axis();
  s.w = axis();
  return s;
}

// Returns true if this build has code for tiles: other processors, systems and older compilers have
// none.
bool CanRunTiles() {
  if (HasBF16Unit(BF16Unit::kTiles)) return true;
  // Without permission it executes some of these instructions and faults at others.
  if (ChannelBlock() != 16 || bf16_gradient::ProcessorHasTiles()) return false;
  const BlockedConvShape one{1, 1, 1, 1, {}, {}};
  Gradient(RunTiles, one, 1, Random(InputsOf(one), 1), Random(OutputsOf(one), 2));
  return test::TileEmulator::Executed() > 0;
}

struct Unit {
  const char* name;
  Function run;
  bool (*there)();
};
void PrintTo(const Unit& unit, std::ostream* out) { *out << unit.name; }
// Packing is AVX-512 code for all of them.
constexpr Unit kUnits[] = {{"Vectors", RunVectors, [] { return HasBF16Unit(BF16Unit::kVectors); }},
                           {"Tiles", RunTiles, CanRunTiles},
                           {"StandIn", kStandIn, [] { return ChannelBlock() == 16; }}};

class BF16WeightGradientBy : public testing::TestWithParam<Unit> {
 protected:
  void SetUp() override {
    if (!GetParam().there()) GTEST_SKIP() << "not on this processor";
  }
  const Function run_ = GetParam().run;
};

TEST_P(BF16WeightGradientBy, AgreesWithDirectLoopsOnRandomShapes) {
  for (uint64_t number = 0; number < 200; ++number) {
    const BlockedConvShape s = RandomShape(number);
    ASSERT_TRUE(IsBF16GradientShape(s)) << Text(s);
    const Blob x = Random(InputsOf(s), 2 * number), dy = Random(OutputsOf(s), 2 * number + 1);
    const int threads = static_cast<int>(number % 4) + 1;
    ASSERT_NO_FATAL_FAILURE(ExpectGradient(s, x, dy, Gradient(run_, s, threads, x, dy)));
  }
}

// Several chunks a line of images, slabs, parts.
TEST_P(BF16WeightGradientBy, AgreesWithDirectLoopsBeyondOneChunkAndSlab) {
  const BlockedConvShape large{1, 1, 5, 20, Axis(41, 3, 1, 1, 1), Axis(67, 3, 1, 1, 1)};
  const BlockedConvShape deep{2, 1, 200, 150, Axis(6, 3, 1, 1, 1), Axis(5, 3, 1, 1, 1)};
  const BlockedConvShape points{3, 1, 370, 340, Axis(9, 1, 1, 0, 1), Axis(11, 1, 1, 0, 1)};
  const BlockedConvShape strided{2, 1, 40, 40, Axis(30, 1, 2, 0, 1), Axis(30, 1, 2, 0, 1)};
  uint64_t number = 1000;
  for (const BlockedConvShape& s : {large, deep, points, strided}) {
    const Blob x = Random(InputsOf(s), number++), dy = Random(OutputsOf(s), number++);
    ASSERT_NO_FATAL_FAILURE(ExpectGradient(s, x, dy, Gradient(run_, s, 2, x, dy)));
  }
}

TEST_P(BF16WeightGradientBy, BitsDoNotDependOnTheNumberOfThreads) {
  const BlockedConvShape deep{2, 1, 130, 140, Axis(7, 3, 1, 1, 1), Axis(7, 3, 1, 1, 1)};
  const BlockedConvShape many{5, 2, 64, 32, Axis(19, 3, 2, 1, 1), Axis(23, 2, 1, 0, 1)};
  for (const BlockedConvShape& s : {deep, many}) {
    const Blob x = Random(InputsOf(s), 1), dy = Random(OutputsOf(s), 2);
    const Floats alone = Gradient(run_, s, 1, x, dy);
    for (const int threads : {2, 3, 8}) EXPECT_EQ(Gradient(run_, s, threads, x, dy), alone);
  }
}

// Products near the end of the range, whose sums stay in it.
TEST_P(BF16WeightGradientBy, LargeNumbersDoNotOverflowBeforeTheirSum) {
  const BlockedConvShape s{2, 1, 20, 18, Axis(4, 3, 1, 1, 1), Axis(5, 3, 1, 1, 1)};
  const Blob x = Random(InputsOf(s), 1, 0x1p60F), dy = Random(OutputsOf(s), 2, 0x1p60F);
  const Floats got = Gradient(run_, s, 2, x, dy);
  ASSERT_TRUE(std::ranges::all_of(got, [](float value) { return std::isfinite(value); }));
  ASSERT_NO_FATAL_FAILURE(ExpectGradient(s, x, dy, got));
}

TEST_P(BF16WeightGradientBy, NanReachesTheFiltersOfItsChannelsOnly) {
  const BlockedConvShape s{2, 1, 20, 40, Axis(7, 3, 1, 1, 1), Axis(6, 3, 1, 1, 1)};
  Blob x = Random(InputsOf(s), 1), dy = Random(OutputsOf(s), 2);
  x[InputsOf(s).At(1, 17, 3, 2)] = NAN;
  dy[OutputsOf(s).At(0, 33, 4, 4)] = NAN;
  const Floats got = Gradient(run_, s, 2, x, dy);
  for (int64_t i = 0; i < s.WeightCount(); ++i) {
    const bool reached = i / (20 * 9) == 33 || i / 9 % 20 == 17;
    EXPECT_EQ(std::isnan(got[static_cast<size_t>(i)]), reached) << i;
  }
}

TEST_P(BF16WeightGradientBy, NothingIsAddedForAnEmptyBatch) {
  const BlockedConvShape s{0, 1, 16, 16, Axis(7, 3, 1, 1, 1), Axis(7, 3, 1, 1, 1)};
  EXPECT_EQ(Gradient(run_, s, 2, {}, {}), Floats(16 * 16 * 9, 1));
}

INSTANTIATE_TEST_SUITE_P(Units, BF16WeightGradientBy, testing::ValuesIn(kUnits),
                         [](const auto& unit) { return std::string(unit.param.name); });

TEST(BF16WeightGradient, ScratchSufficesForFewerThreads) {
  for (uint64_t number = 0; number < 50; ++number) {
    const BlockedConvShape s = RandomShape(number);
    for (int threads = 2; threads < 9; ++threads) {
      EXPECT_LE(BF16WeightGradientScratch(s, threads - 1), BF16WeightGradientScratch(s, threads));
    }
  }
}

TEST(BF16WeightGradient, IsForGroupsOfWholeBlocks) {
  BlockedConvShape s{1, 1, 20, 30, Axis(7, 3, 1, 1, 1), Axis(7, 3, 1, 1, 1)};
  EXPECT_TRUE(IsBF16GradientShape(s));
  s.groups = 2;
  EXPECT_FALSE(IsBF16GradientShape(s));
  s.in_channels = s.out_channels = 32;
  EXPECT_TRUE(IsBF16GradientShape(s));
}

TEST(BF16WeightGradient, PaysForManyChannelsAndWideMaps) {
  const BlockedConvShape wide{8, 1, 64, 64, Axis(56, 3, 1, 1, 1), Axis(56, 3, 1, 1, 1)};
  const BlockedConvShape points{8, 1, 2048, 512, Axis(7, 1, 1, 0, 1), Axis(7, 1, 1, 0, 1)};
  const BlockedConvShape small{8, 1, 512, 512, Axis(7, 3, 1, 1, 1), Axis(7, 3, 1, 1, 1)};
  const BlockedConvShape thin{8, 1, 16, 64, Axis(55, 1, 1, 0, 1), Axis(55, 1, 1, 0, 1)};
  const BlockedConvShape dilated{8, 1, 512, 128, Axis(33, 3, 1, 12, 12), Axis(33, 3, 1, 12, 12)};
  EXPECT_TRUE(BF16GradientPays(BF16Unit::kVectors, wide));
  EXPECT_TRUE(BF16GradientPays(BF16Unit::kVectors, points));
  EXPECT_TRUE(BF16GradientPays(BF16Unit::kVectors, small));
  EXPECT_FALSE(BF16GradientPays(BF16Unit::kVectors, thin));
  EXPECT_FALSE(BF16GradientPays(BF16Unit::kVectors, dilated));
  EXPECT_TRUE(BF16GradientPays(BF16Unit::kTiles, thin));
}

}  // namespace
}  // namespace crema
