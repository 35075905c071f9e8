// Data sets of each format with flipped bits: a layer either throws an Error that names the fault,
// or returns batches in which all undamaged samples are at their places.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/expect_error.h"
#include "data/image/image.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/same_batches.h"
#include "support/damaged_files.h"
#include "support/net.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_JPEG
#include "data/jpeg_files.h"
#endif
#ifdef CREMA_HAVE_HDF5
#include "crema.pb.h"
#include "data/hdf5/hdf5_appender.h"
#endif

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using test::TestRegistry;
using testing::LayerRunner;

constexpr int kSetSamples = 6;
constexpr int kBatches = 4;  // of three: two epochs
constexpr const char* kBadSamplePolicies[] = {"ERROR", "SKIP", "REPEAT"};

// A data set, the layer that reads it, and the file to damage.
struct Victim {
  std::string layer;  // its text without pipeline_param
  std::string file;   // a path
  int sample = -1;    // the only sample in the file; -1: several
};

struct RunOutcome {
  int batches = 0;
  std::string error;
};

// Runs the layer. `whole` are the samples of the undamaged set.
RunOutcome RunLayer(const Victim& victim, const std::string& policy,
                    const std::vector<std::string>& whole) {
  RunOutcome outcome;
  try {
    LayerRunner runner(TestRegistry(),
                       StrCat(victim.layer, " pipeline_param { on_bad_sample: ", policy, " }"));
    for (; outcome.batches < kBatches; ++outcome.batches) {
      runner.Forward();
      LayerState state;
      runner.state().Save(&state);
      EXPECT_EQ(state.position(), static_cast<uint64_t>(3 * (outcome.batches + 1)));
      if (victim.sample < 0) continue;
      const size_t size = runner.outputs[0].view().bytes() / 3;
      const auto* bytes = static_cast<const char*>(runner.outputs[0].view().raw());
      for (size_t i = 0; i < 3; ++i) {
        const size_t number = static_cast<size_t>(3 * outcome.batches) + i;
        if (static_cast<int>(number % kSetSamples) == victim.sample) continue;
        EXPECT_EQ(std::string(bytes + i * size, size), whole[number].substr(0, size)) << number;
      }
    }
  } catch (const Error& error) {
    outcome.error = error.what();
    // Anything else is a bug: kInternal, or kInvalidArgument, which would blame the user's net.
    EXPECT_TRUE(error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kIoFailure ||
                error.code() == ErrorCode::kNotFound)
        << error.what();
  }
  return outcome;
}

// `make` writes a fresh data set into a folder.
template <typename Make>
void ExpectNoCrash(const std::string& what, int flips, Make&& make) {
  std::vector<std::string> whole;
  {
    const TempDir temp;
    LayerRunner runner(TestRegistry(), make(temp).layer);
    whole = testing::SamplesFrom(&runner, 0, kBatches);
  }
  int errors = 0;
  int batches = 0;
  for (int n = 0; n < flips; ++n) {
    SCOPED_TRACE(StrCat(what, ", damage ", n));
    const TempDir temp;
    const Victim victim = make(temp);
    test::DamageFile(victim.file, static_cast<uint64_t>(n));
    for (const char* policy : kBadSamplePolicies) {
      const RunOutcome outcome = RunLayer(victim, policy, whole);
      errors += outcome.error.empty() ? 0 : 1;
      batches += outcome.batches;
      // A damaged file with one sample does not affect the others of its batch.
      if (victim.sample >= 0 && victim.sample > 0 && std::string(policy) != "ERROR") {
        EXPECT_EQ(outcome.error, "");
      }
    }
  }
  ::testing::Test::RecordProperty(what + " errors", errors);
  ::testing::Test::RecordProperty(what + " batches", batches);
  EXPECT_GT(errors + batches, 0);
}

Victim ImageSet(const TempDir& temp, const std::string& extension,
                const std::vector<std::string>& files) {
  std::string list;
  for (size_t i = 0; i < files.size(); ++i) {
    list += StrCat(temp.Write(StrCat(i, extension), files[i]), " ", i, "\n");
  }
  return {.layer = StrCat("name: 'd' type: 'ImageData' top: 'data' top: 'label' ",
                          "image_data_param { source: '", temp.Write("list", list),
                          "' batch_size: 3 } transform_param { crop_size: 7 mirror: true }"),
          .file = temp.File("2" + extension),
          .sample = 2};
}

TEST(DamagedSets, PngFiles) {
  ExpectNoCrash("png", 40, [](const TempDir& temp) {
    std::vector<std::string> files;
    for (int i = 0; i < kSetSamples; ++i) {
      files.push_back(testing::Encode(testing::Pattern(9, 11, 3, i)));
    }
    return ImageSet(temp, ".png", files);
  });
}

TEST(DamagedSets, OtherImageFiles) {
  for (const char* extension : {".bmp", ".ppm", ".tiff", ".webp"}) {
    if (!cv::haveImageWriter(extension)) continue;
    ExpectNoCrash(extension, 30, [&](const TempDir& temp) {
      std::vector<std::string> files;
      for (int i = 0; i < kSetSamples; ++i) {
        files.push_back(testing::Encode(testing::Pattern(9, 11, 3, i), extension));
      }
      return ImageSet(temp, extension, files);
    });
  }
}

#ifdef CREMA_HAVE_JPEG
TEST(DamagedSets, JpegFilesOfAllKinds) {
  for (const testing::JpegKind& kind : testing::AllKinds()) {
    ExpectNoCrash(kind.name, 12, [&](const TempDir& temp) {
      return ImageSet(temp, ".jpg",
                      std::vector<std::string>(kSetSamples, testing::MakeJpeg(33, 47, kind)));
    });
  }
}
#endif

std::string MirroredLayer(const std::string& source) {
  return StrCat("name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '", source,
                "' batch_size: 3 } transform_param { crop_size: 3 mirror: true }");
}

Datum SampleDatum(int n, bool encoded) {
  if (!encoded) return testing::GrayDatum(5, 6, n);
  return testing::EncodedDatum(testing::Encode(testing::Pattern(5, 6, 1, n)), n);
}

TEST(DamagedSets, DatumRecords) {
  for (const bool encoded : {false, true}) {
    std::vector<std::string> whole;
    for (int n = 0; n < 60; ++n) {
      SCOPED_TRACE(n);
      const TempDir temp;
      const auto write = [&](const std::string& name, bool damaged) {
        const auto writer = CreateRecords(temp.File(name), DataParameter::LMDB);
        for (int i = 0; i < kSetSamples; ++i) {
          std::string value = SampleDatum(i, encoded).SerializeAsString();
          if (damaged && i == 2) test::DamageBytes(&value, static_cast<uint64_t>(n));
          writer->Put(testing::NumberedKey(i), value);
        }
        writer->Close();
        return Victim{.layer = MirroredLayer(temp.File(name)), .file = "", .sample = 2};
      };
      if (whole.empty()) {
        LayerRunner runner(TestRegistry(), write("whole", false).layer);
        whole = testing::SamplesFrom(&runner, 0, kBatches);
      }
      const Victim victim = write("set", true);
      for (const char* policy : kBadSamplePolicies) {
        const RunOutcome outcome = RunLayer(victim, policy, whole);
        if (std::string(policy) != "ERROR") {
          EXPECT_EQ(outcome.error, "");
        }
      }
    }
  }
}

TEST(DamagedSets, TarShards) {
  ExpectNoCrash("tar", 60, [](const TempDir& temp) {
    const std::string path = temp.File("set.tar");
    const auto writer = CreateTarShards(path);
    for (int n = 0; n < kSetSamples; ++n) {
      writer->Put(testing::NumberedKey(n), SampleDatum(n, true).SerializeAsString());
    }
    writer->Close();
    return Victim{.layer = MirroredLayer(path), .file = path};
  });
}

TEST(DamagedSets, LevelDbTables) {
  const TempDir probe;
  if (!testing::CanWrite(DataParameter::LEVELDB, probe)) GTEST_SKIP() << "not in this build";
  for (const char* part : {".ldb", ".log", "MANIFEST", "CURRENT"}) {
    ExpectNoCrash(part, 15, [&](const TempDir& temp) {
      const std::string path = temp.File("set");
      const auto writer = CreateRecords(path, DataParameter::LEVELDB);
      for (int n = 0; n < kSetSamples; ++n) {
        writer->Put(testing::NumberedKey(n), SampleDatum(n, false).SerializeAsString());
      }
      writer->Close();
      OpenRecords(path)->count();  // records go from the log into a table
      Victim victim{.layer = MirroredLayer(path), .file = ""};
      for (const auto& entry : fs::directory_iterator(path)) {
        const std::string name = entry.path().filename();
        if (name.find(part) != std::string::npos && entry.file_size() > 0) {
          victim.file = entry.path();
        }
      }
      if (victim.file.empty()) victim.file = path + "/CURRENT";
      return victim;
    });
  }
}

std::string WindowText() {
  std::string text;
  for (int i = 0; i < kSetSamples; ++i) {
    text += StrCat("# ", i, "\n", i, ".png\n3\n9\n11\n2\n7 0.9 2 1 5 8\n0 0.1 1 3 9 7\n");
  }
  return text;
}

Victim WindowSet(const TempDir& temp, const std::string& damaged) {
  for (int i = 0; i < kSetSamples; ++i) {
    temp.Write(StrCat(i, ".png"), testing::Encode(testing::Pattern(9, 11, 3, i)));
  }
  const std::string source = temp.Write("windows", WindowText());
  return {.layer = StrCat("name: 'd' type: 'WindowData' top: 'data' top: 'label' ",
                          "window_data_param { batch_size: 3 fg_fraction: 0.4 context_pad: 1 "
                          "source: '",
                          source, "' root_folder: '", temp.path(),
                          "/' } transform_param { crop_size: 5 mirror: true }"),
          .file = temp.File(damaged)};
}

TEST(DamagedSets, ListsAndWindowFiles) {
  ExpectNoCrash("windows", 60, [](const TempDir& temp) { return WindowSet(temp, "windows"); });
  ExpectNoCrash("image", 30, [](const TempDir& temp) { return WindowSet(temp, "2.png"); });
  ExpectNoCrash("list", 60, [](const TempDir& temp) {
    Victim victim = ImageSet(
        temp, ".png",
        std::vector<std::string>(kSetSamples, testing::Encode(testing::Pattern(9, 11, 3))));
    victim.file = temp.File("list");
    victim.sample = -1;
    return victim;
  });
}

TEST(DamagedSets, RecordsWithBoxes) {
  for (uint64_t n = 0; n < 60; ++n) {
    const TempDir temp;
    const auto writer = CreateRecords(temp.File("set"), DataParameter::LMDB);
    for (int i = 0; i < kSetSamples; ++i) {
      AnnotatedDatum record;
      record.set_type(AnnotatedDatum::BBOX);
      *record.mutable_datum() = SampleDatum(i, true);
      AnnotationGroup* group = record.add_annotation_group();
      group->set_group_label(1);
      group->add_annotation()->mutable_bbox()->set_xmax(0.5f);
      group->mutable_annotation(0)->mutable_bbox()->set_ymax(0.7f);
      std::string value = record.SerializeAsString();
      if (i == 2) test::DamageBytes(&value, n);
      writer->Put(testing::NumberedKey(i), value);
    }
    writer->Close();
    const Victim victim{
        .layer = StrCat("name: 'd' type: 'AnnotatedData' top: 'data' top: 'label' data_param { ",
                        "source: '", temp.File("set"), "' batch_size: 3 } transform_param { ",
                        "resize_param { height: 6 width: 6 } expand_param { prob: 0.5 ",
                        "max_expand_ratio: 3 } mirror: true } annotated_data_param { ",
                        "batch_sampler { sampler { min_scale: 0.3 } max_trials: 5 } }"),
        .file = ""};
    for (const char* policy : kBadSamplePolicies) {
      const RunOutcome outcome = RunLayer(victim, policy, {});
      if (std::string(policy) != "ERROR") {
        EXPECT_EQ(outcome.error, "") << n;
      }
    }
  }
}

#ifdef CREMA_HAVE_HDF5
TEST(DamagedSets, Hdf5Files) {
  ExpectNoCrash("hdf5", 24, [](const TempDir& temp) {
    std::string list;
    for (const int rows : {4, 2}) {
      const std::string path = temp.File(StrCat(rows, ".h5"));
      Tensor values(Shape{rows, 5}, DType::kF32);
      for (int i = 0; i < 5 * rows; ++i) {
        values.view().data<float>()[i] = static_cast<float>(rows * 100 + i);
      }
      Hdf5Appender appender(path);
      appender.Append("data", values.view());
      appender.Append("label", values.view());
      list += path + "\n";
    }
    return Victim{.layer = StrCat("name: 'd' type: 'HDF5Data' top: 'data' top: 'label' ",
                                  "hdf5_data_param { batch_size: 3 source: '",
                                  temp.Write("list", list), "' }"),
                  .file = temp.File("4.h5")};
  });
}
#endif

// A few bytes whose header claims an image of gigabytes.
TEST(DamagedSets, SizesThatAnImageFileCannotHoldAreAnErrorBeforeMemoryIsTaken) {
  const std::vector<std::string> files = {
      "P5\n32000 32000\n255\n1234",  // 1 GB
      "P6\n32000 32000\n255\n1234",
      "P4\n32000 32000\n1234",
  };
  for (const std::string& file : files) {
    Image image;
    testing::ExpectError(ErrorCode::kDataLoss, "cannot be decoded",
                         [&] { DecodeImage(file, ColorMode::kColor, "record 5", &image); });
  }
}

}  // namespace
}  // namespace crema
#endif
