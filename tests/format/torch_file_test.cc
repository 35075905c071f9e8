// Reads files of torch.save, whole and broken.
#include "format/torch_file.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "format/state_dict_errors.h"
#include "support/torch_files.h"

namespace crema {
namespace {

using test::BytesOf;
using test::OldTorchFile;
using test::PickleWriter;
using test::StateDictError;
using test::StateValues;
using test::TempDir;
using test::TorchTensor;
using test::TorchZip;

const std::vector<TorchTensor>& Two() {
  static const std::vector<TorchTensor> tensors = {
      {.name = "fc.weight", .shape = {2, 2}, .bytes = BytesOf<float>({1, 2, 3, 4})},
      {.name = "fc.bias", .shape = {2}, .bytes = BytesOf<double>({0.5, -1}), .type = "Double"}};
  return tensors;
}

// A checkpoint with the dict of Two() under each key, by the storages of one.
std::string Checkpoint(const std::vector<std::string>& keys) {
  PickleWriter pickle;
  pickle.Raw("}(").Text("epoch").Integer(3);
  for (const std::string& key : keys) {
    pickle.Text(key).Raw("}(");
    pickle.Text("fc.weight").Tensor("Float", "0", 4, 0, {2, 2}, {2, 1}).Raw("u");
  }
  return TorchZip(pickle.Raw("u").Stop(), {{"0", Two()[0].bytes}});
}

std::string KeyOf(const std::string& bytes, const std::string& key = "") {
  const TempDir temp;
  return OpenStateDict(temp.Write("m.pth", bytes), key)->key();
}

class TorchFile : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#ifndef CREMA_HAVE_ZIP
    if (!GetParam()) GTEST_SKIP() << "this build has no minizip";
#endif
  }
  static std::string File(const std::vector<TorchTensor>& tensors) {
    return GetParam() ? OldTorchFile(tensors) : TorchZip(tensors);
  }
};

INSTANTIATE_TEST_SUITE_P(Formats, TorchFile, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Old" : "Zip"; });

TEST_P(TorchFile, NamesTypesShapesAndValues) {
  const TempDir temp;
  const auto file = OpenStateDict(temp.Write("m.pth", File(Two())));
  ASSERT_EQ(file->entries().size(), 2U);
  EXPECT_EQ(file->entries()[0].name, "fc.weight");
  EXPECT_EQ(file->entries()[0].shape, (Shape{2, 2}));
  EXPECT_EQ(file->entries()[1].type, ElementType::kF64);
  EXPECT_EQ(test::ValuesOf(file->Read(1).view()), (std::vector<float>{0.5F, -1}));
  EXPECT_EQ(test::ValuesOf(file->Read(0).view()), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(file->key(), "");
}

TEST_P(TorchFile, TruncatedAnywhere) {
  const std::string whole = File(Two());
  const TempDir temp;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW(
        {
          const auto file = OpenStateDict(temp.Write("m.pth", whole.substr(0, size)));
          for (size_t i = 0; i < file->entries().size(); ++i) file->Read(i);
        },
        Error)
        << size;
  }
}

#ifdef CREMA_HAVE_ZIP

// minizip compares the two lists of sizes only without data descriptors (a flag), which torch
// writes.
TEST(TorchZip, SizesInTheListOfContents) {
  const std::string whole = TorchZip(Two());
  const TempDir temp;
  for (const bool descriptor : {false, true}) {
    for (const size_t field : {20, 24}) {
      for (size_t at = whole.find("PK\x01\x02"); at != std::string::npos;
           at = whole.find("PK\x01\x02", at + 1)) {
        for (const int change : {-1, 1, 64}) {
          std::string altered = whole;
          if (descriptor) altered[at + 8] = 8;
          altered[at + field] = static_cast<char>(altered[at + field] + change);
          EXPECT_THROW(
              {
                const auto file = OpenStateDict(temp.Write("m.pth", altered));
                for (size_t i = 0; i < file->entries().size(); ++i) file->Read(i);
              },
              Error)
              << at << " " << field << " " << change << " " << descriptor;
        }
      }
    }
  }
}

TEST(TorchZip, StridesAndOffsetsOfOneStorage) {
  PickleWriter pickle;
  pickle.Raw("}(");
  pickle.Text("transposed").Tensor("Float", "0", 6, 0, {3, 2}, {1, 3});
  pickle.Text("part").Tensor("Float", "0", 6, 4, {2}, {1});
  pickle.Text("scalar").Tensor("Float", "0", 6, 5, {}, {});
  const std::string file =
      TorchZip(pickle.Raw("u").Stop(), {{"0", BytesOf<float>({0, 1, 2, 3, 4, 5})}});
  EXPECT_EQ(StateValues(file, 0), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(StateValues(file, 1), (std::vector<float>{4, 5}));
  EXPECT_EQ(StateValues(file, 2), (std::vector<float>{5}));
}

TEST(TorchZip, TheStateDictOfACheckpointIsFound) {
  EXPECT_EQ(KeyOf(Checkpoint({"state_dict"})), "state_dict");
  EXPECT_EQ(KeyOf(Checkpoint({"optimizer", "ema", "model"})), "model");
  EXPECT_EQ(KeyOf(Checkpoint({"optimizer", "generator"})), "generator");
  EXPECT_EQ(KeyOf(Checkpoint({"encoder", "decoder"}), "decoder"), "decoder");
  EXPECT_EQ(StateDictError(Checkpoint({"encoder", "decoder"}),
                           "several state dicts: 'encoder' with 1 tensors, 'decoder' with 1"),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(StateDictError(Checkpoint({"encoder", "decoder"}), "did you mean 'decoder'", "decodr"),
            ErrorCode::kInvalidArgument);
  const TempDir temp;
  const std::string path = temp.Write("m.pth", Checkpoint({"encoder", "decoder"}));
  const auto all = OpenStateDict(path, ".");
  ASSERT_EQ(all->entries().size(), 2U);
  EXPECT_EQ(all->entries()[1].name, "decoder.fc.weight");
}

TEST(TorchZip, OtherThingsThanStateDicts) {
  const auto file = [](const std::string& pickle) { return TorchZip(pickle, {{"0", ""}}); };
  EXPECT_EQ(StateDictError(file(PickleWriter().Raw("]").Stop()), "no state dict"),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(StateDictError(file(PickleWriter().Raw("}").Stop()), "holds no tensors"),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(StateDictError(file(PickleWriter().Tensor("Float", "0", 0, 0, {0}, {1}).Stop()),
                           "a tensor without a name"),
            ErrorCode::kInvalidArgument);
  // A whole module.
  EXPECT_EQ(StateDictError(file(PickleWriter().Global("my.models", "Net").Raw(")\x81").Stop()),
                           "archive/data.pkl: refused at byte 2: it asks for my.models.Net"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(
      StateDictError(test::ZipOf({{"m/data.pkl", "x"}, {"m/constants.pkl", "x"}}), "TorchScript"),
      ErrorCode::kUnsupported);
  EXPECT_EQ(StateDictError(test::ZipOf({{"readme.txt", "x"}}), "has no data.pkl"),
            ErrorCode::kDataLoss);
  EXPECT_EQ(
      StateDictError(test::ZipOf({{"m/data.pkl", "x"}, {"m/byteorder", "big"}}), "big-endian"),
      ErrorCode::kUnsupported);
}

TEST(TorchZip, DictsWithinThemselvesAndDeepOnes) {
  // A dict that holds itself under a second key is found once.
  const std::string cycle = TorchZip(PickleWriter()
                                         .Raw("}q\x01(")
                                         .Text("self")
                                         .Raw("h\x01")
                                         .Text("w")
                                         .Tensor("Float", "0", 4, 0, {4}, {1})
                                         .Raw("u")
                                         .Stop(),
                                     {{"0", Two()[0].bytes}});
  EXPECT_EQ(StateValues(cycle), (std::vector<float>{1, 2, 3, 4}));
  PickleWriter deep;
  for (int i = 0; i < 100; ++i) deep.Raw("}").Text("x");
  deep.Tensor("Float", "0", 4, 0, {4}, {1});
  for (int i = 0; i < 100; ++i) deep.Raw("s");
  EXPECT_EQ(StateDictError(TorchZip(deep.Stop(), {{"0", Two()[0].bytes}}), "deeper than 32"),
            ErrorCode::kInvalidArgument);
  const std::string key(5000, 'k');
  EXPECT_EQ(StateDictError(TorchZip(PickleWriter()
                                        .Raw("}")
                                        .Text(key)
                                        .Tensor("Float", "0", 4, 0, {4}, {1})
                                        .Raw("s")
                                        .Stop(),
                                    {{"0", Two()[0].bytes}}),
                           "more than 1024 bytes"),
            ErrorCode::kInvalidArgument);
}

TEST(TorchZip, StoragesMissingShortAlteredOrCompressed) {
  const std::string pickle = test::StateDictPickle({Two()[0]});
  EXPECT_EQ(
      StateDictError(TorchZip(pickle, {{"1", Two()[0].bytes}}), "no elements for storage '0'"),
      ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(TorchZip(pickle, {{"0", "short"}}), "has 5 bytes"),
            ErrorCode::kDataLoss);
  std::string altered = TorchZip(pickle, {{"0", Two()[0].bytes}});
  altered[altered.find(Two()[0].bytes)] ^= 1;
  EXPECT_EQ(StateDictError(altered, "'archive/data/0' is altered"), ErrorCode::kDataLoss);
  // The list says that data/0 unpacks to 3 GiB.
  std::string bomb = TorchZip(pickle, {{"0", Two()[0].bytes}});
  const size_t entry = bomb.rfind("archive/data/0") - 46;
  bomb.replace(entry + 24, 4, std::string("\x00\x00\x00\xC0", 4));
  EXPECT_EQ(StateDictError(bomb, "'archive/data/0' has two sizes"), ErrorCode::kDataLoss);
  bomb[entry + 10] = 8;  // deflated
  EXPECT_EQ(StateDictError(bomb, "is compressed"), ErrorCode::kUnsupported);
  std::string twice = TorchZip(pickle, {{"0", Two()[0].bytes}, {"0", Two()[0].bytes}});
  EXPECT_EQ(StateDictError(twice, "twice"), ErrorCode::kDataLoss);
}

#endif

TEST(OldTorchFile, Damaged) {
  const std::string whole = OldTorchFile(Two());
  std::string version = whole;
  version.replace(version.find("J\xE9\x03"), 2, "J\xEA");
  EXPECT_EQ(StateDictError(version, "its version is not 1001"), ErrorCode::kDataLoss);
  std::string order = whole;
  order.replace(order.find("\x88u."), 1, "\x89");
  EXPECT_EQ(StateDictError(order, "big-endian"), ErrorCode::kUnsupported);
  std::string count = whole;
  count[whole.size() - Two()[1].bytes.size() - 8] = 3;
  EXPECT_EQ(StateDictError(count, "of 2 elements is cut off"), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace crema
