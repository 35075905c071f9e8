#include "data/records/datum.h"

#include <gtest/gtest.h>

#include <string>

#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/record_sets.h"

namespace crema {
namespace {

using testing::Bytes;
using testing::ExpectError;

Datum Raw(int channels, int height, int width, std::string pixels) {
  Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_data(std::move(pixels));
  return datum;
}

TEST(DatumReader, RawPixelsComeAsTheyAre) {
  Datum datum = Raw(2, 1, 3, "abcdef");
  datum.set_label(7);
  const std::string value = datum.SerializeAsString();
  DatumReader reader("set");
  const PixelView view = reader.Read("k", value);
  EXPECT_EQ(view.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.bytes), 6), "abcdef");
  EXPECT_EQ(view.floats, nullptr);
  EXPECT_EQ(reader.label(), 7);
}

TEST(DatumReader, FloatsAreUsedWhenThereAreNoBytes) {
  Datum datum = Raw(1, 1, 2, "");
  datum.add_float_data(-1.5f);
  datum.add_float_data(300);
  DatumReader reader("set");
  const PixelView view = reader.Read("k", datum.SerializeAsString());
  EXPECT_EQ(view.bytes, nullptr);
  EXPECT_EQ(view.floats[0], -1.5f);
  EXPECT_EQ(view.floats[1], 300.0f);
}

TEST(DatumReader, DamagedRecordsNameSetAndKey) {
  DatumReader reader("train_lmdb");
  ExpectError(ErrorCode::kDataLoss, "record \"00000012\" of 'train_lmdb' is not a Datum",
              [&] { reader.Read("00000012", "\xFF\xFF\xFF"); });
  ExpectError(ErrorCode::kDataLoss, "\\x00k", [&] { reader.Read({"\0k", 2}, "\xFF"); });
  ExpectError(ErrorCode::kDataLoss, "its size is 0x0x0", [&] { reader.Read("k", ""); });
  ExpectError(ErrorCode::kDataLoss, "says 1x2x3 but holds 5 bytes",
              [&] { reader.Read("k", Raw(1, 2, 3, "abcde").SerializeAsString()); });
  ExpectError(ErrorCode::kDataLoss, "but holds 0 floats",
              [&] { reader.Read("k", Raw(1, 2, 3, "").SerializeAsString()); });
  ExpectError(ErrorCode::kDataLoss, "its size is -1x2x3",
              [&] { reader.Read("k", Raw(-1, 2, 3, "abcdef").SerializeAsString()); });
  const int big = 1 << 30;  // the product overflows 64 bits
  ExpectError(ErrorCode::kDataLoss, "but holds 4 bytes",
              [&] { reader.Read("k", Raw(big, big, big, "abcd").SerializeAsString()); });
}

#ifndef CREMA_HAVE_OPENCV
TEST(DatumReader, EncodedRecordsNeedOpenCv) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data("x");
  DatumReader reader("set");
  ExpectError(ErrorCode::kUnsupported, "CREMA_OPENCV=ON",
              [&] { reader.Read("k", datum.SerializeAsString()); });
}
#endif

TEST(FindTruncation, JpegNeedsItsOwnEndMarker) {
  // Start, a segment with an end marker (a thumbnail), a scan with stuffing and a restart.
  const std::string whole = Bytes({0xFF, 0xD8, 0xFF, 0xE0, 0, 4,    0xFF, 0xD9, 0xFF, 0xDA, 0,
                                   2,    1,    0xFF, 0,    2, 0xFF, 0xD0, 3,    0xFF, 0xD9});
  EXPECT_EQ(FindTruncation(whole), "");
  EXPECT_EQ(FindTruncation(whole + "trailing"), "");
  for (size_t bytes = 3; bytes < whole.size(); ++bytes) {
    EXPECT_NE(FindTruncation(whole.substr(0, bytes)), "") << bytes;
  }
}

TEST(FindTruncation, SaysNothingAboutOtherFiles) {
  EXPECT_EQ(FindTruncation(""), "");
  EXPECT_EQ(FindTruncation("BM and so on"), "");
}

}  // namespace
}  // namespace crema
