// Weights files and single arrays.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

// A weights file of Caffe or of ours: HDF5 (told by its contents), or binary and then upgraded to
// the present format. Of HDF5 only names and blobs of the layers are there, in no special order; a
// blob that another layer owns is there without shape and values. Files may be larger than
// protobuf's 2 GiB, a single layer not. Throws kNotFound, kDataLoss for what is damaged or not a
// weights file, kUnsupported for HDF5 in a build without it.
NetParameter ReadCaffemodel(const std::string& path);

// A NetParameter in binary, such as a recording, which need not have weights. Checked for damage
// and upgraded.
NetParameter ReadNetBinary(const std::string& path);

// One array, such as a mean image. Throws as ReadCaffemodel.
BlobProto ReadBlobProtoFile(const std::string& path);

// Binary, with our checksum, atomically. Throws kIoFailure, or kUnsupported above 2 GiB.
void WriteCaffemodel(const NetParameter& net, const std::string& path);

// HDF5 in Caffe's layout: gradients too, if the blobs have them. Throws kInvalidArgument for layer
// names that HDF5 cannot hold (with '/', or twice the same).
void WriteCaffemodelHdf5(const NetParameter& net, const std::string& path);

// CRC-32 of a whole file, as SolverState.weights_crc32 keeps it.
uint32_t FileCrc32(const std::string& path);

}  // namespace crema
