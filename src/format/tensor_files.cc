#include "format/tensor_files.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/npy.h"

namespace crema {
namespace {

enum class Kind { kNpy, kNpz, kHdf5 };

Kind KindOf(const std::string& path) {
  const std::string end = std::filesystem::path(path).extension().string();
  if (end == ".npy") return Kind::kNpy;
  if (end == ".npz") return Kind::kNpz;
  if (end == ".h5" || end == ".hdf5") return Kind::kHdf5;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("files of arrays end in .npy, .npz, .h5 or .hdf5, not in '", end, "'"),
       {.file = path});
}

}  // namespace

std::vector<std::string> ArrayNames(const std::string& path) {
  const Kind kind = KindOf(path);
  if (kind == Kind::kNpz) return NpzNames(path);
  if (kind == Kind::kHdf5) return Hdf5Names(path);
  return {""};
}

std::vector<NamedArray> ReadArrays(const std::string& path) {
  return ReadArrays(path, ArrayNames(path));
}

std::vector<NamedArray> ReadArrays(const std::string& path, std::span<const std::string> wanted) {
  const Kind kind = KindOf(path);
  if (kind == Kind::kNpz) return ReadNpz(path, wanted);
  if (kind == Kind::kHdf5) return ReadHdf5Arrays(path, wanted);
  std::vector<NamedArray> arrays;
  if (std::ranges::count(wanted, "") == 0) return arrays;
  arrays.push_back({.name = "", .value = ParseNpy(ReadFile(path), path)});
  return arrays;
}

void CheckArraysPath(const std::string& path, size_t arrays) {
  if (KindOf(path) != Kind::kNpy || arrays == 1) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("a .npy file holds one array, and there are ", arrays, "; write .npz or .h5"),
       {.file = path});
}

void WriteArrays(const std::string& path, std::span<const NamedArrayView> arrays) {
  CheckArraysPath(path, arrays.size());
  const Kind kind = KindOf(path);
  if (kind == Kind::kNpz) return WriteNpz(path, arrays);
  if (kind == Kind::kHdf5) return WriteHdf5Arrays(path, arrays);
  WriteFileAtomically(path, FormatNpy(arrays[0].value));
}

#ifndef CREMA_HAVE_HDF5
namespace {
[[noreturn]] void FailWithoutHdf5(const std::string& path) {
  Fail(ErrorCode::kUnsupported, "this build has no HDF5: build with -DCREMA_HDF5=ON, or use .npz",
       {.file = path});
}
}  // namespace
std::vector<std::string> Hdf5Names(const std::string& path) { FailWithoutHdf5(path); }
std::vector<NamedArray> ReadHdf5Arrays(const std::string& path, std::span<const std::string>) {
  FailWithoutHdf5(path);
}
void WriteHdf5Arrays(const std::string& path, std::span<const NamedArrayView>) {
  FailWithoutHdf5(path);
}
#endif

#ifndef CREMA_HAVE_ZIP
namespace {
[[noreturn]] void FailWithoutZip(const std::string& path) {
  Fail(ErrorCode::kUnsupported,
       "this build has no minizip: build with -DCREMA_ZIP=ON, or use .npy or .h5", {.file = path});
}
}  // namespace
std::vector<std::string> NpzNames(const std::string& path) { FailWithoutZip(path); }
std::vector<NamedArray> ReadNpz(const std::string& path, std::span<const std::string>) {
  FailWithoutZip(path);
}
void WriteNpz(const std::string& path, std::span<const NamedArrayView>) { FailWithoutZip(path); }
#endif

}  // namespace crema
