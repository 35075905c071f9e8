#include "data/hdf5/hdf5_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/pipeline/length_order.h"
#include "data/pipeline/shuffle.h"
#include "format/data_file.h"

namespace crema {
namespace {

// Adds the list that names the file to the message.
[[noreturn]] void FailListed(const Error& error, const std::string& list) {
  Fail(error.code(), StrCat(error.problems().front().message, " (listed in '", list, "')"));
}

}  // namespace

std::vector<std::string> ReadHdf5List(const std::string& list) {
  const std::string text = ReadDataFile(list, "the list of HDF5 files");
  if (text.starts_with("\x89HDF")) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", list,
                "' is an HDF5 file: source names a text file with the paths of such "
                "files"));
  }
  std::istringstream words(text);
  std::vector<std::string> paths;
  for (std::string path; words >> path;) paths.push_back(path);
  if (paths.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("the list of HDF5 files '", list, "' names no files"));
  }
  return paths;
}

Hdf5Set::Hdf5Set(const std::string& list, std::vector<std::string> datasets)
    : Hdf5Set(list, ReadHdf5List(list), std::move(datasets)) {}

Hdf5Set::Hdf5Set(const std::string& list, const std::vector<std::string>& files,
                 std::vector<std::string> datasets)
    : datasets_(std::move(datasets)) {
  CREMA_CHECK(!datasets_.empty());
  for (const std::string& path : files) {
    try {
      AddFile(path);
    } catch (const Error& error) {
      FailListed(error, list);
    }
  }
  if (rows_ == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("the HDF5 files listed in '", list, "' hold no rows"));
  }
}

void Hdf5Set::AddFile(const std::string& path) {
  const Hdf5File file(path);
  int64_t rows = 0;
  for (size_t i = 0; i < datasets_.size(); ++i) {
    const Hdf5Dataset dataset(file, datasets_[i]);
    if (i == 0) rows = dataset.dims()[0];
    if (dataset.dims()[0] != rows) {
      Fail(ErrorCode::kDataLoss,
           StrCat("in '", path, "' the dataset '", datasets_[i], "' has ", dataset.dims()[0],
                  " rows, but '", datasets_[0], "' has ", rows));
    }
    if (files_.empty()) {
      row_shapes_.push_back(dataset.RowShape());
    } else if (dataset.RowShape() != row_shapes_[i]) {
      Fail(ErrorCode::kDataLoss, StrCat("in '", path, "' a row of the dataset '", datasets_[i],
                                        "' is ", ToString(dataset.RowShape()), ", but in '",
                                        files_[0].path, "' it is ", ToString(row_shapes_[i])));
    }
  }
  if (static_cast<uint64_t>(rows) > static_cast<uint64_t>(INT64_MAX) - rows_) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "' says that it has ", rows,
                                      " rows, with which there are too many to count: it may be "
                                      "damaged"));
  }
  files_.push_back({path, static_cast<uint64_t>(rows), rows_});
  rows_ += static_cast<uint64_t>(rows);
}

std::string Hdf5Set::Name(uint64_t row) const {
  const auto next = std::ranges::upper_bound(files_, row, {}, &File::first);
  const File& file = *std::prev(next);
  return StrCat(file.path, " row ", row - file.first);
}

Hdf5RowReader::Hdf5RowReader(Hdf5Set set, Options options)
    : set_(std::move(set)), options_(options), block_(set_.datasets().size()) {
  for (const Shape& row : set_.row_shapes()) {
    row_bytes_.push_back(static_cast<size_t>(row.count()) * SizeOf(options_.dtype));
    all_row_bytes_ += row_bytes_.back();
  }
}

uint64_t Hdf5RowReader::Read(uint64_t number, std::span<std::byte* const> places) {
  CREMA_CHECK(places.size() == row_bytes_.size());
  if (number < begin_ || number >= end_) Locate(number);
  const uint64_t row = RowOf(number - begin_);
  if (InBlock(row)) {
    for (size_t i = 0; i < places.size(); ++i) {
      const std::byte* from = block_[i].data() + (row - block_begin_) * row_bytes_[i];
      std::memcpy(places[i], from, row_bytes_[i]);
    }
  } else {
    ReadDirectly(row, places);
  }
  return set_.files()[open_file_].first + row;
}

// Returns the row at a place in the order of the open file.
uint64_t Hdf5RowReader::RowOf(uint64_t place) const {
  if (!by_length_.empty()) return by_length_[place];
  return options_.shuffle ? row_order_(place) : place;
}

void Hdf5RowReader::ReadDirectly(uint64_t row, std::span<std::byte* const> places) const {
  for (size_t i = 0; i < places.size(); ++i) {
    datasets_[i].ReadRows(row, 1, options_.dtype, places[i]);
  }
}

// Reads the block of a row, if rows are read in blocks. Ignores an unreadable block: perhaps only
// some of its rows are damaged.
bool Hdf5RowReader::InBlock(uint64_t row) {
  if (row >= block_begin_ && row < block_end_) return true;
  if (block_rows_ < 2) return false;
  block_begin_ = row - row % block_rows_;
  block_end_ = block_begin_;
  const uint64_t count = std::min(block_rows_, datasets_[0].rows() - block_begin_);
  try {
    for (size_t i = 0; i < datasets_.size(); ++i) {
      block_[i].resize(count * row_bytes_[i]);
      datasets_[i].ReadRows(block_begin_, count, options_.dtype, block_[i].data());
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;
    return false;
  }
  block_end_ = block_begin_ + count;
  return true;
}

void Hdf5RowReader::OrderFiles(uint64_t epoch) {
  if (!file_order_.empty() && epoch == epoch_) return;
  const auto files = static_cast<uint32_t>(set_.files().size());
  epoch_ = epoch;
  if (options_.shuffle) {
    const uint64_t stream = MixBits(options_.layer_id, HashName("file order"));
    file_order_ = Permutation(files, RandomStream(options_.seed, stream, epoch));
  } else {
    file_order_.resize(files);
    std::iota(file_order_.begin(), file_order_.end(), 0u);
  }
}

void Hdf5RowReader::Locate(uint64_t number) {
  const uint64_t epoch = number / set_.rows();
  OrderFiles(epoch);
  uint64_t begin = epoch * set_.rows();
  size_t slot = 0;
  while (number >= begin + set_.files()[file_order_[slot]].rows) {
    begin += set_.files()[file_order_[slot++]].rows;
  }
  const uint32_t file = file_order_[slot];
  end_ = 0;  // serves nothing if opening fails
  Open(file);
  begin_ = begin;
  OrderRows(file, epoch);
  end_ = begin + set_.files()[file].rows;
}

// Orders the rows of the open file, which begins at begin_.
void Hdf5RowReader::OrderRows(uint32_t file, uint64_t epoch) {
  const auto random = [&](const char* name) {
    const uint64_t stream = MixBits(options_.layer_id, MixBits(HashName(name), file));
    return RandomStream(options_.seed, stream, epoch);
  };
  if (options_.length) {
    const std::vector<uint32_t> lengths = LengthsOf(set_.files()[file]);
    by_length_ = options_.shuffle ? ShuffleByLength(lengths, begin_, options_.group,
                                                    random("row order"), random("group order"))
                                  : OrderByLength(lengths);
  } else if (options_.shuffle) {
    row_order_ = LargePermutation(set_.files()[file].rows, random("row order"));
  }
}

// Returns the lengths of all rows of the open file.
std::vector<uint32_t> Hdf5RowReader::LengthsOf(const Hdf5Set::File& file) const {
  if (file.rows > UINT32_MAX) {
    Fail(
        ErrorCode::kUnsupported,
        StrCat("'", file.path, "' has too many rows to be ordered by length: write several files"));
  }
  std::vector<double> numbers(file.rows);
  datasets_[*options_.length].ReadRows(0, file.rows, DType::kF64, numbers.data());
  std::vector<uint32_t> lengths;
  for (const double number : numbers) {
    const bool fits = number >= 1 && number <= static_cast<double>(options_.steps);
    if (!fits || number != std::floor(number)) {
      Fail(ErrorCode::kDataLoss, StrCat("'", file.path, "' row ", lengths.size(), ": '",
                                        set_.datasets()[*options_.length], "' is ", number,
                                        ", but a row has 1 to ", options_.steps, " steps"));
    }
    lengths.push_back(static_cast<uint32_t>(number));
  }
  return lengths;
}

void Hdf5RowReader::Open(uint32_t index) {
  if (open_file_ == index) return;
  open_file_ = UINT32_MAX;
  datasets_.clear();
  block_begin_ = block_end_ = 0;
  const Hdf5Set::File& expected = set_.files()[index];
  const Hdf5File file(expected.path);
  for (size_t i = 0; i < row_bytes_.size(); ++i) {
    const Hdf5Dataset& opened = datasets_.emplace_back(file, set_.datasets()[i]);
    if (opened.rows() != expected.rows || opened.RowShape() != set_.row_shapes()[i]) {
      Fail(ErrorCode::kDataLoss,
           StrCat("the dataset '", set_.datasets()[i], "' of '", expected.path,
                  "' has changed its shape since the net was built"));
    }
  }
  const uint64_t row = std::max<uint64_t>(all_row_bytes_, 1);
  const bool whole = expected.rows <= options_.whole_bytes / row;
  const bool in_order = !options_.shuffle && !options_.length;
  const uint64_t block = !in_order ? 1 : std::max<uint64_t>(1, options_.block_bytes / row);
  block_rows_ = whole ? expected.rows : block;
  open_file_ = index;
}

}  // namespace crema
