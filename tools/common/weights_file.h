// Weights files of all formats, for commands that change or convert them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema::tools {

struct StoredWeights {
  std::string path;
  // Layers with blobs. Blobs have f32 or f64 values; one that another layer owns (HDF5) has none.
  NetParameter net;
  std::vector<std::vector<std::string>> stored;  // element type in the file, by layer and blob
};

enum class NumberType { kF32, kF16 };

// Reads a caffemodel, its HDF5 form, a .crema file, or safetensors whose tensors are called
// LAYER.0, LAYER.1, ..., as WriteWeights calls them. Throws what ReadCaffemodel, ReadCremaFile and
// OpenSafetensors throw, and kInvalidArgument for safetensors with other names, or layers of one
// name.
StoredWeights ReadWeights(const std::string& path);

// Throws kInvalidArgument if `output` has the extension of another kind of file or is one of
// `inputs`, kIoFailure if it cannot be written.
void CheckWeightsOutput(const std::string& output, std::span<const std::string> inputs);

// Writes atomically, in the format of the extension: .h5 or .hdf5, .safetensors, any other: a
// caffemodel. f16 in a caffemodel is NVCaffe's, which BVLC Caffe does not read. Throws what the
// writers throw, kInvalidArgument for numbers beyond f16, for f16 in HDF5, and for a blob without
// values in a caffemodel.
void WriteWeights(const NetParameter& net, const std::string& output, NumberType type);

// Returns the layer of this name. Throws kNotFound, with a similar name.
const LayerParameter& FindLayer(const StoredWeights& file, const std::string& name);

// Returns the values of a blob. Throws kDataLoss if their number does not fit its shape.
std::vector<double> ValuesOf(const BlobProto& blob);

// Returns the number of values.
int64_t CountOf(const LayerParameter& layer);

}  // namespace crema::tools
