// Small data sets of each format.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/record_db.h"
#include "data/records/tar_shards.h"
#include "support/temp_dir.h"

namespace crema::testing {

inline bool CanWrite(DataParameter::DB backend, const test::TempDir& temp) {
  try {
    CreateRecords(temp.File("probe"), backend);  // removed again, since it is not closed
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return false;
  }
}

// The formats of this build.
inline std::vector<DataParameter::DB> Backends(const test::TempDir& temp) {
  std::vector<DataParameter::DB> backends;
  for (const DataParameter::DB backend :
       {DataParameter::LMDB, DataParameter::LEVELDB, DataParameter::TAR}) {
    if (CanWrite(backend, temp)) backends.push_back(backend);
  }
  return backends;
}

// The bytes of a page of an LMDB.
constexpr size_t kLmdbPage = 4096;

inline std::string NumberedKey(int n) {
  const std::string digits = std::to_string(n);
  return std::string(6 - digits.size(), '0') + digits;
}

inline std::string Bytes(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

// Accepted as an image file unless it is decoded; of several sizes.
inline std::string FakeJpeg(int n) {
  return "\xFF\xD8\xFF" + std::string(static_cast<size_t>(n % 7) * 100, static_cast<char>(n)) +
         std::to_string(n);
}

inline Datum EncodedDatum(std::string image, int label) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(std::move(image));
  datum.set_label(label);
  return datum;
}

inline Datum GrayDatum(int height, int width, int label) {
  Datum datum;
  datum.set_channels(1);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(label);
  for (int i = 0; i < height * width; ++i) {
    datum.mutable_data()->push_back(static_cast<char>(10 * label + i));
  }
  return datum;
}

// Records 000000, 000001, ... labelled by number, in one file or, for shards, several.
inline std::string WriteRecords(const test::TempDir& temp, DataParameter::DB backend, int records) {
  const std::string path = temp.File(StrCat(DataParameter::DB_Name(backend), records));
  const auto writer =
      backend == DataParameter::TAR ? CreateTarShards(path, 8000) : CreateRecords(path, backend);
  for (int n = 0; n < records; ++n) {
    writer->Put(NumberedKey(n), EncodedDatum(FakeJpeg(n), n).SerializeAsString());
  }
  writer->Close();
  return path;
}

// Raw records key0, key1, ... of 3x4, which tar shards hold as image files; image n holds 10n,
// 10n + 1, ..., and its label is n.
inline std::string WriteGraySet(const test::TempDir& temp, int records,
                                DataParameter::DB backend = DataParameter::LMDB) {
  const std::string path = temp.File(StrCat("gray", DataParameter::DB_Name(backend)));
  const auto writer = CreateRecords(path, backend);
  for (int i = 0; i < records; ++i) {
    writer->Put(StrCat("key", i), GrayDatum(3, 4, i).SerializeAsString());
  }
  writer->Close();
  return path;
}

// The text of a Data layer.
inline std::string DataText(const std::string& source, const std::string& more = "batch_size: 2",
                            const std::string& transform = "", int tops = 2) {
  return StrCat("name: 'digits' type: 'Data' top: 'data' ", tops > 1 ? "top: 'label' " : "",
                "data_param { source: '", source, "' ", more, " } transform_param { ", transform,
                " }");
}

}  // namespace crema::testing
