#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "data/batches/datum_batches.h"
#include "data/expect_error.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/records/lmdb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

void RegisterData(Registry&);

namespace {

using test::TempDir;
using testing::ExpectError;
using testing::GrayDatum;
using testing::LayerRunner;

Registry DataRegistry() {
  Registry registry;
  RegisterData(registry);
  return registry;
}

// `records` images of 3x4; image n holds 10n, 10n + 1, …, and its label is n.
std::string WriteSet(const TempDir& temp, int records) {
  const std::string path = temp.File("set");
  LmdbWriter writer(path);
  for (int i = 0; i < records; ++i) {
    writer.Put(StrCat("key", i), GrayDatum(3, 4, i).SerializeAsString());
  }
  writer.Close();
  return path;
}

std::string Layer(const std::string& source, const std::string& more = "batch_size: 2",
                  const std::string& transform = "", int tops = 2) {
  return StrCat("name: 'digits' type: 'Data' top: 'data' ", tops > 1 ? "top: 'label' " : "",
                "data_param { source: '", source, "' ", more, " } transform_param { ", transform,
                " }");
}

TEST(DataLayer, BatchesFollowTheKeysAndWrap) {
  TempDir temp;
  const Registry registry = DataRegistry();
  LayerRunner runner(registry, Layer(WriteSet(temp, 3)));
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
  const Registry registry = DataRegistry();
  LayerRunner runner(registry, Layer(WriteSet(temp, 3)));
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
  const Registry registry = DataRegistry();
  const std::string text = Layer(WriteSet(temp, 3), "batch_size: 2", "scale: 0.5 crop_size: 2", 1);
  LayerRunner runner(registry, text, TEST, DType::kF64);
  ASSERT_EQ(runner.outputs.size(), 1u);
  EXPECT_EQ(runner.outputs[0].shape(), (Shape{2, 1, 2, 2}));
  EXPECT_EQ(runner.Collect<double>(0, 1), (std::vector<double>{0.5, 1, 2.5, 3, 5.5, 6, 7.5, 8}));
}

TEST(DataLayer, BatchesDoNotDependOnDecodeThreads) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string source = WriteSet(temp, 10);
  const std::string transform = "mirror: true crop_size: 2";
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 8}) {
    LayerRunner runner(registry,
                       Layer(source, StrCat("batch_size: 4 threads: ", threads), transform));
    const std::vector<float> values = runner.Collect(0, 20);
    if (expected.empty()) expected = values;
    EXPECT_EQ(values, expected) << threads;
  }
}

TEST(DataLayer, ResumesWhereItWasSaved) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string text =
      Layer(WriteSet(temp, 5), "batch_size: 2 prefetch: 1", "mirror: true crop_size: 1");
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

TEST(DataLayer, EpochsHaveRandomNumbersOfTheirOwn) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string text = Layer(WriteSet(temp, 8), "batch_size: 8", "crop_size: 1");
  LayerRunner runner(registry, text);
  const std::vector<float> first = runner.Collect(0, 1);
  EXPECT_NE(first, runner.Collect(0, 1));
  LayerRunner other_seed(registry, text, TRAIN, DType::kF32, 2);
  EXPECT_NE(first, other_seed.Collect(0, 1));
  LayerRunner same_seed(registry, text);
  EXPECT_EQ(first, same_seed.Collect(0, 1));
}

TEST(DataLayer, AnLmdbIsReadWhateverTheBackendSays) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string source = WriteSet(temp, 3);
  LayerRunner(registry, Layer(source, "batch_size: 1 backend: LMDB")).Forward();
  LayerRunner(registry, Layer(source, "batch_size: 1 backend: LEVELDB")).Forward();
}

// Raw records, which tar shards would hold as image files.
std::string WriteRawSet(const TempDir& temp, DataParameter::DB backend, int records) {
  const std::string path = temp.File(StrCat("raw", DataParameter::DB_Name(backend)));
  const auto writer = CreateRecords(path, backend);
  for (int i = 0; i < records; ++i) {
    writer->Put(StrCat("key", i), GrayDatum(3, 4, i).SerializeAsString());
  }
  writer->Close();
  return path;
}

std::vector<DataParameter::DB> ReadableBackends(const TempDir& temp) {
  std::vector<DataParameter::DB> backends = testing::Backends(temp);
#ifndef CREMA_HAVE_OPENCV
  std::erase(backends, DataParameter::TAR);  // image files need OpenCV
#endif
  return backends;
}

// The batches of all kinds of data sets, read with any number of threads, resumed anywhere.
TEST(DataLayer, AllKindsOfDataSetsGiveTheSameBatches) {
  TempDir temp;
  const Registry registry = DataRegistry();
  for (const char* order :
       {"", "shuffle: true", "shuffle_buffer: 4", "shuffle: true shuffle_buffer: 3"}) {
    std::vector<float> expected;
    for (const DataParameter::DB backend : ReadableBackends(temp)) {
      const TempDir folder;
      const std::string source = WriteRawSet(folder, backend, 10);
      for (const int threads : {1, 2, 3, 8}) {
        const std::string text =
            StrCat(Layer(source, "batch_size: 4", "mirror: true crop_size: 2"),
                   " pipeline_param { threads: ", threads, " prefetch: 2 ", order, " }");
        LayerRunner runner(registry, text);
        const std::vector<float> values = runner.Collect(0, 12);
        if (expected.empty()) expected = values;
        ASSERT_EQ(values, expected) << source << " " << threads;
        for (const uint64_t position : {12, 20, 4}) {
          LayerState state;
          state.set_position(position);
          LayerRunner resumed(registry, text);
          resumed.state().Restore(state);
          const auto from = expected.begin() + static_cast<int64_t>(position) * 4;
          ASSERT_EQ(resumed.Collect(0, 5), std::vector<float>(from, from + 5 * 4 * 4)) << source;
        }
      }
    }
  }
}

TEST(DataLayer, CachedRecordsAndPixelsGiveTheSameBatches) {
  TempDir temp;
  const Registry registry = DataRegistry();
  for (const char* order : {"", "shuffle: true", "shuffle_buffer: 4"}) {
    for (const DataParameter::DB backend : ReadableBackends(temp)) {
      const TempDir folder;
      const std::string text = StrCat(
          Layer(WriteRawSet(folder, backend, 10), "batch_size: 4", "mirror: true crop_size: 2"),
          " pipeline_param { ", order, " ");
      LayerRunner plain(registry, text + "}");
      const std::vector<float> labels = plain.Collect(1, 12);
      const std::vector<float> values = plain.Collect(0, 12);
      for (const char* cache : {"ENCODED cache_mb: 64", "DECODED cache_mb: 64", "DECODED"}) {
        LayerRunner runner(registry, StrCat(text, "cache: ", cache, " }"));
        ASSERT_EQ(runner.Collect(1, 12), labels) << cache << order;
        ASSERT_EQ(runner.Collect(0, 12), values) << cache << order;
        EXPECT_EQ(runner.state().SampleName(0).substr(0, 3), "key");
      }
    }
  }
}

TEST(DataLayer, ShuffledEpochsAreDifferentPermutations) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string source = WriteSet(temp, 20);
  const std::string shuffled = Layer(source, "batch_size: 20 shuffle: true");
  LayerRunner runner(registry, shuffled);
  std::vector<float> first = runner.Collect(1, 1);
  std::vector<float> second = runner.Collect(1, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(
      LayerRunner(registry, Layer(source, "batch_size: 20") + " pipeline_param { shuffle: true }")
          .Collect(1, 1),
      first);
  EXPECT_NE(LayerRunner(registry, shuffled, TRAIN, DType::kF32, 2).Collect(1, 1), first);
  for (std::vector<float>* epoch : {&first, &second}) {
    std::ranges::sort(*epoch);
    for (int i = 0; i < 20; ++i) EXPECT_EQ((*epoch)[static_cast<size_t>(i)], i);
  }
}

TEST(DataLayer, BlocksAreShuffledWithinThemselves) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string text =
      Layer(WriteSet(temp, 10), "batch_size: 5") + " pipeline_param { shuffle_buffer: 5 }";
  LayerRunner runner(registry, text);
  bool permuted = false;
  for (int block = 0; block < 8; ++block) {
    std::vector<float> labels = runner.Collect(1, 1);
    permuted |= !std::ranges::is_sorted(labels);
    std::ranges::sort(labels);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(labels[static_cast<size_t>(i)], block % 2 * 5 + i);
    }
  }
  EXPECT_TRUE(permuted);
}

TEST(DataLayer, BadRecordsMayBeSkippedWhileTheyAreShuffled) {
  TempDir temp;
  const Registry registry = DataRegistry();
  LmdbWriter writer(temp.File("set"));
  for (int i = 0; i < 8; ++i) {
    writer.Put(StrCat("key", i), i == 3 ? "\xFF\xFF" : GrayDatum(3, 4, i).SerializeAsString());
  }
  writer.Close();
  for (const char* order : {"", "shuffle: true", "shuffle_buffer: 4"}) {
    LayerRunner runner(registry, StrCat(Layer(temp.File("set"), "batch_size: 8"),
                                        " pipeline_param { on_bad_sample: SKIP ", order, " }"));
    std::vector<float> labels = runner.Collect(1, 1);
    EXPECT_EQ(std::set<float>(labels.begin(), labels.end()),
              (std::set<float>{0, 1, 2, 4, 5, 6, 7}));
  }
}

TEST(DataLayer, TarShardsWithoutLabelsHaveNoSecondTop) {
  TempDir temp;
  const Registry registry = DataRegistry();
  Datum datum = testing::EncodedDatum(testing::FakeJpeg(0), 0);
  datum.clear_label();
  const auto writer = CreateRecords(temp.File("set"), DataParameter::TAR);
  writer->Put("a", datum.SerializeAsString());
  writer->Close();
  ExpectError(ErrorCode::kInvalidArgument, "has no labels",
              [&] { LayerRunner(registry, Layer(temp.File("set"))); });
}

TEST(DataLayer, ErrorsNameTheLayerAndTheProblem) {
  TempDir temp;
  const Registry registry = DataRegistry();
  ExpectError(ErrorCode::kNotFound, "layer \"digits\": there is no data set",
              [&] { LayerRunner(registry, Layer(temp.File("none"))); });
  const std::string source = WriteSet(temp, 3);
  ExpectError(ErrorCode::kInvalidArgument, "prefetch is 0",
              [&] { LayerRunner(registry, Layer(source, "batch_size: 1 prefetch: 0")); });
  ExpectError(ErrorCode::kInvalidArgument, "batch_size must be 1 or more",
              [&] { LayerRunner(registry, Layer(source, "")); });
  ExpectError(ErrorCode::kInvalidArgument, "crop_size is 4, but the image is 3 high",
              [&] { LayerRunner(registry, Layer(source, "batch_size: 1", "crop_size: 4")); });
}

TEST(DataLayer, RecordOfAnotherShapeNamesKeyAndBothShapes) {
  TempDir temp;
  const Registry registry = DataRegistry();
  LmdbWriter writer(temp.File("set"));
  writer.Put("a", GrayDatum(3, 4, 0).SerializeAsString());
  writer.Put("b", GrayDatum(5, 5, 1).SerializeAsString());
  writer.Close();
  LayerRunner runner(registry, Layer(temp.File("set"), "batch_size: 1"));
  runner.Forward();
  ExpectError(ErrorCode::kDataLoss, "layer \"digits\": record \"b\"", [&] { runner.Forward(); });
  ExpectError(ErrorCode::kDataLoss, "is 1x5x5, but the first record is 1x3x4",
              [&] { runner.Forward(); });
  LayerRunner cropped(registry, Layer(temp.File("set"), "batch_size: 1", "crop_size: 3"));
  EXPECT_EQ(cropped.Collect(1, 3), (std::vector<float>{0, 1, 0}));
}

TEST(DataLayer, DamagedRecordNamesKey) {
  TempDir temp;
  const Registry registry = DataRegistry();
  LmdbWriter writer(temp.File("set"));
  writer.Put("a", GrayDatum(3, 4, 0).SerializeAsString());
  writer.Put("b", "\xFF\xFF");
  writer.Close();
  LayerRunner runner(registry, Layer(temp.File("set"), "batch_size: 2"));
  ExpectError(ErrorCode::kDataLoss, "record \"b\"", [&] { runner.Forward(); });
}

TEST(DataLayer, RandSkipStartsWithinItsBoundAndResumes) {
  TempDir temp;
  const Registry registry = DataRegistry();
  const std::string text = Layer(WriteSet(temp, 7), "batch_size: 1 rand_skip: 5");
  std::set<float> firsts;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    LayerRunner runner(registry, text, TRAIN, DType::kF32, seed);
    firsts.insert(runner.Collect(1, 1)[0]);
  }
  EXPECT_EQ(firsts, (std::set<float>{0, 1, 2, 3, 4}));
  LayerRunner runner(registry, text);
  const float start = runner.Collect(1, 3)[0];
  LayerState saved;
  runner.state().Save(&saved);
  EXPECT_EQ(saved.position(), static_cast<uint64_t>(start) + 3);
  const std::vector<float> expected = runner.Collect(1, 9);
  LayerRunner resumed(registry, text);
  resumed.state().Restore(saved);
  EXPECT_EQ(resumed.Collect(1, 9), expected);
}

TEST(DataLayer, AnAnnotatedDatumIsNamedAsSuch) {
  TempDir temp;
  const Registry registry = DataRegistry();
  AnnotatedDatum annotated;
  *annotated.mutable_datum() = GrayDatum(3, 4, 0);
  annotated.set_type(AnnotatedDatum::BBOX);
  LmdbWriter writer(temp.File("set"));
  writer.Put("a", annotated.SerializeAsString());
  writer.Close();
  ExpectError(ErrorCode::kDataLoss, "record \"a\" of",
              [&] { LayerRunner(registry, Layer(temp.File("set"))); });
  ExpectError(ErrorCode::kDataLoss, "a layer of type AnnotatedData",
              [&] { LayerRunner(registry, Layer(temp.File("set"))); });
}

// What the data layer of a net makes of the first record, and its number of warnings.
std::pair<std::vector<float>, size_t> FirstOfNet(const std::string& text) {
  const auto plan = test::PlanText(text);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  session.Forward();
  return {test::ValuesOf(session.Data("d")), test::PlanWarnings(text).size()};
}

TEST(DataLayer, TransformationsOfAllFormats) {
  TempDir temp;
  const std::string source = WriteSet(temp, 1);
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
  // In the present format the layer does not look at them, as in Caffe, and says so.
  const std::string present =
      StrCat("layer { name: 'd' type: 'Data' top: 'd' data_param { source: '", source,
             "' batch_size: 1 ", fields, " } }");
  EXPECT_EQ(FirstOfNet(present).first.size(), 12u);
  for (const char* field : {"scale", "crop_size", "mirror"}) {
    EXPECT_NE(test::PlanWarnings(present).find(StrCat("'data_param.", field, "' has no effect")),
              std::string::npos);
  }
}

TEST(DataLayer, ShardsPartTheSequenceAndRotate) {
  TempDir temp;
  const std::string path = WriteSet(temp, 5);
  for (uint64_t rank = 0; rank < 3; ++rank) {
    DataSetSource source(path, {.rank = rank, .world = 3});
    for (const uint64_t start : {0, 4}) {
      source.Seek(start);
      for (uint64_t position = start; position < start + 10; ++position) {
        Record record;
        source.Read(&record);
        EXPECT_EQ(record.ordinal, position * 3 + rank);
        EXPECT_EQ(record.key, StrCat("key", record.ordinal % 5));
      }
    }
  }
}

}  // namespace
}  // namespace crema
