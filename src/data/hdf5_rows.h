// Rows of the same datasets of several HDF5 files, as one endless sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crema {

// What a list of HDF5 files holds. Thread safety: const.
class Hdf5Set {
 public:
  // `list` is a text file with the paths of HDF5 files, separated by white space; it and they are
  // relative to the current folder. Each file must have all `datasets`, with equal first axes, and
  // the other axes as in the first file. Throws kNotFound, kIoFailure, kDataLoss.
  Hdf5Set(const std::string& list, std::vector<std::string> datasets);

  struct File {
    std::string path;
    uint64_t rows = 0;
  };
  const std::vector<File>& files() const { return files_; }
  const std::vector<std::string>& datasets() const { return datasets_; }
  const std::vector<Shape>& row_shapes() const { return row_shapes_; }  // by dataset
  uint64_t rows() const { return rows_; }                               // in all files; never 0

 private:
  void AddFile(const std::string& path);

  const std::vector<std::string> datasets_;
  std::vector<File> files_;
  std::vector<Shape> row_shapes_;
  uint64_t rows_ = 0;
};

// Serves rows by number; keeps the file in memory that served last. Number n is row n % rows() of
// epoch n / rows(). With `shuffle`, each epoch has an order of files, and of the rows in each, that
// depends on (seed, layer, epoch) only. Thread safety: one thread at a time.
class Hdf5RowReader {
 public:
  struct Options {
    DType dtype = DType::kF32;
    bool shuffle = false;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  Hdf5RowReader(Hdf5Set set, Options options);

  struct Place {
    uint32_t file = 0;  // index into set().files()
    uint64_t row = 0;   // of that file, from 0
  };
  // Copies row `number` of each dataset to places[dataset], and says where it was. Throws what
  // reading a file throws.
  Place Read(uint64_t number, std::span<std::byte* const> places);
  const Hdf5Set& set() const { return set_; }

 private:
  void Locate(uint64_t number);
  void OrderFiles(uint64_t epoch);
  void Load(uint32_t file);

  const Hdf5Set set_;
  const Options options_;
  // The file that is being read serves numbers begin_ .. begin_ + its rows - 1.
  uint64_t epoch_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;                          // 0: none yet
  std::vector<uint32_t> file_order_;          // of epoch_
  std::vector<uint32_t> row_order_;           // of the file; empty without shuffle
  uint32_t loaded_ = UINT32_MAX;              // index of the file in memory
  std::vector<std::vector<std::byte>> data_;  // by dataset
  std::vector<size_t> row_bytes_;             // by dataset
};

}  // namespace crema
