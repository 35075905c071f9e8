// The ways in which Crema reads untrusted files, for libFuzzer and for the corpus of broken files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema::test {

// Returns the bytes that reading a file may allocate at most, for any contents: live bytes above
// those at the start. Tensors of nets that planning accepts are additional. The factor is that of
// "layer{}": seven bytes make a LayerParameter with fields for a hundred messages.
constexpr int64_t MostBytesFor(size_t file_bytes) {
  return (int64_t{64} << 20) + 256 * static_cast<int64_t>(file_bytes);
}

// Each returns the text of the Error that the bytes end with, empty when they are accepted. Any
// other exception passes through: it is a bug.
// A net: parsed, planned for both phases, and run once if it is small and reads no files.
std::string TryPrototxt(std::string_view bytes);
std::string TrySolver(std::string_view bytes);
// A caffemodel: read, and loaded into a small net.
std::string TryCaffemodel(std::string_view bytes);
std::string TrySolverState(std::string_view bytes);
// An HDF5 file: read as a caffemodel, a solver state, and data. The error is that of the first,
// unless it is a solver state.
std::string TryHdf5(std::string_view bytes);
// A record of a data set, raw or with an encoded image.
std::string TryDatum(std::string_view bytes);
// An image file: whole in each colour mode; of a JPEG also a part, which must be that of the whole,
// and a small version. The error is that of the last mode.
std::string TryImage(std::string_view bytes);
// A record with boxes: counted, read and, if it is small, augmented.
std::string TryAnnotated(std::string_view bytes);
// A tar shard: opened, and all its samples read. The error is that of opening it.
std::string TryTar(std::string_view bytes);
// The data file of an LMDB: all its records read, in order and by number. The error is the first.
std::string TryLmdb(std::string_view bytes);
// A list of image files after a byte whose first bit selects CSV; the next two bits are the number
// of labels.
std::string TryList(std::string_view bytes);
// A window file, and where its windows go.
std::string TryWindows(std::string_view bytes);
// An HDF5 file with a dataset `data`, read row by row as HDF5Data does.
std::string TryHdf5Rows(std::string_view bytes);

// A .crema file: as it is, and with the sizes and the checksum that its bytes would need; opened
// where it is accepted and its net is small. The error is that of the first.
std::string TryModelFile(std::string_view bytes);

// A state dict, .safetensors, .pth or .pt: opened, matched with a small net, and its small tensors
// read. A pickle alone, after a byte 0xFF.
std::string TryStateDict(std::string_view bytes);

// An ONNX file: read, with its tensors; its functions inlined.
std::string TryOnnx(std::string_view bytes);
// The same file as a net: imported for both dialects, planned, and run once if it is small. The
// error is that of any layer.
std::string TryOnnxNet(std::string_view bytes);

}  // namespace crema::test
