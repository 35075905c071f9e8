// Data sets and images for tests of commands.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/record_db.h"
#include "support/error_text.h"
#include "support/process.h"

namespace crema::test {

// Pixel (c, y, x) is base + 50c + 10y + x, modulo 256.
inline Image Pattern(int height, int width, int channels = 3, int base = 0) {
  Image image{.channels = channels, .height = height, .width = width, .pixels = {}};
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        image.pixels.push_back(static_cast<uint8_t>(base + 50 * c + 10 * y + x));
      }
    }
  }
  return image;
}

inline std::string Png(const Image& image) { return EncodeImage(image, "png", 0); }

using Records = std::vector<std::pair<std::string, std::string>>;

inline Records ReadAll(const std::string& path) {
  Records all;
  const auto reader = OpenRecords(path);
  for (uint64_t i = 0; i < reader->count(); ++i) {
    const KeyedRecord record = reader->Next();
    all.emplace_back(record.key, record.value);
  }
  return all;
}

inline std::vector<std::string> Keys(const Records& records) {
  std::vector<std::string> keys;
  for (const auto& record : records) keys.push_back(record.first);
  return keys;
}

inline Datum ParseDatum(const std::string& value) {
  Datum datum;
  EXPECT_TRUE(datum.ParseFromString(value));
  return datum;
}

inline Datum RawDatum(const Image& image, int label) {
  Datum datum;
  datum.set_channels(image.channels);
  datum.set_height(image.height);
  datum.set_width(image.width);
  datum.set_data(image.pixels.data(), image.pixels.size());
  datum.set_label(label);
  return datum;
}

// Uses keys of eight digits.
template <typename Message>
void WriteSet(const std::string& path, const std::vector<Message>& records) {
  const auto writer = CreateRecords(path, DataParameter::LMDB);
  for (size_t i = 0; i < records.size(); ++i) {
    char key[24];
    std::snprintf(key, sizeof(key), "%08zu", i);
    writer->Put(key, records[i].SerializeAsString());
  }
  writer->Close();
}

inline ProcessResult RunTool(const std::string& name, std::vector<std::string> arguments,
                             const std::string& folder = "") {
  arguments.insert(arguments.begin(), Bin(name));
  return RunProcess(arguments, folder);
}

}  // namespace crema::test
