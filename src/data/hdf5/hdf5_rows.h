// Rows of the same datasets in several HDF5 files, as one endless sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "data/hdf5/hdf5_file.h"
#include "data/pipeline/shuffle.h"

namespace crema {

// Returns the paths in a list of HDF5 files, see Hdf5Set. Throws kNotFound, kIoFailure, kDataLoss
// (empty).
std::vector<std::string> ReadHdf5List(const std::string& list);

// Shapes and row counts of a list of HDF5 files. Thread safety: const.
class Hdf5Set {
 public:
  // `list` is a text file with paths of HDF5 files, separated by white space. All paths are
  // relative to the current folder. Each file must have all `datasets` with the same number of
  // rows, and the row shapes of the first file. Throws kNotFound, kIoFailure, kDataLoss.
  Hdf5Set(const std::string& list, std::vector<std::string> datasets);
  // For a list that was read already; `list` is for messages.
  Hdf5Set(const std::string& list, const std::vector<std::string>& files,
          std::vector<std::string> datasets);

  struct File {
    std::string path;
    uint64_t rows = 0;
    uint64_t first = 0;  // rows of the files before
  };
  const std::vector<File>& files() const { return files_; }
  const std::vector<std::string>& datasets() const { return datasets_; }
  const std::vector<Shape>& row_shapes() const { return row_shapes_; }  // by dataset
  uint64_t rows() const { return rows_; }  // total of all files; never 0
  // Returns "a.h5 row 3" for a row of the whole list.
  std::string Name(uint64_t row) const;

 private:
  void AddFile(const std::string& path);

  const std::vector<std::string> datasets_;
  std::vector<File> files_;
  std::vector<Shape> row_shapes_;
  uint64_t rows_ = 0;
};

// Reads rows by number in bounded memory: small files whole, larger ones by blocks of rows or, with
// `shuffle` or `length`, by single rows. Number n is row n % rows() of epoch n / rows(). With
// `shuffle`, the order of files and of their rows depends on (seed, layer, epoch) only. With
// `length`, rows of a file are ordered by their lengths, and shuffled in groups of similar length.
// Thread safety: one thread at a time.
class Hdf5RowReader {
 public:
  struct Options {
    DType dtype = DType::kF32;
    bool shuffle = false;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
    std::optional<size_t> length = {};  // dataset with one number for each row, at most `steps`
    uint64_t steps = 0;
    uint64_t group = 1;  // with shuffle: rows that should have similar lengths
    uint64_t whole_bytes = uint64_t{64} << 20;  // largest file that is kept whole
    uint64_t block_bytes = uint64_t{8} << 20;   // of a larger file; at least one row
  };
  Hdf5RowReader(Hdf5Set set, Options options);

  // Copies row `number` of each dataset to places[dataset]. Returns its index among all rows.
  // Throws what reading a file throws; damage affects only the rows it covers.
  uint64_t Read(uint64_t number, std::span<std::byte* const> places);
  const Hdf5Set& set() const { return set_; }

 private:
  void Locate(uint64_t number);
  void OrderFiles(uint64_t epoch);
  void Open(uint32_t file);
  bool InBlock(uint64_t row);
  void OrderRows(uint32_t file, uint64_t epoch);
  uint64_t RowOf(uint64_t place) const;
  std::vector<uint32_t> LengthsOf(const Hdf5Set::File& file) const;
  void ReadDirectly(uint64_t row, std::span<std::byte* const> places) const;

  const Hdf5Set set_;
  const Options options_;
  // The open file serves numbers begin_ .. begin_ + its rows - 1.
  uint64_t epoch_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;                  // 0: no file
  std::vector<uint32_t> file_order_;  // for epoch_
  LargePermutation row_order_;        // of the open file, with shuffle and without length
  std::vector<uint32_t> by_length_;   // the same with length
  std::vector<size_t> row_bytes_;     // by dataset
  uint64_t all_row_bytes_ = 0;

  uint32_t open_file_ = UINT32_MAX;            // index of the open file
  std::vector<Hdf5Dataset> datasets_;          // of the open file
  uint64_t block_rows_ = 0;                    // rows per block
  uint64_t block_begin_ = 0;                   // first row of the block
  uint64_t block_end_ = 0;                     //
  std::vector<std::vector<std::byte>> block_;  // by dataset
};

}  // namespace crema
