// Named arrays in files of other programs: .npy, .npz, HDF5.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace crema {

struct NamedArray {
  std::string name;  // empty for a .npy file
  Tensor value;
};

struct NamedArrayView {
  std::string name;
  ConstTensorView value;  // host memory
};

// Reads by extension: .npy, .npz, .h5 or .hdf5. Throws kInvalidArgument for another extension,
// kDataLoss for damaged files, kUnsupported for element types without a tensor equivalent and for
// formats that this build lacks. From HDF5, reads the datasets of the root group: elements of 8
// bytes as f64, others as f32.
std::vector<NamedArray> ReadArrays(const std::string& path);

// Reads only these arrays, in file order. Others are neither unpacked nor checked, unless a
// checksum of the file covers them.
std::vector<NamedArray> ReadArrays(const std::string& path, std::span<const std::string> wanted);

// Returns the names of the arrays in file order; for .npy a single empty one. Throws like
// ReadArrays.
std::vector<std::string> ArrayNames(const std::string& path);

// Supports the same formats; .npy holds only one array. Writes atomically; equal arrays give equal
// bytes. Throws kInvalidArgument, kUnsupported, kIoFailure.
void WriteArrays(const std::string& path, std::span<const NamedArrayView> arrays);

// Throws kInvalidArgument if WriteArrays would refuse this name or number of arrays.
void CheckArraysPath(const std::string& path, size_t arrays);

// Functions for one format each.
std::vector<std::string> NpzNames(const std::string& path);
std::vector<NamedArray> ReadNpz(const std::string& path, std::span<const std::string> wanted);
void WriteNpz(const std::string& path, std::span<const NamedArrayView> arrays);
std::vector<std::string> Hdf5Names(const std::string& path);
std::vector<NamedArray> ReadHdf5Arrays(const std::string& path,
                                       std::span<const std::string> wanted);
void WriteHdf5Arrays(const std::string& path, std::span<const NamedArrayView> arrays);

}  // namespace crema
