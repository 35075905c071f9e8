// Reads NumPy's files byte by byte, and refuses others.
#include "format/npy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "core/error.h"
#include "core/strings.h"
#include "format/tensor_files.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;

// Like numpy.save: pads the header with spaces to a multiple of 64.
std::string NpyFile(const std::string& descr, const std::string& order, const std::string& shape,
                    const std::string& values, int version = 1) {
  std::string header =
      StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }");
  const size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY");
  file += static_cast<char>(version);
  file += '\0';
  for (size_t i = 0, n = header.size(); i < prefix - 8; ++i, n >>= 8) {
    file += static_cast<char>(n & 0xFF);
  }
  return file + header + values;
}

template <typename T>
std::string Bytes(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

std::vector<float> FloatsOf(const std::string& file) {
  const Tensor tensor = ParseNpy(file, "x.npy");
  return test::ValuesOf(tensor.view());
}

ErrorCode CodeOf(const std::string& file, const std::string& part) {
  try {
    ParseNpy(file, "x.npy");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("x.npy"), 0U) << error.what();
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown, but '" << part << "' should be";
  return ErrorCode::kInternal;
}

TEST(Npy, WhatNumPyWrites) {
  // numpy.save of numpy.array([1.5, -2], 'float32'), the bytes of release 2.4.
  const std::string file = std::string("\x93NUMPY\x01\x00v\x00", 10) +
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" +
                           std::string(60, ' ') + "\n" +
                           std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);
  ASSERT_EQ(file.size(), 136U);
  EXPECT_EQ(FloatsOf(file), (std::vector<float>{1.5F, -2}));
  const Tensor tensor = ParseNpy(file, "x.npy");
  EXPECT_EQ(FormatNpy(tensor.view()), file) << "and we write the same bytes";
}

TEST(Npy, TypesVersionsAndScalars) {
  EXPECT_EQ(ParseNpy(NpyFile("'<f8'", "False", "(1,)", Bytes({2.5})), "x").view().data<double>()[0],
            2.5);
  EXPECT_EQ(ParseNpy(NpyFile("'<i8'", "False", "(1,)", Bytes({int64_t{7}})), "x").dtype(),
            DType::kI64);
  EXPECT_EQ(ParseNpy(NpyFile("'|b1'", "False", "(2,)", "\x01\x01"), "x").dtype(), DType::kU8);
  const Tensor scalar = ParseNpy(NpyFile("'<f4'", "False", "()", Bytes({3.0F})), "x");
  EXPECT_EQ(scalar.shape().axes(), 0);
  EXPECT_EQ(ParseNpy(NpyFile("'<f4'", "False", "(0, 3)", ""), "x").shape().count(), 0);
  for (const int version : {2, 3}) {
    EXPECT_EQ(FloatsOf(NpyFile("'<f4'", "False", "(1, 1)", Bytes({4.0F}), version)),
              std::vector<float>{4});
  }
}

TEST(Npy, FortranOrderAndBigEndianAreTurned) {
  // [[0, 1, 2], [3, 4, 5]], column by column.
  const std::string columns = Bytes({0.0F, 3.0F, 1.0F, 4.0F, 2.0F, 5.0F});
  EXPECT_EQ(FloatsOf(NpyFile("'<f4'", "True", "(2, 3)", columns)),
            (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(FloatsOf(NpyFile("'>f4'", "False", "(1,)", std::string("\x3f\x80\x00\x00", 4))),
            std::vector<float>{1});
  EXPECT_EQ(FloatsOf(NpyFile("'>f4'", "True", "(1, 2)",
                             std::string("\x3f\x80\x00\x00\x40\x00\x00\x00", 8))),
            (std::vector<float>{1, 2}));
}

TEST(Npy, HostileHeaders) {
  const std::string two = Bytes({1.0F, 2.0F});
  const std::string good = NpyFile("'<f4'", "False", "(2,)", two);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(CodeOf(good.substr(0, size), ""), ErrorCode::kDataLoss) << size;
  }
  EXPECT_EQ(CodeOf(good + "x", "9 are there"), ErrorCode::kDataLoss);
  const auto shape = [&](const std::string& text) { return NpyFile("'<f4'", "False", text, two); };
  EXPECT_EQ(CodeOf(shape("(99999999999999999999,)"), "not a dimension"), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(shape("(4294967296, 4294967296)"), ""), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(shape("(-1, -2)"), "not a dimension"), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(shape("(2147483647,)"), "asks for 8589934588 bytes"), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(shape("(2"), ""), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(shape("(1, 1, " + std::string(200, '1') + ")"), ""), ErrorCode::kDataLoss);
  std::string axes = "(";
  for (int i = 0; i < 40; ++i) axes += "1, ";
  EXPECT_EQ(CodeOf(shape(axes + ")"), "more than 32 axes"), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(NpyFile("'<f4'", "Maybe", "(2,)", two), "no bool"), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(NpyFile("<f4", "False", "(2,)", two), ""), ErrorCode::kDataLoss);
  EXPECT_EQ(CodeOf(NpyFile("'<f4', 'descr': '<f4'", "False", "(2,)", two), "twice"),
            ErrorCode::kDataLoss);
  std::string version = good;
  version[6] = 9;
  EXPECT_EQ(CodeOf(version, "of version 9"), ErrorCode::kDataLoss);
  std::string length = good;
  length[9] = '\x7F';
  EXPECT_EQ(CodeOf(length, "cut off"), ErrorCode::kDataLoss);
}

TEST(Npy, OtherElementsAreRefusedAndNeverRun) {
  EXPECT_EQ(CodeOf(NpyFile("'|O'", "False", "(1,)", "cos\nsystem\n"), "Python objects"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(NpyFile("'<U3'", "False", "(1,)", "abc"), "'<U3'"), ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(NpyFile("'<c8'", "False", "(1,)", "12345678"), "astype"),
            ErrorCode::kUnsupported);
  EXPECT_EQ(CodeOf(NpyFile("[('a', '<f4')]", "False", "(1,)", "1234"), "records"),
            ErrorCode::kUnsupported);
}

class ArrayFiles : public ::testing::Test {
 protected:
  static Tensor Counting(const Shape& shape) {
    Tensor tensor(shape, DType::kF32);
    float next = 0.5F;
    for (float& value : tensor.view().span<float>()) value = next++;
    return tensor;
  }

  void ExpectBack(const std::string& path) const {
    WriteArrays(path, std::vector<NamedArrayView>{{"a", a_.view()}, {"b", b_.view()}});
    const std::vector<NamedArray> back = ReadArrays(path);
    ASSERT_EQ(back.size(), 2U);
    EXPECT_EQ(back[0].name, "a");
    EXPECT_EQ(back[1].name, "b");
    EXPECT_EQ(back[1].value.shape(), (Shape{3}));
    EXPECT_EQ(test::ValuesOf(back[0].value.view()), test::ValuesOf(a_.view()));
  }

  void ExpectDamaged(const std::string& path) const {
    try {
      ReadArrays(path);
      ADD_FAILURE() << path << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
    }
  }

  TempDir temp_;
  const Tensor a_ = Counting({2, 3, 2});
  const Tensor b_ = Counting({3});
};

TEST_F(ArrayFiles, NpzAndBack) {
#ifndef CREMA_HAVE_ZIP
  GTEST_SKIP() << "this build has no minizip";
#endif
  ExpectBack(temp_.File("x.npz"));
  const std::string first = temp_.Read("x.npz");
  ExpectBack(temp_.File("x.npz"));
  EXPECT_EQ(temp_.Read("x.npz"), first) << "no times in it";
  EXPECT_EQ(temp_.FileCount(), 1U);
}

TEST_F(ArrayFiles, DamagedNpz) {
#ifndef CREMA_HAVE_ZIP
  GTEST_SKIP() << "this build has no minizip";
#endif
  WriteArrays(temp_.File("x.npz"), std::vector<NamedArrayView>{{"a", a_.view()}});
  const std::string good = temp_.Read("x.npz");
  for (size_t size = 1; size < good.size(); size += 7) {
    ExpectDamaged(temp_.Write("cut.npz", good.substr(0, size)));
  }
  std::string altered = good;
  altered[good.find("\x93NUMPY") + 128] ^= 1;  // of the values
  ExpectDamaged(temp_.Write("altered.npz", altered));
  // The central directory says that an entry unpacks to 3 GiB.
  std::string bomb = good;
  const size_t entry = bomb.find("PK\x01\x02");
  ASSERT_NE(entry, std::string::npos);
  bomb.replace(entry + 24, 4, std::string("\x00\x00\x00\xC0", 4));
  ExpectDamaged(temp_.Write("bomb.npz", bomb));
  std::string named = good;
  for (size_t at = named.find("a.npy"); at != std::string::npos; at = named.find("a.npy", at + 1)) {
    named.replace(at, 5, "a.exe");
  }
  ExpectDamaged(temp_.Write("named.npz", named));
}

TEST_F(ArrayFiles, NamesThatAreNotWantedAreNotRead) {
#ifndef CREMA_HAVE_ZIP
  GTEST_SKIP() << "this build has no minizip";
#endif
  const std::string path = temp_.File("x.npz");
  WriteArrays(path, std::vector<NamedArrayView>{{"a", a_.view()}, {"b", b_.view()}});
  std::string bytes = temp_.Read("x.npz");
  bytes.replace(bytes.rfind("<f4"), 3, "|O8");
  temp_.Write("x.npz", bytes);
  EXPECT_EQ(ArrayNames(path), (std::vector<std::string>{"a", "b"}));
  const std::string wanted = "a";
  const std::vector<NamedArray> read = ReadArrays(path, std::span(&wanted, 1));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(test::ValuesOf(read[0].value.view()), test::ValuesOf(a_.view()));
  EXPECT_THROW(ReadArrays(path), Error);
}

TEST_F(ArrayFiles, HeadersInNpzAreCheckedBeforeValuesAreUnpacked) {
#ifndef CREMA_HAVE_ZIP
  GTEST_SKIP() << "this build has no minizip";
#endif
  WriteArrays(temp_.File("x.npz"), std::vector<NamedArrayView>{{"a", a_.view()}});
  std::string bytes = temp_.Read("x.npz");
  bytes.replace(bytes.find("(2, 3"), 5, "(9, 3");
  temp_.Write("x.npz", bytes);
  try {
    ReadArrays(temp_.File("x.npz"));
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("asks for 216 bytes, and 48 are there"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(ArrayFiles, Hdf5AndBack) {
#ifndef CREMA_HAVE_HDF5
  GTEST_SKIP() << "this build has no HDF5";
#endif
  ExpectBack(temp_.File("x.h5"));
  EXPECT_EQ(ArrayNames(temp_.File("x.h5")), (std::vector<std::string>{"a", "b"}));
  const std::string wanted = "b";
  EXPECT_EQ(ReadArrays(temp_.File("x.h5"), std::span(&wanted, 1)).size(), 1U);
  ExpectDamaged(temp_.Write("cut.h5", temp_.Read("x.h5").substr(0, 900)));
  try {
    ReadArrays(temp_.File("none.h5"));
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
  }
}

TEST_F(ArrayFiles, NpyHoldsOne) {
  WriteArrays(temp_.File("x.npy"), std::vector<NamedArrayView>{{"a", a_.view()}});
  EXPECT_EQ(test::ValuesOf(ReadArrays(temp_.File("x.npy"))[0].value.view()),
            test::ValuesOf(a_.view()));
  EXPECT_THROW(CheckArraysPath("x.npy", 2), Error);
  EXPECT_THROW(CheckArraysPath("x.txt", 1), Error);
  EXPECT_THROW(ReadArrays(temp_.File("none.npz")), Error);
}

}  // namespace
}  // namespace crema
