// ImageData with pipeline_param, folders, CSV and labels.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/deferred_warnings.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {

namespace {

using test::TempDir;
using test::TestRegistry;
using testing::Encode;
using testing::ExpectError;
using testing::ExpectSameBatches;
using testing::Flat;
using testing::LayerRunner;
using testing::Pattern;

std::string CroppedPetsLayer(const std::string& source, const std::string& more = "batch_size: 3") {
  return StrCat("name: 'pets' type: 'ImageData' top: 'data' top: 'label' image_data_param { ",
                "source: '", source, "' ", more,
                " } transform_param { crop_size: 4 mirror: true }");
}

// Images of 5 x 6 in folders of two classes, a list and a CSV file of them.
struct PetSet {
  TempDir temp;
  std::string folder = temp.File("pets");
  std::string list;
  std::string csv;

  explicit PetSet(int count = 11) {
    std::string lines;
    std::string rows = "path,label\n";
    for (int i = 0; i < count; ++i) {
      const std::string name = i % 2 == 0 ? "cat" : "dog";
      std::filesystem::create_directories(folder + "/" + name);
      const std::string path =
          temp.Write(StrCat("pets/", name, "/", i, ".png"), Encode(Pattern(5, 6, 3, i * 3)));
      lines += StrCat(path, " ", i % 2, "\n");
      rows += StrCat("\"", path, "\",", i % 2, "\n");
    }
    list = temp.Write("list.txt", lines);
    csv = temp.Write("list.csv", rows);
  }
};

TEST(ImagePipeline, BatchesAreTheSameForAnyWorkersAndFromAnySample) {
  const PetSet pets;
  const Registry& registry = TestRegistry();
  for (const std::string& source : {pets.list, pets.csv, pets.folder}) {
    ExpectSameBatches(registry, CroppedPetsLayer(source));
    ExpectSameBatches(registry, CroppedPetsLayer(source), "shuffle: true prefetch: 2");
  }
  ExpectSameBatches(registry, CroppedPetsLayer(pets.list), "shuffle: true cache: ENCODED");
  ExpectSameBatches(registry, CroppedPetsLayer(pets.list),
                    "shuffle: true cache: DECODED cache_mb: 1");
}

TEST(ImagePipeline, BadImagesAreReplacedTheSameWayForAnyWorkersAndCaches) {
  const PetSet pets;
  const Registry& registry = TestRegistry();
  pets.temp.Write("pets/dog/3.png", "no image");
  std::filesystem::remove(pets.folder + "/cat/8.png");
  for (const char* order : {"", "shuffle: true"}) {
    for (const char* cache : {"", "cache: ENCODED cache_mb: 1", "cache: DECODED cache_mb: 1"}) {
      for (const char* policy : {"on_bad_sample: SKIP", "on_bad_sample: REPEAT"}) {
        ExpectSameBatches(registry, CroppedPetsLayer(pets.list),
                          StrCat(order, " ", cache, " ", policy), 12,
                          testing::Resume::kBetweenBatches);
      }
    }
  }
}

TEST(ImagePipeline, FoldersAndTablesGiveWhatAListGives) {
  const PetSet pets;
  const Registry& registry = TestRegistry();
  LayerRunner list(registry, CroppedPetsLayer(pets.list, "batch_size: 11"));
  LayerRunner csv(registry, CroppedPetsLayer(pets.csv, "batch_size: 11"));
  EXPECT_EQ(list.Collect(0, 1), csv.Collect(0, 1));
  EXPECT_EQ(list.Collect(1, 1), csv.Collect(1, 1));
  LayerRunner folder(registry, CroppedPetsLayer(pets.folder, "batch_size: 11"));
  EXPECT_EQ(folder.Collect(1, 1), (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(folder.state().EpochSize(), 11);
}

TEST(ImagePipeline, EitherFieldShuffles) {
  const PetSet pets;
  const Registry& registry = TestRegistry();
  LayerRunner own(registry, CroppedPetsLayer(pets.list, "batch_size: 11 shuffle: true"));
  LayerRunner common(registry, CroppedPetsLayer(pets.list, "batch_size: 11") +
                                   " pipeline_param { shuffle: true }");
  LayerRunner none(registry, CroppedPetsLayer(pets.list, "batch_size: 11"));
  const std::vector<float> order = own.Collect(0, 2);
  EXPECT_EQ(common.Collect(0, 2), order);
  EXPECT_NE(none.Collect(0, 2), order);
}

TEST(ImagePipeline, SeveralLabelsAreAMatrix) {
  TempDir temp;
  const std::string a = temp.Write("a.png", Encode(Flat(4, 4, 1)));
  const std::string list = temp.Write("list", StrCat(a, " 0.5 -2\n", a, " 3 1e3\n"));
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, CroppedPetsLayer(list, "batch_size: 2 label_count: 2"));
  EXPECT_EQ(runner.outputs[1].shape(), (Shape{2, 2}));
  EXPECT_EQ(runner.Collect(1, 1), (std::vector<float>{0.5, -2, 3, 1000}));
  temp.Write("list", StrCat(a, " 0.5\n"));
  LayerRunner one(registry, CroppedPetsLayer(list, "batch_size: 2 label_count: 1"), TRAIN,
                  DType::kF64);
  EXPECT_EQ(one.outputs[1].shape(), (Shape{2}));
  EXPECT_EQ(one.Collect<double>(1, 1), (std::vector<double>{0.5, 0.5}));
  ExpectError(ErrorCode::kDataLoss, "list:1' the label '0.5'",
              [&] { LayerRunner(registry, CroppedPetsLayer(list)); });
}

std::vector<std::string> WarningsOf(LayerRunner& runner) {
  return dynamic_cast<HasDeferredWarnings&>(runner.state()).TakeWarnings();
}

TEST(ImagePipeline, BadImagesAreSkippedNamedAndCounted) {
  const PetSet pets(9);
  const Registry& registry = TestRegistry();
  pets.temp.Write("pets/dog/1.png", "no image");
  std::filesystem::remove(pets.folder + "/cat/4.png");
  const std::string text = CroppedPetsLayer(pets.list, "batch_size: 3");
  ExpectSameBatches(registry, CroppedPetsLayer(pets.list, "batch_size: 9"), "on_bad_sample: REPEAT",
                    1);
  LayerRunner runner(registry, text + " pipeline_param { on_bad_sample: SKIP max_bad: 3 }");
  runner.Collect(1, 3);
  EXPECT_EQ(runner.state().SampleName(0), pets.folder + "/cat/6.png");
  const std::vector<std::string> warnings = WarningsOf(runner);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_NE(
      warnings[0].find("bad sample 1: '" + pets.folder + "/dog/1.png' (line 2 of '" + pets.list),
      std::string::npos)
      << warnings[0];
  EXPECT_NE(warnings[1].find("4.png"), std::string::npos) << warnings[1];
  EXPECT_NE(warnings[1].find("(line 5 of"), std::string::npos) << warnings[1];
  LayerState saved;
  runner.state().Save(&saved);
  LayerRunner resumed(registry, text + " pipeline_param { on_bad_sample: SKIP max_bad: 3 }");
  resumed.state().Restore(saved);
  resumed.Collect(1, 1);  // the third
  ExpectError(ErrorCode::kDataLoss, "there are 4 bad samples, and max_bad allows 3",
              [&] { resumed.Forward(); });
  LayerRunner strict(registry, text);
  ExpectError(ErrorCode::kDataLoss, "dog/1.png", [&] { strict.Forward(); });
}

TEST(ImagePipeline, CachedFilesNeedNotBeThereAnyMore) {
  const Registry& registry = TestRegistry();
  for (const char* pipeline :
       {"pipeline_param { cache: ENCODED }", "pipeline_param { cache: DECODED cache_mb: 1 }", ""}) {
    const PetSet pets(6);
    const std::string own = *pipeline == 0 ? "cache: true " : "";
    LayerRunner runner(registry, CroppedPetsLayer(pets.list, own + "batch_size: 6") + pipeline);
    const std::vector<float> first = runner.Collect(1, 1);
    // Restoring discards read-ahead; all of one epoch was read.
    LayerState state;
    state.set_position(0);
    runner.state().Restore(state);
    std::filesystem::remove_all(pets.folder);
    EXPECT_EQ(runner.Collect(1, 3).size(), 18u);
    EXPECT_TRUE(WarningsOf(runner).empty());
  }
}

TEST(ImagePipeline, ASmallCacheIsToldOnceAndTheRestIsReadAgain) {
  TempDir temp;
  std::string lines;
  for (int i = 0; i < 4; ++i) {  // 3 x 400 x 400 bytes of pixels: two fit into a mebibyte
    lines += StrCat(temp.Write(StrCat(i, ".png"), Encode(Flat(400, 400, i))), " ", i, "\n");
  }
  const Registry& registry = TestRegistry();
  LayerRunner runner(registry, CroppedPetsLayer(temp.Write("list", lines), "batch_size: 4") +
                                   " pipeline_param { cache: DECODED cache_mb: 1 }");
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(runner.Collect(0, 1)[3 * 48], 3);
  }
  const std::vector<std::string> warnings = WarningsOf(runner);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the cache is full with 2 entries in 1 MiB"), std::string::npos)
      << warnings[0];
}

}  // namespace
}  // namespace crema
#endif
