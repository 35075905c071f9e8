// The small file formats of the commands.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/csv.h"
#include "data/image/png.h"
#ifdef CREMA_HAVE_OPENCV
#include "data/image/image.h"
#endif

namespace crema {
namespace {

using tools::CsvLine;
using tools::ParseCsv;
using Table = std::vector<std::vector<std::string>>;

TEST(Csv, ReadsWhatItWrote) {
  const Table table = {{"a", "", "b,c"}, {"say \"x\"", "two\nlines", "ü"}, {"", "1", ""}};
  std::string text;
  for (const std::vector<std::string>& line : table) text += CsvLine(line);
  EXPECT_EQ(ParseCsv(text), table);
  EXPECT_EQ(CsvLine({"a", "b,c", "\""}), "a,\"b,c\",\"\"\"\"\n");
}

TEST(Csv, ReadsWhatOthersWrote) {
  EXPECT_EQ(ParseCsv("a,b\r\n\r\n1,2"), (Table{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(ParseCsv("\"open,\n"), (Table{{"open,\n"}}));
  EXPECT_EQ(ParseCsv(""), Table{});
}

TEST(Csv, NumbersThatAreNone) {
  EXPECT_EQ(tools::CsvNumber(0.5), "0.5");
  EXPECT_EQ(tools::CsvNumber(0.0 / 0.0), "");
}

#ifdef CREMA_HAVE_OPENCV
TEST(Png, OthersReadIt) {
  for (const int channels : {1, 3}) {
    Picture picture{.width = 5, .height = 3, .channels = channels, .pixels = {}};
    for (int i = 0; i < 15 * channels; ++i) picture.pixels.push_back(static_cast<uint8_t>(i * 5));
    Image image;
    DecodeImage(EncodePng(picture), ColorMode::kAsStored, "test", &image);
    ASSERT_EQ(image.channels, channels);
    ASSERT_EQ(image.height, 3);
    ASSERT_EQ(image.width, 5);
    for (size_t at = 0; at < 15; ++at) {
      for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
        const size_t plane = static_cast<size_t>(channels) - 1 - c;  // blue first
        EXPECT_EQ(image.pixels[plane * 15 + at],
                  picture.pixels[at * static_cast<size_t>(channels) + c]);
      }
    }
  }
}
#endif

}  // namespace
}  // namespace crema
