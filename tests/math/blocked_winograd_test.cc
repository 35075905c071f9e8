// Winograd convolution in channel blocks against direct loops in double precision, on shapes where
// it pays and where it does not.
#include "math/blocked_winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "support/guarded_tensor.h"

namespace crema {
namespace {

struct WinogradConv {
  int64_t batch, groups, channels, outputs, height, width, pad_h, pad_w;
  int threads;
  bool bias, residual, relu;
  bool factor = false;

  int64_t OutH() const { return height + 2 * pad_h - 2; }
  int64_t OutW() const { return width + 2 * pad_w - 2; }
  int64_t InCount() const { return batch * groups * channels * height * width; }
  int64_t OutCount() const { return batch * groups * outputs * OutH() * OutW(); }
  PackedConvShape Shape() const {
    ConvWindow window;
    window.axes = 2;
    const auto set = [&](size_t axis, int64_t in, int64_t out, int64_t pad) {
      window.in[axis] = in;
      window.out[axis] = out;
      window.kernel[axis] = 3;
      window.stride[axis] = window.dilation[axis] = 1;
      window.pad[axis] = pad;
    };
    set(0, height, OutH(), pad_h);
    set(1, width, OutW(), pad_w);
    return {window, groups, groups * channels, groups * outputs};
  }
  std::string Text() const {
    return StrCat("batch ", batch, " groups ", groups, " channels ", channels, " outputs ", outputs,
                  " image ", height, "x", width, " pad ", pad_h, ",", pad_w, " threads ", threads,
                  bias ? " bias" : "", residual ? " residual" : "", relu ? " relu" : "",
                  factor ? " factor" : "");
  }
};

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats Random(int64_t count, uint64_t stream) {
  const RandomStream random(3, stream);
  Floats values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(2 * random.Uniform(i) - 1);
  }
  return values;
}

// Planes of `batch` images with `channels` channels, to channel blocks and back.
struct WinogradBlocks {
  int64_t batch, channels, plane;

  size_t At(int64_t image, int64_t channel, int64_t pixel) const {
    const int64_t blocks = (channels + 15) / 16;
    return static_cast<size_t>(((image * blocks + channel / 16) * plane + pixel) * 16 +
                               channel % 16);
  }
  template <typename Visit>
  void ForAll(Visit&& visit) const {
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t i = 0; i < plane; ++i) {
          visit(static_cast<size_t>((n * channels + c) * plane + i), At(n, c, i));
        }
      }
    }
  }
  Floats Pack(const Floats& plain) const {
    Floats packed(static_cast<size_t>(batch * ((channels + 15) / 16) * 16 * plane));
    ForAll([&](size_t from, size_t to) { packed[to] = plain[from]; });
    return packed;
  }
  Floats Unpack(const Floats& packed) const {
    Floats plain(static_cast<size_t>(batch * channels * plane));
    ForAll([&](size_t to, size_t from) { plain[to] = packed[from]; });
    return plain;
  }
  // Checks the padding of the last block.
  void ExpectZeros(const Floats& packed, const std::string& what) const {
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t c = channels; c % 16 != 0; ++c) {
        for (int64_t i = 0; i < plane; ++i) ASSERT_EQ(packed[At(n, c, i)], 0) << what;
      }
    }
  }
};

// Calls visit(y index, weight index, x index) for each product.
template <typename Visit>
void ForProducts(const WinogradConv& c, Visit&& visit) {
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t o = 0; o < c.groups * c.outputs; ++o) {
      for (int64_t p = 0; p < c.OutH() * c.OutW(); ++p) {
        for (int64_t k = 0; k < 9 * c.channels; ++k) {
          const int64_t channel = o / c.outputs * c.channels + k / 9;
          const int64_t h = p / c.OutW() - c.pad_h + k / 3 % 3;
          const int64_t w = p % c.OutW() - c.pad_w + k % 3;
          if (h < 0 || h >= c.height || w < 0 || w >= c.width) continue;
          visit(static_cast<size_t>((n * c.groups * c.outputs + o) * c.OutH() * c.OutW() + p),
                static_cast<size_t>(o * c.channels * 9 + k),
                static_cast<size_t>(
                    ((n * c.groups * c.channels + channel) * c.height + h) * c.width + w));
        }
      }
    }
  }
}

// `scale` is the sum of absolute products, of which float sums keep some 1e-6.
void ExpectNear(const Floats& got, const Doubles& expected, double scale, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], 4e-6 * scale) << what << " element " << i;
  }
}

class BlockedCase {
 public:
  explicit BlockedCase(const WinogradConv& conv)
      : c_(conv),
        shape_(conv.Shape()),
        in_{conv.batch, conv.groups * conv.channels, conv.height * conv.width},
        out_{conv.batch, conv.groups * conv.outputs, conv.OutH() * conv.OutW()},
        x_(Random(conv.InCount(), 1)),
        weight_(Random(shape_.WeightCount(), 2)),
        bias_(Random(conv.groups * conv.outputs, 3)),
        dy_(Random(conv.OutCount(), 4)),
        residual_(Random(conv.OutCount(), 5)),
        factor_(Random(conv.groups * conv.outputs, 6)) {}

  void Check() const {
    ASSERT_TRUE(IsBlockedWinogradShape(shape_));
    ASSERT_NO_FATAL_FAILURE(CheckForward());
    ASSERT_NO_FATAL_FAILURE(CheckGradients());
  }

  Floats Forward() const {
    // In place of its residual, every other time.
    const bool in_place = c_.residual && c_.width % 2 == 0;
    const Floats residual = out_.Pack(residual_);
    Floats y = in_place ? residual : Floats(residual.size(), NAN);
    WinogradEpilogue epilogue;
    epilogue.bias = c_.bias ? bias_.data() : nullptr;
    if (c_.residual) epilogue.residual = in_place ? y.data() : residual.data();
    epilogue.relu = {c_.relu, 0.25F};
    test::GuardedBuffer scratch(BlockedWinogradForwardScratch(shape_, c_.batch, c_.threads));
    const Floats weight = Transformed(WinogradPass::kForward);
    BlockedWinogradForward(shape_, c_.batch, c_.threads, in_.Pack(x_).data(), weight.data(),
                           epilogue, y.data(), scratch.bytes());
    EXPECT_TRUE(scratch.Intact()) << c_.Text();
    return y;
  }
  Floats DataGradient() const {
    Floats dx(in_.Pack(x_).size(), NAN);
    test::GuardedBuffer scratch(BlockedWinogradDataGradientScratch(shape_, c_.batch, c_.threads));
    const Floats weight = Transformed(WinogradPass::kDataGradient);
    BlockedWinogradDataGradient(shape_, c_.batch, c_.threads, out_.Pack(dy_).data(), weight.data(),
                                dx.data(), scratch.bytes());
    EXPECT_TRUE(scratch.Intact()) << c_.Text();
    return dx;
  }
  // Starts from the weights: it must be added to.
  Floats WeightGradient() const {
    Floats dweight = weight_;
    test::GuardedBuffer scratch(BlockedWinogradWeightGradientScratch(shape_, c_.batch, c_.threads));
    BlockedWinogradWeightGradient(shape_, c_.batch, c_.threads, in_.Pack(x_).data(),
                                  out_.Pack(dy_).data(), dweight.data(), scratch.bytes());
    EXPECT_TRUE(scratch.Intact()) << c_.Text();
    return dweight;
  }

 private:
  Floats Transformed(WinogradPass pass) const {
    test::GuardedBuffer memory(BlockedWinogradWeightBytes(shape_, pass));
    auto* floats = reinterpret_cast<float*>(memory.bytes().data());
    BlockedWinogradWeights(shape_, pass, c_.threads, weight_.data(),
                           c_.factor ? factor_.data() : nullptr, floats);
    EXPECT_TRUE(memory.Intact()) << c_.Text();
    return {floats, floats + memory.bytes().size() / sizeof(float)};
  }

  double Weight(size_t index) const {
    const double weight{weight_[index]};
    return c_.factor ? weight * double{factor_[index / static_cast<size_t>(9 * c_.channels)]}
                     : weight;
  }

  void CheckForward() const {
    Doubles expected(dy_.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto channel = static_cast<int64_t>(i) / shape_.Pixels() % (c_.groups * c_.outputs);
      if (c_.bias) expected[i] += double{bias_[static_cast<size_t>(channel)]};
      if (c_.residual) expected[i] += double{residual_[i]};
    }
    ForProducts(c_,
                [&](size_t o, size_t w, size_t i) { expected[o] += Weight(w) * double{x_[i]}; });
    for (double& value : expected) value = c_.relu && value < 0 ? 0.25 * value : value;
    const Floats y = Forward();
    const double scale = 9.0 * static_cast<double>(c_.channels);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(out_.Unpack(y), expected, scale, c_.Text() + " y"));
    ASSERT_NO_FATAL_FAILURE(out_.ExpectZeros(y, c_.Text() + " y"));
  }

  void CheckGradients() const {
    Doubles dx(x_.size()), dweight(weight_.begin(), weight_.end());
    ForProducts(c_, [&](size_t o, size_t w, size_t i) {
      dx[i] += double{dy_[o]} * Weight(w);
      dweight[w] += double{dy_[o]} * double{x_[i]};
    });
    const Floats got = DataGradient();
    ASSERT_NO_FATAL_FAILURE(
        ExpectNear(in_.Unpack(got), dx, 9.0 * static_cast<double>(c_.outputs), c_.Text() + " dx"));
    ASSERT_NO_FATAL_FAILURE(in_.ExpectZeros(got, c_.Text() + " dx"));
    const auto terms = static_cast<double>(c_.batch * shape_.Pixels());
    ASSERT_NO_FATAL_FAILURE(
        ExpectNear(WeightGradient(), dweight, 9 + terms, c_.Text() + " dweight"));
  }

  const WinogradConv c_;
  const PackedConvShape shape_;
  const WinogradBlocks in_, out_;
  const Floats x_, weight_, bias_, dy_, residual_, factor_;
};

TEST(BlockedWinograd, AgreesWithDirectLoopsOnRandomShapes) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs AVX-512";
  for (uint64_t number = 0; number < 500; ++number) {
    const RandomStream stream(6, number);
    uint64_t next = 0;
    const auto draw = [&](int64_t low, int64_t high) {
      return low + stream.Below(next++, static_cast<uint32_t>(high - low + 1));
    };
    WinogradConv c{};
    c.batch = draw(0, 1) == 0 ? 1 : draw(1, 5);
    c.groups = draw(0, 6) == 0 ? draw(2, 3) : 1;
    const bool whole = c.groups > 1 || draw(0, 3) == 0;  // blocks of channels
    const auto channels = [&] {
      return whole ? 16 * draw(1, draw(0, 3) == 0 ? 3 : 1) : draw(1, draw(0, 3) == 0 ? 50 : 6);
    };
    c.channels = channels();
    c.outputs = channels();
    c.pad_h = draw(0, 2);
    c.pad_w = draw(0, 2) == 0 ? draw(0, 2) : c.pad_h;
    c.height = draw(0, 8) + std::max<int64_t>(1, 3 - 2 * c.pad_h);
    c.width = draw(0, draw(0, 5) == 0 ? 70 : 9) + std::max<int64_t>(1, 3 - 2 * c.pad_w);
    c.threads = static_cast<int>(draw(1, 5));
    c.bias = draw(0, 1) == 0;
    c.residual = draw(0, 1) == 0;
    c.relu = draw(0, 1) == 0;
    c.factor = draw(0, 1) == 0;
    ASSERT_NO_FATAL_FAILURE(BlockedCase(c).Check());
  }
}

// Many slabs; many chunks; chunks of several images; one chunk for all threads; parts of the tiles.
TEST(BlockedWinograd, AgreesWithDirectLoopsBeyondBlockSizes) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs AVX-512";
  const WinogradConv deep{1, 1, 300, 20, 9, 9, 1, 1, 2, true, true, true};
  const WinogradConv wide_output{1, 1, 20, 290, 8, 8, 1, 1, 3, true, true, true};
  const WinogradConv large{1, 1, 3, 4, 70, 150, 1, 1, 2, true, false, false};
  const WinogradConv many{60, 1, 3, 4, 6, 5, 1, 1, 2, false, true, true};
  const WinogradConv one_tile{1, 2, 32, 48, 4, 4, 1, 1, 4, true, true, false};
  const WinogradConv square{2, 1, 160, 170, 14, 14, 1, 1, 2, true, true, true};
  for (const WinogradConv& conv : {deep, wide_output, large, many, one_tile, square}) {
    ASSERT_NO_FATAL_FAILURE(BlockedCase(conv).Check());
  }
}

TEST(BlockedWinograd, BitsDoNotDependOnTheNumberOfThreads) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs AVX-512";
  const WinogradConv few_tiles{1, 1, 200, 150, 14, 14, 1, 1, 1, true, true, true};
  const WinogradConv many_tiles{5, 2, 32, 48, 37, 29, 1, 1, 1, true, true, true};
  for (WinogradConv c : {few_tiles, many_tiles}) {
    const Floats y = BlockedCase(c).Forward();
    const Floats dx = BlockedCase(c).DataGradient();
    const Floats dweight = BlockedCase(c).WeightGradient();
    for (const int threads : {2, 3, 8}) {
      c.threads = threads;
      EXPECT_EQ(BlockedCase(c).Forward(), y) << threads;
      EXPECT_EQ(BlockedCase(c).DataGradient(), dx) << threads;
      EXPECT_EQ(BlockedCase(c).WeightGradient(), dweight) << threads;
    }
  }
}

TEST(BlockedWinograd, ScratchSufficesForFewerThreads) {
  for (const int64_t channels : {16, 100, 160, 500}) {
    for (const int64_t size : {4, 7, 14, 28, 57}) {
      const WinogradConv c{2, 1, channels, 336, size, size, 1, 1, 1, true, false, false};
      for (int threads = 2; threads < 20; ++threads) {
        EXPECT_LE(BlockedWinogradForwardScratch(c.Shape(), c.batch, threads - 1),
                  BlockedWinogradForwardScratch(c.Shape(), c.batch, threads));
        EXPECT_LE(BlockedWinogradWeightGradientScratch(c.Shape(), c.batch, threads - 1),
                  BlockedWinogradWeightGradientScratch(c.Shape(), c.batch, threads));
      }
    }
  }
}

TEST(BlockedWinograd, BitsOfAnImageDoNotDependOnItsBatch) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs AVX-512";
  WinogradConv c{7, 1, 48, 32, 15, 13, 1, 1, 2, true, false, true};
  Floats batch = BlockedCase(c).Forward();
  c.batch = 1;
  const Floats image = BlockedCase(c).Forward();
  batch.resize(image.size());
  EXPECT_EQ(batch, image);
}

TEST(BlockedWinograd, NothingToDoForAnEmptyBatch) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs AVX-512";
  const WinogradConv c{0, 1, 4, 4, 8, 8, 1, 1, 2, true, false, false};
  EXPECT_TRUE(BlockedCase(c).Forward().empty());
  EXPECT_EQ(BlockedCase(c).WeightGradient(), Random(4 * 4 * 9, 2));
}

TEST(BlockedWinograd, IsForThreeByThreeWithStrideOneAndWholeBlocks) {
  const WinogradConv c{1, 1, 64, 64, 14, 14, 1, 1, 1, true, false, false};
  EXPECT_TRUE(IsBlockedWinogradShape(c.Shape()));
  PackedConvShape strided = c.Shape();
  strided.h.stride = 2;
  EXPECT_FALSE(IsBlockedWinogradShape(strided));
  PackedConvShape wide = c.Shape();
  wide.w.kernel = 5;
  EXPECT_FALSE(IsBlockedWinogradShape(wide));
  PackedConvShape dilated = c.Shape();
  dilated.w.dilation = 2;
  EXPECT_FALSE(IsBlockedWinogradShape(dilated));
  PackedConvShape padded = c.Shape();
  padded.h.pad = 3;
  EXPECT_FALSE(IsBlockedWinogradShape(padded));
  PackedConvShape groups = c.Shape();
  groups.groups = 2;
  EXPECT_TRUE(IsBlockedWinogradShape(groups));
  groups.channels = 24;
  EXPECT_FALSE(IsBlockedWinogradShape(groups));
}

TEST(BlockedWinograd, PaysForManyChannelsAndTiles) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs AVX-512";
  const auto all = {WinogradPass::kForward, WinogradPass::kDataGradient,
                    WinogradPass::kWeightGradient};
  const WinogradConv many{8, 1, 128, 128, 28, 28, 1, 1, 1, true, false, false};
  const WinogradConv one_tile{1, 1, 512, 512, 4, 4, 1, 1, 1, true, false, false};
  for (const WinogradPass pass : all) {
    for (const int threads : {1, 2}) {
      EXPECT_TRUE(BlockedWinogradPays(many.Shape(), pass, 8, threads, false));
      EXPECT_FALSE(BlockedWinogradPays(one_tile.Shape(), pass, 1, threads, true));
      EXPECT_FALSE(BlockedWinogradPays(many.Shape(), pass, 0, threads, true));
    }
  }
  const WinogradConv few{8, 1, 3, 16, 28, 28, 1, 1, 1, true, false, false};
  EXPECT_FALSE(BlockedWinogradPays(few.Shape(), WinogradPass::kForward, 8, 1, true));
  // One image of 14 x 14 does not pay for the transformation of many filters.
  const WinogradConv image{1, 1, 512, 512, 14, 14, 1, 1, 1, true, false, false};
  EXPECT_TRUE(BlockedWinogradPays(image.Shape(), WinogradPass::kForward, 1, 1, true));
  EXPECT_FALSE(BlockedWinogradPays(image.Shape(), WinogradPass::kForward, 1, 1, false));
  PackedConvShape other = many.Shape();
  other.w.stride = 2;
  EXPECT_FALSE(BlockedWinogradPays(other, WinogradPass::kForward, 8, 1, true));
}

}  // namespace
}  // namespace crema
