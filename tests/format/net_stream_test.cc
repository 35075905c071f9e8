// Weights files of any size.
#include "format/net_stream.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::TempDir;

StreamedNet Stream(const std::string& path) {
  const RandomFile file(path);
  return StreamNet(file, {0, file.size()});
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Tag, size and contents of a field; `more` further bytes of it follow.
std::string Field(int number, const std::string& contents, uint64_t more = 0) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(contents.size() + more) + contents;
}

// Start of a layer with one blob of `count` floats, which follow.
std::string LayerHead(const std::string& name, uint64_t count) {
  const std::string shape = Field(7, Field(1, Varint(count)));
  const std::string values = Field(5, "", 4 * count);
  const std::string blob = Field(7, shape + values, 4 * count);
  return Field(NetParameter::kLayerFieldNumber, Field(1, name) + blob, 4 * count);
}

TEST(NetStream, FieldsAroundTheLayersAreKept) {
  const TempDir folder;
  NetParameter net;
  net.set_name("n");
  net.add_layer()->set_name("a");
  net.add_layer()->set_name("b");
  NetParameter rest;
  rest.set_force_backward(true);
  rest.add_input("x");
  const StreamedNet read =
      Stream(folder.Write("f", net.SerializeAsString() + rest.SerializeAsString()));
  EXPECT_EQ(read.damage, "");
  net.MergeFrom(rest);
  EXPECT_EQ(read.net.SerializeAsString(), net.SerializeAsString());
}

TEST(NetStream, TruncationNamesTheLayerOfEveryFormat) {
  const TempDir folder;
  NetParameter v1;
  v1.add_layers()->set_name("first");
  v1.add_layers()->set_name("second");
  v1.mutable_layers(1)->add_blobs()->add_data(1);
  std::string bytes = v1.SerializeAsString();
  bytes.pop_back();
  EXPECT_TRUE(Contains(Stream(folder.Write("f", bytes)).damage,
                       "is truncated within layer \"second\": it has"));
  NetParameter v0;
  v0.add_layers()->mutable_layer()->set_name("old");
  v0.mutable_layers(0)->mutable_layer()->add_blobs()->add_data(1);
  bytes = v0.SerializeAsString();
  bytes.pop_back();
  EXPECT_TRUE(Contains(Stream(folder.Write("f", bytes)).damage, "within layer \"old\""));
  EXPECT_TRUE(Contains(Stream(folder.Write("f", "\xA2\x06")).damage, "before the first layer"));
}

TEST(NetStream, InvalidMessagesAreDamage) {
  const TempDir folder;
  for (const std::string& bytes : {
           std::string("\x0B\x0C"),                // a group
           std::string(20, '\xFF'),                // a number without end
           std::string("\x00\x01", 2),             // field 0
           std::string("\xA2\x06\x02\x0A\x05", 5)  // a layer that ends within its name
       }) {
    EXPECT_TRUE(Contains(Stream(folder.Write("f", bytes)).damage, "is not a weights file"));
  }
}

TEST(NetStream, ManySmallFieldsBeyondTheWindow) {
  const TempDir folder;
  NetParameter net;
  for (int i = 0; i < 50000; ++i) net.add_input_dim(i);
  net.add_layer()->set_name("a");
  const StreamedNet read = Stream(folder.Write("f", net.SerializeAsString()));
  EXPECT_EQ(read.damage, "");
  EXPECT_EQ(read.net.input_dim(49999), 49999);
  EXPECT_EQ(read.net.layer_size(), 1);
}

TEST(NetStream, ALayerOfMoreThanTwoGibibytesIsNamed) {
  const TempDir folder;
  constexpr uint64_t kCount = 600'000'000;
  const std::string path = folder.Write("f", LayerHead("big", kCount));
  std::error_code error;  // holes take no space
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 4 * kCount, error);
  if (error) GTEST_SKIP() << "no room for a sparse file: " << error.message();
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadCaffemodel(path); }),
                       "cannot be read: layer \"big\" has 24000000"));
}

// Needs 3 GiB of memory and a file system with holes: `make soak-big`.
TEST(NetStream, DISABLED_AFileOfMoreThanTwoGibibytesIsRead) {
  const TempDir folder;
  constexpr uint64_t kCount = 150'000'000;
  constexpr int kLayers = 5;
  const std::string path = folder.File("large.caffemodel");
  {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < kLayers; ++i) {
      file << LayerHead("layer" + std::to_string(i), kCount);
      file.seekp(static_cast<std::streamoff>(4 * (kCount - 1)), std::ios::cur);
      const auto last = static_cast<float>(i + 1);
      file.write(reinterpret_cast<const char*>(&last), sizeof(last));
    }
  }
  ASSERT_GT(std::filesystem::file_size(path), uint64_t{1} << 31);
  const NetParameter net = ReadCaffemodel(path);
  ASSERT_EQ(net.layer_size(), kLayers);
  for (int i = 0; i < kLayers; ++i) {
    ASSERT_EQ(net.layer(i).blobs(0).data_size(), static_cast<int>(kCount));
    EXPECT_EQ(net.layer(i).blobs(0).data(0), 0);
    EXPECT_EQ(net.layer(i).blobs(0).data(static_cast<int>(kCount) - 1), i + 1);
  }
  std::filesystem::resize_file(path, (uint64_t{1} << 31) + 1000);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadCaffemodel(path); }),
                       "is truncated within layer \"layer3\": it has 2147484648 bytes"));
}

}  // namespace
}  // namespace crema
