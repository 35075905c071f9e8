#include <algorithm>
#include <cstring>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/hdf5_file.h"
#include "format/tensor_files.h"

namespace crema {
namespace {

Tensor TensorOf(const BlobProto& blob) {
  Tensor tensor(ShapeOf(blob), blob.double_data_size() > 0 ? DType::kF64 : DType::kF32);
  CopyTo(blob, tensor.view());
  return tensor;
}

// Our HDF5 files hold single or double precision.
BlobProto ProtoOf(const ConstTensorView& value, const std::string& path) {
  BlobProto proto;
  if (value.dtype() == DType::kF32 || value.dtype() == DType::kF64) {
    CopyFrom(value, &proto);
    return proto;
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("elements of type ", ToString(value.dtype()),
              " are not written as HDF5; .npy and .npz take them"),
       {.file = path});
}

}  // namespace

std::vector<std::string> Hdf5Names(const std::string& path) {
  const Hdf5Reader reader(path);
  std::vector<std::string> names = reader.Names("/");
  std::erase_if(names, [&](const std::string& name) { return reader.IsGroup(name); });
  return names;
}

std::vector<NamedArray> ReadHdf5Arrays(const std::string& path,
                                       std::span<const std::string> wanted) {
  const Hdf5Reader reader(path);
  std::vector<NamedArray> arrays;
  for (const std::string& name : reader.Names("/")) {
    if (std::ranges::count(wanted, name) == 0 || reader.IsGroup(name)) continue;
    arrays.push_back({.name = name, .value = TensorOf(reader.ReadArray(name))});
  }
  reader.CheckSum();
  return arrays;
}

void WriteHdf5Arrays(const std::string& path, std::span<const NamedArrayView> arrays) {
  uint64_t bytes = 0;
  std::vector<BlobProto> protos;
  for (const NamedArrayView& array : arrays) {
    if (array.name.find('/') != std::string::npos) {
      Fail(ErrorCode::kUnsupported,
           StrCat("'", array.name, "' cannot be the name of a data set because of its slash"),
           {.file = path});
    }
    protos.push_back(ProtoOf(array.value, path));
    bytes += array.value.bytes();
  }
  WriteHdf5Atomically(path, bytes, [&](Hdf5Writer& writer) {
    for (size_t i = 0; i < arrays.size(); ++i) writer.WriteData(arrays[i].name, protos[i]);
  });
}

}  // namespace crema
