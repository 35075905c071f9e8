// If bad samples are skipped, the shape of a data layer comes from its first good sample.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/deferred_warnings.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/annotated_sets.h"
#include "data/expect_error.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using testing::ExpectError;
using testing::LayerRunner;

// The fault of a sample.
enum class Fault { kNone, kDamaged, kSmall };

// A layer over samples of 6 x 6, the small ones 3 x 6.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::string Layer(const std::vector<Fault>& samples) = 0;
  virtual std::string NameOfFirst() const = 0;

 protected:
  static cv::Mat Image(Fault fault) {
    return testing::Pattern(fault == Fault::kSmall ? 3 : 6, 6, 3);
  }
  static std::string File(Fault fault) {
    return fault == Fault::kDamaged ? "no image" : testing::Encode(Image(fault));
  }

  const TempDir temp_;
};

class Records : public Source {
 public:
  std::string Layer(const std::vector<Fault>& samples) override {
    const std::string path = temp_.File(StrCat("set", ++sets_));
    const auto writer = CreateRecords(path, DataParameter::LMDB);
    for (size_t i = 0; i < samples.size(); ++i) {
      writer->Put(testing::NumberedKey(static_cast<int>(i)), Record(samples[i]));
    }
    writer->Close();
    return StrCat("name: 'd' type: '", Type(), "' top: 'data' top: 'label' data_param { source: '",
                  path, "' batch_size: 2 } ");
  }
  std::string NameOfFirst() const override { return "record \"000000\" of"; }

 protected:
  virtual std::string Type() const { return "Data"; }
  virtual std::string Record(Fault fault) const {
    return testing::EncodedDatum(File(fault), 1).SerializeAsString();
  }

 private:
  int sets_ = 0;
};

class Boxes final : public Records {
 protected:
  std::string Type() const override { return "AnnotatedData"; }
  std::string Record(Fault fault) const override {
    AnnotatedDatum record = testing::Annotated(Image(fault), {{1, 0, 0, 1, 1}});
    record.mutable_datum()->set_data(File(fault));
    return record.SerializeAsString();
  }
};

class Files final : public Source {
 public:
  std::string Layer(const std::vector<Fault>& samples) override {
    std::string lines;
    for (size_t i = 0; i < samples.size(); ++i) {
      lines += temp_.Write(StrCat(i, ".png"), File(samples[i])) + " 1\n";
    }
    return StrCat(
        "name: 'd' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: '",
        temp_.Write("list", lines), "' batch_size: 2 } ");
  }
  std::string NameOfFirst() const override { return "0.png' (line 1 of"; }
};

class Frames final : public Source {
 public:
  std::string Layer(const std::vector<Fault>& samples) override {
    const std::string folder = StrCat("video", ++videos_);
    std::filesystem::create_directory(temp_.File(folder));
    for (size_t i = 0; i < samples.size(); ++i) {
      temp_.Write(StrCat(folder, "/", i, ".png"), File(samples[i]));
    }
    return StrCat(
        "name: 'd' type: 'VideoData' top: 'data' top: 'label' data_param { batch_size: 2 } "
        "video_data_param { video_type: VIDEO video_file: '",
        temp_.File(folder), "/%d.png' } ");
  }
  std::string NameOfFirst() const override { return "/0.png'"; }

 private:
  int videos_ = 0;
};

template <typename T>
class FirstSample : public ::testing::Test {};

using Sources = ::testing::Types<Records, Boxes, Files, Frames>;
TYPED_TEST_SUITE(FirstSample, Sources);

std::vector<Fault> Bad(size_t bad, size_t good, Fault fault = Fault::kDamaged) {
  std::vector<Fault> samples(bad, fault);
  samples.resize(bad + good, Fault::kNone);
  return samples;
}

TYPED_TEST(FirstSample, MayBeBadWhereBadOnesArePassedOver) {
  TypeParam source;
  const std::string layer =
      source.Layer({Fault::kDamaged, Fault::kNone, Fault::kDamaged, Fault::kNone});
  for (const char* policy : {"SKIP", "REPEAT"}) {
    LayerRunner runner(TestRegistry(),
                       StrCat(layer, "pipeline_param { on_bad_sample: ", policy, " max_bad: 20 }"));
    EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 3, 6, 6}));
    const std::vector<float> first = runner.Collect(0, 1);
    EXPECT_EQ(runner.Collect(0, 1), first);
    const auto half = static_cast<ptrdiff_t>(first.size() / 2);
    EXPECT_TRUE(std::equal(first.begin(), first.begin() + half, first.begin() + half));
    EXPECT_EQ(dynamic_cast<const HasDeferredWarnings&>(runner.state()).TakeWarnings().size(), 2u);
  }
  ExpectError(ErrorCode::kDataLoss, source.NameOfFirst(),
              [&] { LayerRunner(TestRegistry(), layer); });
}

TYPED_TEST(FirstSample, MayBeTooSmallForTheCrop) {
  TypeParam source;
  const std::string crop = "transform_param { crop_size: 5 } ";
  const std::string skip = "pipeline_param { on_bad_sample: SKIP } ";
  const std::string layer = source.Layer(Bad(1, 3, Fault::kSmall)) + crop;
  LayerRunner runner(TestRegistry(), layer + skip);
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 3, 5, 5}));
  runner.Forward();
  // Error message for a policy that requires every sample.
  ExpectError(ErrorCode::kInvalidArgument, "crop_size is 5, but the image is 3 high",
              [&] { LayerRunner(TestRegistry(), layer); });
  const std::string none = source.Layer(Bad(4, 0, Fault::kSmall)) + crop + skip;
  ExpectError(ErrorCode::kDataLoss,
              "all 4 samples are bad; the first one: ", [&] { LayerRunner(TestRegistry(), none); });
  ExpectError(ErrorCode::kDataLoss, source.NameOfFirst(),
              [&] { LayerRunner(TestRegistry(), none); });
  ExpectError(ErrorCode::kDataLoss, "crop_size is 5, but the image is 3 high",
              [&] { LayerRunner(TestRegistry(), none); });
}

TYPED_TEST(FirstSample, IsLookedForWithinBounds) {
  TypeParam source;
  const auto expect = [&](const std::vector<Fault>& samples, const std::string& pipeline,
                          const std::string& message) {
    const std::string layer =
        StrCat(source.Layer(samples), "pipeline_param { on_bad_sample: SKIP ", pipeline, " }");
    ExpectError(ErrorCode::kDataLoss, message, [&] { LayerRunner(TestRegistry(), layer); });
    ExpectError(ErrorCode::kDataLoss, source.NameOfFirst(),
                [&] { LayerRunner(TestRegistry(), layer); });
  };
  expect(Bad(3, 0), "", "all 3 samples are bad; the first one: ");
  expect(Bad(1, 0), "", "");
  expect(Bad(3, 2), "max_bad: 2",
         "the first 3 samples are bad, and max_bad allows 2; the first one: ");
  expect(Bad(100, 2), "", "the first 100 samples are bad; the first one: ");
  const auto plans = [&](const std::vector<Fault>& samples, const std::string& pipeline) {
    LayerRunner(TestRegistry(), StrCat(source.Layer(samples),
                                       "pipeline_param { on_bad_sample: SKIP ", pipeline, " }"));
  };
  plans(Bad(99, 2), "");
  plans(Bad(150, 2), "max_bad: 150");
}

// An error that does not concern a sample is thrown at once.
TYPED_TEST(FirstSample, IsNotPassedOverWhereTheNetIsWrong) {
  TypeParam source;
  const std::string layer = source.Layer(Bad(0, 2)) + "pipeline_param { on_bad_sample: SKIP } ";
  ExpectError(ErrorCode::kNotFound, "no/such/mean", [&] {
    LayerRunner(TestRegistry(), layer + "transform_param { mean_file: 'no/such/mean' }");
  });
}

// A window file contains the image sizes: no image is read.
TEST(FirstImage, OfAWindowFileMayBeBad) {
  const TempDir temp;
  temp.Write("good.png", testing::Encode(testing::Pattern(6, 6, 3)));
  temp.Write("bad.png", "no image");
  std::string windows;
  for (const char* name : {"bad.png", "good.png"}) {
    windows += StrCat("# 0\n", temp.File(name), "\n3 6 6 1\n1 0.9 0 0 3 3\n");
  }
  const std::string layer = StrCat(
      "name: 'd' type: 'WindowData' top: 'data' window_data_param { fg_fraction: 1 batch_size: 8 "
      "source: '",
      temp.Write("windows", windows), "' } transform_param { crop_size: 4 } ");
  LayerRunner runner(TestRegistry(), layer + "pipeline_param { on_bad_sample: SKIP }");
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{8, 3, 4, 4}));
  runner.Forward();
  const auto deferred_warnings =
      dynamic_cast<const HasDeferredWarnings&>(runner.state()).TakeWarnings();
  ASSERT_FALSE(deferred_warnings.empty());
  for (const std::string& notice : deferred_warnings) {
    const size_t at = notice.find("bad.png window 0,0 to 3,3");
    ASSERT_NE(at, std::string::npos) << notice;
    EXPECT_EQ(notice.find("bad.png", at + 1), std::string::npos) << notice;
    EXPECT_NE(notice.find("(line 2 of"), std::string::npos) << notice;
  }
}

TEST(FirstImage, MayBeMissing) {
  const TempDir temp;
  const std::string good = temp.Write("good.png", testing::Encode(testing::Pattern(6, 6, 3)));
  const std::string list = temp.Write("list", StrCat(temp.File("none.png"), " 1\n", good, " 1\n"));
  const std::string layer =
      StrCat("name: 'd' type: 'ImageData' top: 'data' image_data_param { source: '", list,
             "' batch_size: 2 } ");
  LayerRunner(TestRegistry(), layer + "pipeline_param { on_bad_sample: SKIP }").Forward();
  ExpectError(ErrorCode::kNotFound, "none.png", [&] { LayerRunner(TestRegistry(), layer); });
}

}  // namespace
}  // namespace crema
#endif
