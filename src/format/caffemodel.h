// Reads and writes weights files and single arrays.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

// Reads a weights file of Caffe or Crema: HDF5 (detected by its contents) or binary, upgraded to
// the present format. From HDF5 it contains only names and blobs of the layers, unordered; a blob
// that another layer owns has neither shape nor values. A file may exceed protobuf's 2 GiB, a
// single layer may not. Throws kNotFound, kDataLoss for a damaged file or one without weights,
// kUnsupported for HDF5 in a build without it.
NetParameter ReadCaffemodel(const std::string& path);

// Does the same for HDF5 alone.
NetParameter ReadHdf5Caffemodel(const std::string& path);

// Reads a binary NetParameter, such as a recording, which need not have weights. Checks it for
// damage and upgrades it.
NetParameter ReadNetBinary(const std::string& path);

// Reads one array, such as a mean image. Throws like ReadCaffemodel.
BlobProto ReadBlobProtoFile(const std::string& path);

// Writes binary with our checksum, atomically. Throws kIoFailure, or kUnsupported above 2 GiB.
void WriteCaffemodel(const NetParameter& net, const std::string& path);

// Writes HDF5 in Caffe's layout, including gradients if the blobs have them. Leaves out what
// another layer owns: by the names of parameters, or because the blob has neither shape nor values.
// Throws like CheckHdf5LayerNames.
void WriteCaffemodelHdf5(const NetParameter& net, const std::string& path);

// Throws kInvalidArgument for layer names that HDF5 cannot hold: with '/', empty, or duplicate.
// Caffe cannot write or read such layers in HDF5, either. `path` is the file; empty: not known yet.
void CheckHdf5LayerNames(const NetParameter& net, const std::string& path);

// Returns the CRC-32 of a whole file, for SolverState.weights_crc32.
uint32_t FileCrc32(const std::string& path);

}  // namespace crema
