#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/records/lmdb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using testing::DataText;
using testing::ExpectError;
using testing::GrayDatum;
using testing::LayerRunner;
using testing::WriteGraySet;

TEST(DataLayer, BatchesFollowTheKeysAndWrap) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, DataText(WriteGraySet(temp, 3)));
  ASSERT_EQ(runner.outputs.size(), 2u);
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 1, 3, 4}));
  EXPECT_EQ(runner.outputs[1].shape(), (Shape{2}));
  EXPECT_EQ(runner.Collect(1, 4), (std::vector<float>{0, 1, 2, 0, 1, 2, 0, 1}));
  const float* pixels = runner.outputs[0].view().data<float>();
  EXPECT_EQ(pixels[0], 0);
  EXPECT_EQ(pixels[12], 10);
  EXPECT_EQ(pixels[23], 21);
}

TEST(DataLayer, SamplesAreNamedByTheirKey) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, DataText(WriteGraySet(temp, 3)));
  EXPECT_EQ(runner.state().SampleName(0), "");
  EXPECT_EQ(runner.state().WaitedSeconds(), 0);
  runner.Forward();
  runner.Forward();
  EXPECT_EQ(runner.state().SampleName(0), "key2");
  EXPECT_EQ(runner.state().SampleName(1), "key0");
  EXPECT_EQ(runner.state().SampleName(2), "");
  EXPECT_GT(runner.state().WaitedSeconds(), 0);
}

TEST(DataLayer, LabelsAreOptionalAndDoublesWork) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text =
      DataText(WriteGraySet(temp, 3), "batch_size: 2", "scale: 0.5 crop_size: 2", 1);
  LayerRunner runner(registry, text, TEST, DType::kF64);
  ASSERT_EQ(runner.outputs.size(), 1u);
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 1, 2, 2}));
  EXPECT_EQ(runner.Collect<double>(0, 1), (std::vector<double>{0.5, 1, 2.5, 3, 5.5, 6, 7.5, 8}));
}

TEST(DataLayer, BatchesDoNotDependOnDecodeThreads) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string source = WriteGraySet(temp, 10);
  const std::string transform = "mirror: true crop_size: 2";
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 8}) {
    LayerRunner runner(registry,
                       DataText(source, StrCat("batch_size: 4 threads: ", threads), transform));
    const std::vector<float> values = runner.Collect(0, 20);
    if (expected.empty()) expected = values;
    EXPECT_EQ(values, expected) << threads;
  }
}

TEST(DataLayer, ResumesWhereItWasSaved) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text =
      DataText(WriteGraySet(temp, 5), "batch_size: 2 prefetch: 1", "mirror: true crop_size: 1");
  LayerRunner first(registry, text);
  first.Collect(0, 4);
  LayerState saved;
  first.state().Save(&saved);
  EXPECT_EQ(saved.position(), 8u);
  EXPECT_EQ(saved.epoch(), 1u);
  const std::vector<float> expected = first.Collect(0, 10);

  LayerRunner second(registry, text);
  second.state().Restore(saved);
  EXPECT_EQ(second.Collect(0, 10), expected);
  second.state().Restore(saved);  // while it runs
  EXPECT_EQ(second.Collect(0, 10), expected);
}

TEST(DataLayer, AnLmdbIsReadWhateverTheBackendSays) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string source = WriteGraySet(temp, 3);
  for (const char* backend : {"LMDB", "LEVELDB"}) {
    LayerRunner runner(registry, DataText(source, StrCat("batch_size: 1 backend: ", backend)));
    runner.Forward();
    const float* pixels = runner.outputs[0].view().data<float>();
    EXPECT_EQ(std::vector<float>(pixels, pixels + 12),
              (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}))
        << backend;
    EXPECT_EQ(runner.Collect(1, 2), (std::vector<float>{1, 2})) << backend;
  }
}

// The batches of all kinds of data sets, read with any number of threads, resumed anywhere.
TEST(DataLayer, TarShardsWithoutLabelsHaveNoSecondTop) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  Datum datum = testing::EncodedDatum(testing::FakeJpeg(0), 0);
  datum.clear_label();
  const auto writer = CreateRecords(temp.File("set"), DataParameter::TAR);
  writer->Put("a", datum.SerializeAsString());
  writer->Close();
  ExpectError(ErrorCode::kInvalidArgument, "has no labels",
              [&] { LayerRunner(registry, DataText(temp.File("set"))); });
}

TEST(DataLayer, ErrorsNameTheLayerAndTheProblem) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  ExpectError(ErrorCode::kNotFound, "layer \"digits\": there is no data set",
              [&] { LayerRunner(registry, DataText(temp.File("none"))); });
  const std::string source = WriteGraySet(temp, 3);
  ExpectError(ErrorCode::kInvalidArgument, "prefetch is 0",
              [&] { LayerRunner(registry, DataText(source, "batch_size: 1 prefetch: 0")); });
  ExpectError(ErrorCode::kInvalidArgument, "batch_size must be 1 or more",
              [&] { LayerRunner(registry, DataText(source, "")); });
  ExpectError(ErrorCode::kInvalidArgument, "crop_size is 4, but the image is 3 high",
              [&] { LayerRunner(registry, DataText(source, "batch_size: 1", "crop_size: 4")); });
}

TEST(DataLayer, RecordOfAnotherShapeNamesKeyAndBothShapes) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LmdbWriter writer(temp.File("set"));
  writer.Put("a", GrayDatum(3, 4, 0).SerializeAsString());
  writer.Put("b", GrayDatum(5, 5, 1).SerializeAsString());
  writer.Close();
  LayerRunner runner(registry, DataText(temp.File("set"), "batch_size: 1"));
  runner.Forward();
  ExpectError(ErrorCode::kDataLoss, "layer \"digits\": record \"b\"", [&] { runner.Forward(); });
  ExpectError(ErrorCode::kDataLoss, "is 1x5x5, but the first record is 1x3x4",
              [&] { runner.Forward(); });
  LayerRunner cropped(registry, DataText(temp.File("set"), "batch_size: 1", "crop_size: 3"));
  EXPECT_EQ(cropped.Collect(1, 3), (std::vector<float>{0, 1, 0}));
}

TEST(DataLayer, DamagedRecordNamesKey) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LmdbWriter writer(temp.File("set"));
  writer.Put("a", GrayDatum(3, 4, 0).SerializeAsString());
  writer.Put("b", "\xFF\xFF");
  writer.Close();
  LayerRunner runner(registry, DataText(temp.File("set"), "batch_size: 2"));
  ExpectError(ErrorCode::kDataLoss, "record \"b\"", [&] { runner.Forward(); });
}

TEST(DataLayer, AnAnnotatedDatumIsNamedAsSuch) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  AnnotatedDatum annotated;
  *annotated.mutable_datum() = GrayDatum(3, 4, 0);
  annotated.set_type(AnnotatedDatum::BBOX);
  LmdbWriter writer(temp.File("set"));
  writer.Put("a", annotated.SerializeAsString());
  writer.Close();
  ExpectError(ErrorCode::kDataLoss, "record \"a\" of",
              [&] { LayerRunner(registry, DataText(temp.File("set"))); });
  ExpectError(ErrorCode::kDataLoss, "a layer of type AnnotatedData",
              [&] { LayerRunner(registry, DataText(temp.File("set"))); });
}

// Returns the first record as the net's data layer outputs it, and its number of warnings.
std::pair<std::vector<float>, size_t> FirstOfNet(const std::string& text) {
  const auto plan = test::PlanText(text);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  session.Forward();
  return {test::ValuesOf(session.Data("d")), test::PlanWarnings(text).size()};
}

TEST(DataLayer, TransformationsOfAllFormats) {
  TempDir temp;
  const std::string source = WriteGraySet(temp, 1);
  const std::string fields = "scale: 0.5 crop_size: 2 mirror: false";
  auto [values, warnings] =
      FirstOfNet(StrCat("layers { layer { name: 'd' type: 'data' source: '", source,
                        "' batchsize: 1 scale: 0.5 cropsize: 2 mirror: false } top: 'd' }"));
  EXPECT_EQ(values.size(), 4u);
  EXPECT_EQ(values[1] - values[0], 0.5);
  EXPECT_EQ(warnings, 0u);
  std::tie(values, warnings) =
      FirstOfNet(StrCat("layers { name: 'd' type: DATA top: 'd' data_param { source: '", source,
                        "' batch_size: 1 ", fields, " } }"));
  EXPECT_EQ(values.size(), 4u);
  EXPECT_EQ(values[1] - values[0], 0.5);
  EXPECT_EQ(warnings, 0u);
  // In the present format the layer ignores them, like Caffe, and warns.
  const std::string present =
      StrCat("layer { name: 'd' type: 'Data' top: 'd' data_param { source: '", source,
             "' batch_size: 1 ", fields, " } }");
  EXPECT_EQ(FirstOfNet(present).first.size(), 12u);
  for (const char* field : {"scale", "crop_size", "mirror"}) {
    EXPECT_NE(test::PlanWarnings(present).find(StrCat("'data_param.", field, "' has no effect")),
              std::string::npos);
  }
}

}  // namespace
}  // namespace crema
