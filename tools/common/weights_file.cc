#include "common/weights_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "common/models_folder.h"
#include "common/output_file.h"
#include "core/error.h"
#include "core/half.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/file.h"
#include "format/safetensors.h"
#include "format/sniff.h"
#include "inference/crema_file.h"
#include "inference/crema_layout.h"

namespace crema::tools {
namespace {

std::string StoredType(const BlobProto& blob) {
  if (blob.double_data_size() > 0) return "f64";
  if (blob.data_size() > 0 || !blob.has_raw_data()) return "f32";
  if (blob.raw_data_type() == FLOAT16) return "f16";
  return blob.raw_data_type() == DOUBLE ? "f64" : "f32";
}

bool IsF64(const BlobProto& blob) { return StoredType(blob) == "f64"; }

// Leaves shape and values, in the present form; a blob without values is left alone.
void Normalize(BlobProto* blob) {
  if (DataCount(*blob) == 0) return;
  Tensor values(ShapeOf(*blob), IsF64(*blob) ? DType::kF64 : DType::kF32);
  CopyTo(*blob, values.view());
  blob->Clear();
  CopyFrom(std::as_const(values).view(), blob);
}

void RefuseEqualNames(const StoredWeights& file) {
  std::set<std::string> seen;
  for (const LayerParameter& layer : file.net.layer()) {
    if (seen.insert(layer.name()).second) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("has two layers called '", layer.name(), "', so that names do not tell which"),
         {.file = file.path});
  }
}

void KeepLayersWithBlobs(NetParameter* net) {
  auto* layers = net->mutable_layer();
  layers->erase(std::remove_if(layers->begin(), layers->end(),
                               [](const LayerParameter& layer) { return layer.blobs_size() == 0; }),
                layers->end());
}

StoredWeights ReadModel(const std::string& path) {
  StoredWeights file{.path = path, .net = ReadCaffemodel(path), .stored = {}};
  KeepLayersWithBlobs(&file.net);
  for (LayerParameter& layer : *file.net.mutable_layer()) {
    std::vector<std::string>& types = file.stored.emplace_back();
    for (BlobProto& blob : *layer.mutable_blobs()) {
      types.push_back(StoredType(blob));
      Normalize(&blob);
    }
  }
  return file;
}

// Splits "conv1.0" into layer and blob. Throws unless it has this form.
std::pair<std::string, int> PlaceOf(const std::string& entry, const std::string& path) {
  constexpr size_t kMostDigits = 4;
  const size_t dot = entry.rfind('.');
  const std::string index = dot == std::string::npos ? "" : entry.substr(dot + 1);
  const bool is_index = !index.empty() && index.size() <= kMostDigits &&
                        index.find_first_not_of("0123456789") == std::string::npos;
  if (is_index) return {entry.substr(0, dot), std::stoi(index)};
  Fail(ErrorCode::kInvalidArgument,
       StrCat("holds '", entry,
              "', which does not name a layer and a blob, as conv1.0 does; for a "
              "state dict of PyTorch, use import --weights=",
              path, " --onto=NET -o OUT"),
       {.file = path});
}

StoredWeights ReadTensors(const std::string& path) {
  const std::unique_ptr<StateDict> dict = OpenSafetensors(path);
  StoredWeights file{.path = path, .net = {}, .stored = {}};
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < dict->entries().size(); ++i) {
    const StateEntry& entry = dict->entries()[i];
    const auto [name, blob] = PlaceOf(entry.name, path);
    const auto [place, is_new] = places.emplace(name, places.size());
    if (is_new) {
      file.net.add_layer()->set_name(name);
      file.stored.emplace_back();
    }
    LayerParameter* layer = file.net.mutable_layer(static_cast<int>(place->second));
    std::vector<std::string>& types = file.stored[place->second];
    while (layer->blobs_size() <= blob) layer->add_blobs();
    types.resize(static_cast<size_t>(layer->blobs_size()), "f32");
    types[static_cast<size_t>(blob)] = ToString(entry.type);
    std::ranges::transform(types[static_cast<size_t>(blob)],
                           types[static_cast<size_t>(blob)].begin(), ::tolower);
    const Tensor values = dict->Read(i);
    CopyFrom(values.view(), layer->mutable_blobs(blob));
  }
  return file;
}

// Gives layers the parameters that they share with an earlier one, which a .crema file stores once.
void FillShared(NetParameter* net) {
  std::map<std::string, const BlobProto*> owners;
  for (LayerParameter& layer : *net->mutable_layer()) {
    for (int i = 0; i < layer.param_size(); ++i) {
      const std::string& name = layer.param(i).name();
      if (name.empty()) continue;
      const auto owner = owners.find(name);
      if (owner == owners.end()) {
        if (i < layer.blobs_size()) owners[name] = &layer.blobs(i);
        continue;
      }
      while (layer.blobs_size() <= i) layer.add_blobs();
      *layer.mutable_blobs(i) = *owner->second;
    }
  }
}

StoredWeights ReadModelFile(const std::string& path) {
  constexpr uint32_t kMostBlobs = 10000;
  const MappedFile mapped(path);
  const CremaFileHeader header = ReadCremaFile(mapped.bytes(), path);
  StoredWeights file{.path = path, .net = header.net(), .stored = {}};
  std::map<std::string, LayerParameter*> layers;
  for (LayerParameter& layer : *file.net.mutable_layer()) layers[layer.name()] = &layer;
  std::set<std::pair<std::string, int>> bytes;  // weights stored as bytes: layer and index
  for (const StoredTensor& tensor : header.learned()) {
    const auto found = layers.find(tensor.name());
    if (found == layers.end() || tensor.index() >= kMostBlobs) {
      Fail(ErrorCode::kDataLoss,
           StrCat("is damaged: its net has no blob ", tensor.index(), " of this layer"),
           {.file = path, .layer = tensor.name()});
    }
    const int index = static_cast<int>(tensor.index());
    while (found->second->blobs_size() <= index) found->second->add_blobs();
    std::deque<Tensor> converted;
    if (tensor.type() == StoredTensor::I8) bytes.insert({tensor.name(), index});
    CopyFrom(WeightIn(mapped.bytes(), tensor, &converted), found->second->mutable_blobs(index));
  }
  FillShared(&file.net);
  KeepLayersWithBlobs(&file.net);
  for (const LayerParameter& layer : file.net.layer()) {
    std::vector<std::string>& types = file.stored.emplace_back();
    for (int i = 0; i < layer.blobs_size(); ++i) {
      types.emplace_back(bytes.contains({layer.name(), i}) ? "int8" : "f32");
    }
  }
  return file;
}

[[noreturn]] void FailBeyondF16(const std::string& layer, int blob, double value) {
  Fail(ErrorCode::kInvalidArgument, StrCat("layer '", layer, "', blob ", blob, " holds ", value,
                                           ", but f16 ends at 65504; leave --type out"));
}

// Returns the halves as bytes.
std::string HalvesOf(const BlobProto& blob, const std::string& layer, int index) {
  const std::vector<double> values = ValuesOf(blob);
  std::string bytes(values.size() * sizeof(uint16_t), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = FloatToHalf(static_cast<float>(values[i]));
    if (std::isfinite(values[i]) && !std::isfinite(HalfToFloat(half))) {
      FailBeyondF16(layer, index, values[i]);
    }
    std::memcpy(bytes.data() + i * sizeof(half), &half, sizeof(half));
  }
  return bytes;
}

void WriteHalves(NetParameter net, const std::string& output) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      BlobProto* blob = layer.mutable_blobs(i);
      if (DataCount(*blob) == 0) continue;
      blob->set_raw_data(HalvesOf(*blob, layer.name(), i));
      blob->set_raw_data_type(FLOAT16);
      blob->clear_data();
      blob->clear_double_data();
    }
  }
  WriteCaffemodel(net, output);
}

void WriteTensors(const NetParameter& net, const std::string& output, NumberType type) {
  std::vector<std::string> halves;  // keep their places: reserved
  std::vector<Tensor> tensors;
  std::vector<NamedArrayView> arrays;
  size_t count = 0;
  for (const LayerParameter& layer : net.layer()) count += static_cast<size_t>(layer.blobs_size());
  halves.reserve(count);
  tensors.reserve(count);
  for (const LayerParameter& layer : net.layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const BlobProto& blob = layer.blobs(i);
      if (DataCount(blob) == 0) continue;
      ConstTensorView view;
      if (type == NumberType::kF16) {
        halves.push_back(HalvesOf(blob, layer.name(), i));
        view = ConstTensorView(halves.back().data(), ShapeOf(blob), DType::kF16);
      } else {
        tensors.emplace_back(ShapeOf(blob), IsF64(blob) ? DType::kF64 : DType::kF32);
        CopyTo(blob, tensors.back().view());
        view = std::as_const(tensors.back()).view();
      }
      arrays.push_back({StrCat(layer.name(), ".", i), view});
    }
  }
  WriteSafetensors(output, arrays);
}

// Writes what layers share with each of them, which is no loss where all are read.
void WriteAllHdf5(NetParameter net, const std::string& output) {
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_param();
  WriteCaffemodelHdf5(net, output);
}

// A caffemodel has no place for a blob that another layer owns.
void RequireValues(const NetParameter& net, const std::string& output) {
  for (const LayerParameter& layer : net.layer()) {
    for (int i = 0; i < layer.blobs_size(); ++i) {
      if (DataCount(layer.blobs(i)) > 0) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("cannot be written: blob ", i, " is of another layer, which the input does not ",
                  "name; take the caffemodel of that run, or write .safetensors or .h5"),
           {.file = output, .layer = layer.name()});
    }
  }
}

bool IsHdf5(const std::string& path) { return path.ends_with(".h5") || path.ends_with(".hdf5"); }

}  // namespace

StoredWeights ReadWeights(const std::string& name) {
  const std::string path = ResolveZooFile(name, ".caffemodel");
  const std::string start = ReadFileStart(path, kSniffBytes);
  StoredWeights file = start.starts_with(crema_layout::kMagic)                ? ReadModelFile(path)
                       : LooksLikeSafetensors(start, RandomFile(path).size()) ? ReadTensors(path)
                                                                              : ReadModel(path);
  RefuseEqualNames(file);
  return file;
}

void CheckWeightsOutput(const std::string& output, std::span<const std::string> inputs) {
  if (output.ends_with(".crema")) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("-o: '", output, "': deploy export writes .crema files, which hold a net, too"));
  }
  for (const char* extension : {".pth", ".pt", ".npz", ".npy", ".onnx", ".prototxt"}) {
    if (!output.ends_with(extension)) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("-o: '", output, "': a caffemodel is written, HDF5 with .h5, or with .safetensors ",
                "named tensors; files of the kind ", extension, " are not"));
  }
  ProtectedFiles({inputs.begin(), inputs.end()}).RefuseToReplace("o", output);
  RemoveAbandoned(output);
  CheckOutputFile(output);
}

void WriteWeights(const NetParameter& net, const std::string& output, NumberType type) {
  if (output.ends_with(".safetensors")) return WriteTensors(net, output, type);
  if (IsHdf5(output)) {
    if (type == NumberType::kF16) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("'", output,
                  "': weights in HDF5 are f32; f16 goes to a .caffemodel or a "
                  ".safetensors"));
    }
    return WriteAllHdf5(net, output);
  }
  RequireValues(net, output);
  if (type == NumberType::kF16) return WriteHalves(net, output);
  WriteCaffemodel(net, output);
}

const LayerParameter& FindLayer(const StoredWeights& file, const std::string& name) {
  std::vector<std::string> names;
  for (const LayerParameter& layer : file.net.layer()) {
    if (layer.name() == name) return layer;
    names.push_back(layer.name());
  }
  Fail(ErrorCode::kNotFound,
       StrCat("has no layer '", name, "' with blobs", DidYouMean(name, names)),
       {.file = file.path});
}

std::vector<double> ValuesOf(const BlobProto& blob) {
  Tensor tensor(ShapeOf(blob), DType::kF64);
  CopyTo(blob, tensor.view());
  const auto values = std::as_const(tensor).view().span<double>();
  return {values.begin(), values.end()};
}

int64_t CountOf(const LayerParameter& layer) {
  int64_t count = 0;
  for (const BlobProto& blob : layer.blobs()) count += DataCount(blob);
  return count;
}

}  // namespace crema::tools
