// Reads and writes safetensors byte by byte.
#include "format/safetensors.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "format/state_dict.h"
#include "format/state_dict_errors.h"
#include "support/torch_files.h"

namespace crema {
namespace {

using test::BytesOf;
using test::StateDictError;
using test::StateValues;
using test::TempDir;

std::string SafetensorsFile(const std::string& header, const std::string& elements) {
  return BytesOf<uint64_t>({header.size()}) + header + elements;
}

std::string Entry(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& range) {
  return StrCat("\"", name, R"(":{"dtype":")", type, R"(","shape":)", shape, R"(,"data_offsets":)",
                range, "}");
}

TEST(Safetensors, BytesOfPythonsLibrary) {
  // safetensors.numpy.save({"a": float32 [[1.5, -2]], "b": int64 [3]}), release 0.8.
  const std::string header = R"({"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
                             R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}})";
  const TempDir temp;
  const std::string path = temp.Write(
      "m.safetensors",
      SafetensorsFile(header + "  ", BytesOf<int64_t>({3}) + BytesOf<float>({1.5F, -2})));
  const auto file = OpenStateDict(path);
  ASSERT_EQ(file->entries().size(), 2U);
  EXPECT_EQ(file->entries()[0].name, "b");
  EXPECT_EQ(file->entries()[0].type, ElementType::kI64);
  EXPECT_EQ(file->entries()[1].shape, (Shape{1, 2}));
  EXPECT_EQ(test::ValuesOf(file->Read(0).view()), std::vector<float>{3});
  EXPECT_EQ(test::ValuesOf(file->Read(1).view()), (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(file->Read(1).dtype(), DType::kF32);
}

TEST(Safetensors, EveryElementTypeBecomesF32) {
  const auto read = [](const std::string& type, const std::string& bytes) {
    return StateValues(SafetensorsFile(
        "{" + Entry("x", type, "[1]", StrCat("[0,", bytes.size(), "]")) + "}", bytes))[0];
  };
  EXPECT_EQ(read("F64", BytesOf<double>({0.1})), 0.1F);
  EXPECT_EQ(read("F16", BytesOf<uint16_t>({0xC100})), -2.5F);
  EXPECT_EQ(read("F16", BytesOf<uint16_t>({0x0001})), 0x1p-24F) << "a subnormal";
  EXPECT_EQ(read("BF16", BytesOf<uint16_t>({0xC020})), -2.5F);
  EXPECT_EQ(read("I64", BytesOf<int64_t>({-7})), -7);
  EXPECT_EQ(read("I32", BytesOf<int32_t>({-7})), -7);
  EXPECT_EQ(read("I16", BytesOf<int16_t>({-7})), -7);
  EXPECT_EQ(read("I8", BytesOf<int8_t>({-7})), -7);
  EXPECT_EQ(read("U64", BytesOf<uint64_t>({7})), 7);
  EXPECT_EQ(read("U32", BytesOf<uint32_t>({0xFFFFFFFF})), 0x1p32F);
  EXPECT_EQ(read("U16", BytesOf<uint16_t>({65535})), 65535);
  EXPECT_EQ(read("U8", BytesOf<uint8_t>({200})), 200);
  EXPECT_EQ(read("BOOL", BytesOf<uint8_t>({1})), 1);
  EXPECT_EQ(StateDictError(SafetensorsFile("{" + Entry("x", "F8_E4M3", "[1]", "[0,1]") + "}", "a"),
                           "'x' has elements of type F8_E4M3"),
            ErrorCode::kUnsupported);
}

TEST(Safetensors, RangesThatOverlapLeaveGapsOrTheFile) {
  const std::string eight = BytesOf<float>({1, 2});
  const auto two = [&](const std::string& a, const std::string& b) {
    return SafetensorsFile(
        "{" + Entry("a", "F32", "[1]", a) + "," + Entry("b", "F32", "[1]", b) + "}", eight);
  };
  EXPECT_EQ(StateValues(two("[4,8]", "[0,4]")), std::vector<float>{2});
  EXPECT_EQ(StateDictError(two("[0,4]", "[0,4]"), "'b' is at bytes 0 to 4, where another tensor"),
            ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(two("[0,4]", "[2,6]"), "where another tensor is"), ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(two("[0,4]", "[8,12]"), "and 8 follow the header"),
            ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(two("[0,4]", "[8,4]"), "'b' is at bytes 8 to 4"), ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(two("[0,4]", "[0,8]"), "asks for 4 bytes"), ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(two("[0,4]", "[-4,0]"), "negative"), ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError(two("[0,4]", "[18446744073709551612,0]"), "too large"),
            ErrorCode::kDataLoss);
  const std::string one = "{" + Entry("a", "F32", "[1]", "[0,4]") + "}";
  EXPECT_EQ(StateDictError(SafetensorsFile(one, eight), "end at byte 4 of 8"),
            ErrorCode::kDataLoss);
  const std::string gap = "{" + Entry("a", "F32", "[1]", "[4,8]") + "}";
  EXPECT_EQ(StateDictError(SafetensorsFile(gap, eight), "belong to no tensor"),
            ErrorCode::kDataLoss);
}

TEST(Safetensors, HostileHeaders) {
  const std::string four = BytesOf<float>({1});
  const std::string good = "{" + Entry("a", "F32", "[1]", "[0,4]") + "}";
  const std::string whole = SafetensorsFile(good, four);
  EXPECT_EQ(StateValues(whole), std::vector<float>{1});
  for (size_t size = 0; size < whole.size(); ++size) {
    const TempDir temp;
    const std::string path = temp.Write("m.safetensors", whole.substr(0, size));
    EXPECT_THROW(OpenStateDict(path), Error) << size;
    EXPECT_THROW(OpenSafetensors(path), Error) << size;
  }
  const auto bad = [&](const std::string& header, const std::string& part) {
    EXPECT_EQ(StateDictError(SafetensorsFile(header, four), part), ErrorCode::kDataLoss) << header;
  };
  bad("{" + Entry("a", "F32", "[1]", "[0,4]") + "," + Entry("a", "F32", "[0]", "[4,4]") + "}",
      "names 'a' twice");
  bad("{" + Entry("a", "F32", "[1]", "[0,4]") + "} {", "text after it");
  bad("{" + Entry("a", "F32", "[1]", "[0]") + "}", "no pair");
  bad("{" + Entry("a", "F32", "[1]", "[0,4,8]") + "}", "too long");
  bad("{" + Entry("a", "F32", "[4294967296,4294967296]", "[0,4]") + "}", "the shape of 'a'");
  bad("{" + Entry("a", "F32", "[1e3]", "[0,4]") + "}", "missing");
  bad(R"({"a":{"dtype":"F32","shape":[1]}})", "lacks one of");
  bad(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "twice");
  bad(R"({"a":{"type":"F32","shape":[1],"data_offsets":[0,4]}})", "unknown key 'type'");
  bad(R"({"a":{"dtype":"F32","shape":{},"data_offsets":[0,4]}})", "'[' is missing");
  bad(R"({"\uD800":1})", "surrogate");
  bad(R"({"\x":1})", "unknown escape");
  bad(R"({"a)", "ends in a string");
  bad(std::string(1000, '{'), "'\"' is missing");
  std::string axes = "[1";
  for (int i = 0; i < 40; ++i) axes += ",1";
  bad("{" + Entry("a", "F32", axes + "]", "[0,4]") + "}", "too long");
}

TEST(Safetensors, NamesMayHaveEscapes) {
  const TempDir temp;
  const std::string header = "{" + Entry(R"(\u00e9\ud83d\ude00\"\\\n)", "F32", "[]", "[0,4]") + "}";
  const auto file =
      OpenStateDict(temp.Write("m.safetensors", SafetensorsFile(header, BytesOf<float>({1}))));
  EXPECT_EQ(file->entries()[0].name, "\xC3\xA9\xF0\x9F\x98\x80\"\\\n");
  EXPECT_EQ(file->entries()[0].shape.axes(), 0);
}

TEST(Safetensors, WrittenAndBack) {
  Tensor a({2, 3}, DType::kF32);
  for (int i = 0; i < 6; ++i) a.view().data<float>()[i] = static_cast<float>(i) / 4;
  Tensor none({0, 4}, DType::kF32);
  const TempDir temp;
  const std::vector<NamedArrayView> arrays = {{"b \"quoted\".weight", a.view()},
                                              {"none", none.view()}};
  WriteSafetensors(temp.File("m.safetensors"), arrays);
  const std::string bytes = temp.Read("m.safetensors");
  EXPECT_EQ(bytes.size() % 8, 0U);
  EXPECT_NE(bytes.find(R"("__metadata__":{"format":"pt"})"), std::string::npos);
  const auto file = OpenStateDict(temp.File("m.safetensors"));
  ASSERT_EQ(file->entries().size(), 2U);
  EXPECT_EQ(file->entries()[0].name, "b \"quoted\".weight");
  EXPECT_EQ(test::ValuesOf(file->Read(0).view()), test::ValuesOf(a.view()));
  EXPECT_EQ(file->entries()[1].shape, (Shape{0, 4}));
  WriteSafetensors(temp.File("m.safetensors"), arrays);
  EXPECT_EQ(temp.Read("m.safetensors"), bytes) << "no times in it";
  const std::vector<NamedArrayView> twice = {{"a", a.view()}, {"a", a.view()}};
  EXPECT_THROW(WriteSafetensors(temp.File("x.safetensors"), twice), Error);
  EXPECT_EQ(temp.FileCount(), 1U);
}

TEST(Safetensors, OtherFilesAreNamed) {
  EXPECT_EQ(StateDictError("layer { }", "is a text file"), ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError("", "is empty"), ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError("version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
            ErrorCode::kDataLoss);
  EXPECT_EQ(StateDictError("\x80\x04\x95", "not of torch.save"), ErrorCode::kUnsupported);
  EXPECT_EQ(StateDictError(SafetensorsFile("{}", ""), "leave --key out", "model"),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace crema
