// HDF5 files, for the sources that a build without HDF5 excludes.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "format/hdf5_sum.h"

namespace crema {

// Closes an HDF5 object at the end of a scope.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Id(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Id(Hdf5Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&&) = delete;
  ~Hdf5Id() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool ok() const { return id_ >= 0; }
  // Closes now; returns false on failure, for example if buffered data cannot be written.
  bool CloseNow() { return close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_;
  Close close_;
};

// Returns creation properties for files, groups or datasets without timestamps, so that equal
// contents give equal bytes.
Hdf5Id PropertiesWithoutTimes(hid_t list_class);

// The HDF5 library is not thread-safe and reports errors on stderr. A session gives the calling
// thread exclusive and silent access. Not recursive.
class Hdf5Session {
 public:
  Hdf5Session();
  ~Hdf5Session();
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;

 private:
  H5E_auto2_t report_ = nullptr;
  void* report_data_ = nullptr;
};

// A file open for reading, with its session. All functions throw kDataLoss, naming the file.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path);

  bool Has(const std::string& name) const;
  // Names in a group, in numerical order.
  std::vector<std::string> Names(const std::string& group) const;
  bool IsGroup(const std::string& name) const;
  // Returns shape and values of a dataset; a type of 8 bytes goes to double_data.
  BlobProto ReadArray(const std::string& dataset) const;
  int32_t ReadInteger(const std::string& dataset) const;
  double ReadReal(const std::string& dataset) const;
  std::string ReadString(const std::string& dataset) const;
  std::string ReadBytes(const std::string& dataset) const;
  // Compares the file with its checksum, if it has one; call it after reading. Reads the remaining
  // arrays.
  void CheckSum() const;
  [[noreturn]] void FailDamaged(const std::string& what) const;

 private:
  Hdf5Id Open(const std::string& dataset) const;
  // Returns the sizes of the axes, after checking that the file can hold so many values.
  std::vector<int64_t> Dims(hid_t dataset, const std::string& name) const;
  void ReadRest(const std::string& group, int depth) const;

  std::string path_;
  uint64_t file_bytes_;
  Hdf5Session session_;
  Hdf5Id file_;
  std::optional<uint32_t> expected_sum_;
  mutable Hdf5Sum sum_;  // of the arrays read so far, so that none is read twice
};

// A file written under a temporary name; see AtomicFile. Methods throw kIoFailure.
class Hdf5Writer {
 public:
  Hdf5Writer(const std::string& path, const std::string& temporary, uint64_t expected_bytes);

  void MakeGroup(const std::string& name);
  // Writes values (or gradients) of a blob in its shape.
  void WriteData(const std::string& dataset, const BlobProto& blob);
  void WriteDiff(const std::string& dataset, const BlobProto& blob);
  void WriteInteger(const std::string& dataset, int32_t value);
  void WriteReal(const std::string& dataset, float value);
  void WriteString(const std::string& dataset, const std::string& value);
  void WriteBytes(const std::string& dataset, const std::string& value);
  // Adds the checksum of all contents.
  void Close();

 private:
  void WriteValues(const std::string& dataset, const Shape& shape, DType dtype, const void* values);
  void Write(const std::string& dataset, const std::vector<hsize_t>& dims, hid_t stored_type,
             hid_t memory_type, const void* values);
  [[noreturn]] void FailWriting() const;

  std::string path_;
  uint64_t expected_bytes_;
  Hdf5Session session_;
  Hdf5Id file_;
  Hdf5Sum sum_;
};

// Writes an HDF5 file atomically; `fill` writes the contents.
void WriteHdf5Atomically(const std::string& path, uint64_t expected_bytes,
                         const std::function<void(Hdf5Writer&)>& fill);

// Opens everything in the file in a child process first: release 1.10 of the library follows
// damaged addresses and crashes. Throws kDataLoss if the child crashes or takes longer than 20 s.
// Leaves other faults to the reader. Requires: the calling thread has no Hdf5Session. Thread
// safety: any.
void ProbeHdf5(const std::string& path);

}  // namespace crema
