// Weights in HDF5 with Caffe's layout: /data/<layer>/<i>, and gradients in /diff/<layer>/<i>.
#include <algorithm>
#include <set>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "format/hdf5_file.h"

namespace crema {
namespace {

// Returns true if an earlier layer owns the values of parameter `i` (see ParamSpec.name).
bool IsSharedCopy(const LayerParameter& layer, int i, std::set<std::string>* owned) {
  if (i >= layer.param_size() || layer.param(i).name().empty()) return false;
  return !owned->insert(layer.param(i).name()).second;
}

bool HasGradients(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    for (const BlobProto& blob : layer.blobs()) {
      if (DiffCount(blob) > 0) return true;
    }
  }
  return false;
}

void WriteLayer(const LayerParameter& layer, bool with_diff, std::set<std::string>* owned,
                Hdf5Writer* writer) {
  writer->MakeGroup("/data/" + layer.name());
  if (with_diff) writer->MakeGroup("/diff/" + layer.name());
  for (int i = 0; i < layer.blobs_size(); ++i) {
    const BlobProto& blob = layer.blobs(i);
    const std::string dataset = StrCat(layer.name(), "/", i);
    const bool is_absent = !blob.has_shape() && DataCount(blob) == 0;
    if (!IsSharedCopy(layer, i, owned) && !is_absent) writer->WriteData("/data/" + dataset, blob);
    if (with_diff && DiffCount(blob) > 0) writer->WriteDiff("/diff/" + dataset, blob);
  }
}

// Index of a blob's dataset; -1 for names that Caffe does not use.
int BlobIndex(const std::string& name) {
  constexpr size_t kMostDigits = 4;
  const bool is_number =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (name.empty() || name.size() > kMostDigits || !is_number) return -1;
  return std::stoi(name);
}

void MoveToDiff(BlobProto* values, BlobProto* blob) {
  blob->mutable_diff()->Swap(values->mutable_data());
  blob->mutable_double_diff()->Swap(values->mutable_double_data());
}

void ReadLayer(const Hdf5Reader& reader, LayerParameter* layer) {
  const std::string group = "/data/" + layer->name();
  for (const std::string& name : reader.Names(group)) {
    const int index = BlobIndex(name);
    if (index < 0) reader.FailDamaged(StrCat("'", group, "/", name, "' is not a blob"));
    // A blob that another layer owns is not in the file; it stays without shape and values.
    while (layer->blobs_size() <= index) layer->add_blobs();
    *layer->mutable_blobs(index) = reader.ReadArray(StrCat(group, "/", name));
    const std::string diff = StrCat("/diff/", layer->name(), "/", name);
    if (!reader.Has("/diff") || !reader.Has("/diff/" + layer->name()) || !reader.Has(diff))
      continue;
    BlobProto gradients = reader.ReadArray(diff);
    MoveToDiff(&gradients, layer->mutable_blobs(index));
  }
}

}  // namespace

NetParameter ReadHdf5Caffemodel(const std::string& path) {
  const Hdf5Reader reader(path);
  if (!reader.Has("/data") || !reader.IsGroup("/data")) {
    const bool is_state = reader.Has("iter") && reader.Has("learned_net");
    Fail(ErrorCode::kDataLoss,
         is_state
             ? StrCat("is a solver state, not a weights file: train takes it with --resume; its "
                      "weights are in '",
                      reader.ReadString("learned_net"), "'")
             : "is an HDF5 file, but not of weights: it has no group 'data'",
         {.file = path});
  }
  NetParameter net;
  for (const std::string& name : reader.Names("/data")) {
    if (!reader.IsGroup("/data/" + name)) {
      reader.FailDamaged("'/data/" + name + "' is not a layer (a file for HDF5Data?)");
    }
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    ReadLayer(reader, layer);
  }
  reader.CheckSum();
  return net;
}

void WriteCaffemodelHdf5(const NetParameter& net, const std::string& path) {
  CheckHdf5LayerNames(net, path);
  const bool with_diff = HasGradients(net);
  WriteHdf5Atomically(path, net.ByteSizeLong(), [&](Hdf5Writer& writer) {
    writer.MakeGroup("/data");
    if (with_diff) writer.MakeGroup("/diff");
    std::set<std::string> owned;
    for (const LayerParameter& layer : net.layer()) WriteLayer(layer, with_diff, &owned, &writer);
  });
}

}  // namespace crema
