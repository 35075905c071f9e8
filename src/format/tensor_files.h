// Arrays by name in files of other programs: .npy, .npz, HDF5.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace crema {

struct NamedArray {
  std::string name;  // empty: of a .npy file, which has none
  Tensor value;
};

struct NamedArrayView {
  std::string name;
  ConstTensorView value;  // memory of the host
};

// By the end of the name: .npy, .npz, .h5 or .hdf5. Throws kInvalidArgument for another end,
// kDataLoss for damaged files, kUnsupported for element types that no tensor has and for kinds of
// files that this build does without. Of HDF5 the data sets of the root, all as f32 but those of 8
// bytes an element, which are f64.
std::vector<NamedArray> ReadArrays(const std::string& path);

// Of these names only, in the order of the file. What others hold is neither unpacked nor checked,
// but where a checksum of the file takes it in.
std::vector<NamedArray> ReadArrays(const std::string& path, std::span<const std::string> wanted);

// The names of the arrays, in the order of the file; of .npy an empty one. Throws as ReadArrays.
std::vector<std::string> ArrayNames(const std::string& path);

// The same kinds; .npy takes one array only. Written atomically; equal arrays make equal bytes.
// Throws kInvalidArgument, kUnsupported, kIoFailure.
void WriteArrays(const std::string& path, std::span<const NamedArrayView> arrays);

// Throws kInvalidArgument where WriteArrays would refuse this name and number of arrays.
void CheckArraysPath(const std::string& path, size_t arrays);

// The single kinds.
std::vector<std::string> NpzNames(const std::string& path);
std::vector<NamedArray> ReadNpz(const std::string& path, std::span<const std::string> wanted);
void WriteNpz(const std::string& path, std::span<const NamedArrayView> arrays);
std::vector<std::string> Hdf5Names(const std::string& path);
std::vector<NamedArray> ReadHdf5Arrays(const std::string& path,
                                       std::span<const std::string> wanted);
void WriteHdf5Arrays(const std::string& path, std::span<const NamedArrayView> arrays);

}  // namespace crema
