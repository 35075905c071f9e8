// Sessions planned as one of several processes read the samples of their rank.
#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_HDF5)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "data/annotated_sets.h"
#include "data/hdf5/hdf5_appender.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::PlanText;
using test::TempDir;

constexpr int kSessionSamples = 7;

// Sample n of each net begins with the value n.
class SessionRanks : public ::testing::Test {
 protected:
  // Returns the first value of each sample of `batches` batches of two.
  static std::vector<float> Read(const std::string& net, int rank, int world, int batches,
                                 Phase phase = TRAIN) {
    const auto plan = PlanText(net, phase, {.backward = false, .rank = rank, .world = world});
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
    std::vector<float> values;
    for (int b = 0; b < batches; ++b) {
      session.Forward();
      const ConstTensorView data = session.Data("data");
      const auto span = data.span<float>();
      const auto stride = static_cast<size_t>(data.count() / data.shape()[0]);
      for (size_t i = 0; i < span.size(); i += stride) values.push_back(span[i]);
    }
    return values;
  }
  static int64_t EpochOf(const std::string& net, int rank, int world) {
    const auto plan = PlanText(net, TRAIN, {.backward = false, .rank = rank, .world = world});
    return Session(plan, Weights::Make(*plan, 1), ExecContext(1)).state(0)->EpochSize();
  }
  // Rank r of w reads samples r, r + w, r + 2w, ... of a single process.
  static void ExpectShares(const std::string& net) {
    const std::vector<float> all = Read(net, 0, 1, 3 * kSessionSamples);
    for (const int world : {2, 3}) {
      for (int rank = 0; rank < world; ++rank) {
        const std::vector<float> mine = Read(net, rank, world, kSessionSamples);
        for (size_t p = 0; p < mine.size(); ++p) {
          const size_t ordinal = p * static_cast<size_t>(world) + static_cast<size_t>(rank);
          ASSERT_EQ(mine[p], all[ordinal]) << net << rank << " of " << world << ", sample " << p;
        }
      }
    }
  }

  std::string WriteImages() {
    std::string lines;
    for (int n = 0; n < kSessionSamples; ++n) {
      const std::string name = StrCat("f", n, ".png");
      lines += StrCat(temp_.Write(name, testing::Encode(testing::Flat(2, 2, n))), " ", n, "\n");
    }
    return temp_.Write("list", lines);
  }

  const TempDir temp_;
};

TEST_F(SessionRanks, OfRecords) {
  for (const DataParameter::DB backend : {DataParameter::LMDB, DataParameter::LEVELDB}) {
    if (!testing::CanWrite(backend, temp_)) continue;
    const std::string set = testing::WriteNumbered(temp_, backend, kSessionSamples);
    for (const char* pipeline : {"", "shuffle: true", "cache: DECODED cache_mb: 1"}) {
      const std::string net = StrCat(
          "layer { name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '",
          set, "' batch_size: 2 } pipeline_param { ", pipeline, " } }");
      ExpectShares(net);
      EXPECT_EQ(EpochOf(net, 0, 1), kSessionSamples);
      EXPECT_EQ(EpochOf(net, 1, 2), kSessionSamples / 2);
      EXPECT_EQ(EpochOf(net, 8, 9), 1) << "0 would be a source without end";
    }
  }
}

TEST_F(SessionRanks, OfImages) {
  const std::string list = WriteImages();
  const std::string images =
      StrCat("layer { name: 'd' type: 'ImageData' top: 'data' image_data_param { source: '", list,
             "' batch_size: 2 } pipeline_param { shuffle: ");
  ExpectShares(images + "false } }");
  ExpectShares(images + "true } }");
  EXPECT_EQ(EpochOf(images + "true } }", 1, 3), kSessionSamples / 3);
  const std::string video = StrCat(
      "layer { name: 'd' type: 'VideoData' top: 'data' data_param { batch_size: 2 } "
      "video_data_param { video_type: VIDEO video_file: '",
      temp_.File("f%d.png"), "' } }");
  ExpectShares(video);
  EXPECT_EQ(EpochOf(video, 1, 2), kSessionSamples / 2);
}

TEST_F(SessionRanks, OfRows) {
  Tensor rows(Shape{kSessionSamples, 2}, DType::kF32);
  for (int i = 0; i < 2 * kSessionSamples; ++i) {
    rows.view().data<float>()[i] = static_cast<float>(i / 2);
  }
  Hdf5Appender(temp_.File("a.h5")).Append("data", rows.view());
  const std::string net =
      StrCat("layer { name: 'd' type: 'HDF5Data' top: 'data' hdf5_data_param { source: '",
             temp_.Write("list", temp_.File("a.h5")), "' batch_size: 2 shuffle: true } }");
  ExpectShares(net);
  EXPECT_EQ(EpochOf(net, 1, 2), kSessionSamples / 2);
}

// Each rank draws its own windows; each batch has its share of foreground.
TEST_F(SessionRanks, OfWindows) {
  temp_.Write("a.png", testing::Encode(testing::Pattern(40, 40, 3)));
  std::string windows = StrCat("# 0\n", temp_.File("a.png"), "\n3\n40\n40\n40\n");
  for (int i = 0; i < 20; ++i) windows += StrCat("1 0.9 ", i, " 0 ", i + 9, " 9\n");
  for (int i = 0; i < 20; ++i) windows += StrCat("0 0.1 ", i, " 20 ", i + 9, " 29\n");
  const auto net = [&](const char* top) {
    return StrCat("layer { name: 'd' type: 'WindowData' top: '",
                  top == std::string("data") ? "data" : "x", "' top: '",
                  top == std::string("data") ? "y" : "data", "' window_data_param { source: '",
                  temp_.Write("windows", windows),
                  "' batch_size: 4 fg_fraction: 0.5 } transform_param { crop_size: 10 } }");
  };
  std::set<std::vector<float>> drawn;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Read(net("label"), rank, 3, 2), (std::vector<float>{0, 0, 1, 1, 0, 0, 1, 1}));
    drawn.insert(Read(net("data"), rank, 3, 5));
  }
  EXPECT_EQ(drawn.size(), 3U);
}

TEST_F(SessionRanks, TestsSeeEverything) {
  const std::string net =
      StrCat("layer { name: 'd' type: 'ImageData' top: 'data' image_data_param { source: '",
             WriteImages(), "' batch_size: 2 } }");
  EXPECT_EQ(Read(net, 1, 2, 3, TEST), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace crema
#endif
