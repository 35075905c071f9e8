// Rows of the same datasets of several HDF5 files, as one endless sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "data/hdf5/hdf5_file.h"
#include "data/pipeline/large_permutation.h"

namespace crema {

// The paths in a list of HDF5 files, see Hdf5Set. Throws kNotFound, kIoFailure, kDataLoss (empty).
std::vector<std::string> ReadHdf5List(const std::string& list);

// What a list of HDF5 files holds. Thread safety: const.
class Hdf5Set {
 public:
  // `list` is a text file with the paths of HDF5 files, separated by white space; it and they are
  // relative to the current folder. Each file must have all `datasets`, with equal first axes, and
  // the other axes as in the first file. Throws kNotFound, kIoFailure, kDataLoss.
  Hdf5Set(const std::string& list, std::vector<std::string> datasets);
  // The same for files that were read from a list already; `list` is for messages.
  Hdf5Set(const std::string& list, const std::vector<std::string>& files,
          std::vector<std::string> datasets);

  struct File {
    std::string path;
    uint64_t rows = 0;
    uint64_t first = 0;  // rows of the files before it
  };
  const std::vector<File>& files() const { return files_; }
  const std::vector<std::string>& datasets() const { return datasets_; }
  const std::vector<Shape>& row_shapes() const { return row_shapes_; }  // by dataset
  uint64_t rows() const { return rows_; }                               // in all files; never 0
  // "a.h5 row 3" of a row of all.
  std::string Name(uint64_t row) const;

 private:
  void AddFile(const std::string& path);

  const std::vector<std::string> datasets_;
  std::vector<File> files_;
  std::vector<Shape> row_shapes_;
  uint64_t rows_ = 0;
};

// Serves rows by number, in memory that does not grow with the files: one that is small is kept
// whole, of a larger one a block of rows, or, with `shuffle`, single rows are read. Number n is row
// n % rows() of epoch n / rows(). With `shuffle`, each epoch has an order of files, and of the rows
// in each, that depends on (seed, layer, epoch) only. Thread safety: one thread at a time.
class Hdf5RowReader {
 public:
  struct Options {
    DType dtype = DType::kF32;
    bool shuffle = false;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
    uint64_t whole_bytes = uint64_t{64} << 20;  // the largest file that is kept whole
    uint64_t block_bytes = uint64_t{8} << 20;   // of a larger one; one row, where that is more
  };
  Hdf5RowReader(Hdf5Set set, Options options);

  // Copies row `number` of each dataset to places[dataset], and says which one of all rows it is.
  // Throws what reading a file throws; a damaged part of a file spoils the rows in it only.
  uint64_t Read(uint64_t number, std::span<std::byte* const> places);
  const Hdf5Set& set() const { return set_; }

 private:
  void Locate(uint64_t number);
  void OrderFiles(uint64_t epoch);
  void Open(uint32_t file);
  bool InBlock(uint64_t row);
  void ReadDirectly(uint64_t row, std::span<std::byte* const> places) const;

  const Hdf5Set set_;
  const Options options_;
  // The file that is being read serves numbers begin_ .. begin_ + its rows - 1.
  uint64_t epoch_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;                  // 0: none yet
  std::vector<uint32_t> file_order_;  // of epoch_
  LargePermutation row_order_;        // of the file, with shuffle
  std::vector<size_t> row_bytes_;     // by dataset
  uint64_t all_row_bytes_ = 0;

  uint32_t open_file_ = UINT32_MAX;            // its index
  std::vector<Hdf5Dataset> datasets_;          // of that file
  uint64_t block_rows_ = 0;                    // how many are read at once
  uint64_t block_begin_ = 0;                   // rows of that file
  uint64_t block_end_ = 0;                     //
  std::vector<std::vector<std::byte>> block_;  // by dataset
};

}  // namespace crema
