#include "data/hdf5_rows.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/hdf5_file.h"
#include "data/shuffle.h"

namespace crema {
namespace {

std::vector<std::string> ReadList(const std::string& list) {
  errno = 0;
  std::ifstream file(list);
  if (!file) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    Fail(missing ? ErrorCode::kNotFound : ErrorCode::kIoFailure,
         StrCat("the list of HDF5 files '", list, "' cannot be read: ", std::strerror(errno)));
  }
  std::vector<std::string> paths;
  for (std::string path; file >> path;) paths.push_back(path);
  if (paths.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("the list of HDF5 files '", list, "' names no files"));
  }
  return paths;
}

// Adds who asked for the file to the message.
[[noreturn]] void FailListed(const Error& error, const std::string& list) {
  Fail(error.code(), StrCat(error.problems().front().message, " (listed in '", list, "')"));
}

Shape RowShape(const Shape& whole) { return Shape(whole.dims().subspan(1)); }

}  // namespace

Hdf5Set::Hdf5Set(const std::string& list, std::vector<std::string> datasets)
    : datasets_(std::move(datasets)) {
  CREMA_CHECK(!datasets_.empty());
  for (const std::string& path : ReadList(list)) {
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
    const Shape shape = file.ShapeOf(datasets_[i]);
    if (i == 0) rows = shape[0];
    if (shape[0] != rows) {
      Fail(ErrorCode::kDataLoss, StrCat("in '", path, "' the dataset '", datasets_[i], "' has ",
                                        shape[0], " rows, but '", datasets_[0], "' has ", rows));
    }
    if (files_.empty()) {
      row_shapes_.push_back(RowShape(shape));
    } else if (RowShape(shape) != row_shapes_[i]) {
      Fail(ErrorCode::kDataLoss, StrCat("in '", path, "' a row of the dataset '", datasets_[i],
                                        "' is ", ToString(RowShape(shape)), ", but in '",
                                        files_[0].path, "' it is ", ToString(row_shapes_[i])));
    }
  }
  files_.push_back({path, static_cast<uint64_t>(rows)});
  rows_ += static_cast<uint64_t>(rows);
}

Hdf5RowReader::Hdf5RowReader(Hdf5Set set, Options options)
    : set_(std::move(set)), options_(options), data_(set_.datasets().size()) {
  for (const Shape& row : set_.row_shapes()) {
    row_bytes_.push_back(static_cast<size_t>(row.count()) * SizeOf(options_.dtype));
  }
}

Hdf5RowReader::Place Hdf5RowReader::Read(uint64_t number, std::span<std::byte* const> places) {
  CREMA_CHECK(places.size() == data_.size());
  if (number < begin_ || number >= end_) Locate(number);
  uint64_t row = number - begin_;
  if (options_.shuffle) row = row_order_[row];
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(places[i], data_[i].data() + row * row_bytes_[i], row_bytes_[i]);
  }
  return {loaded_, row};
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
  end_ = 0;  // nothing is served any more if loading fails
  Load(file);
  const uint64_t rows = set_.files()[file].rows;
  if (options_.shuffle) {
    const uint64_t stream = MixBits(options_.layer_id, MixBits(HashName("row order"), file));
    row_order_ =
        Permutation(static_cast<uint32_t>(rows), RandomStream(options_.seed, stream, epoch));
  }
  begin_ = begin;
  end_ = begin + rows;
}

void Hdf5RowReader::Load(uint32_t index) {
  if (loaded_ == index) return;
  loaded_ = UINT32_MAX;
  const Hdf5Set::File& expected = set_.files()[index];
  const Hdf5File file(expected.path);
  for (size_t i = 0; i < data_.size(); ++i) {
    const std::string& name = set_.datasets()[i];
    const Shape shape = file.ShapeOf(name);
    if (static_cast<uint64_t>(shape[0]) != expected.rows ||
        RowShape(shape) != set_.row_shapes()[i]) {
      Fail(ErrorCode::kDataLoss, StrCat("the dataset '", name, "' of '", expected.path,
                                        "' has changed its shape since the net was built"));
    }
    data_[i].resize(static_cast<size_t>(shape.count()) * SizeOf(options_.dtype));
    file.Read(name, options_.dtype, data_[i].data());
  }
  loaded_ = index;
}

}  // namespace crema
