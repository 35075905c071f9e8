#include "support/torch_files.h"

#include "format/seal.h"

namespace crema::test {
namespace {

template <typename T>
std::string Number(T value) {
  return BytesOf<T>({value});
}

int64_t CountOf(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  return count;
}

}  // namespace

PickleWriter& PickleWriter::Text(const std::string& text) {
  return Raw("X" + Number(static_cast<uint32_t>(text.size())) + text);
}

PickleWriter& PickleWriter::Integer(int64_t number) {
  if (number >= 0 && number < 256) return Raw("K" + std::string(1, static_cast<char>(number)));
  if (number >= INT32_MIN && number <= INT32_MAX) {
    return Raw("J" + Number(static_cast<int32_t>(number)));
  }
  return Raw("\x8A\x08" + Number(number));
}

PickleWriter& PickleWriter::Integers(const std::vector<int64_t>& numbers) {
  Raw("(");
  for (const int64_t number : numbers) Integer(number);
  return Raw("t");
}

PickleWriter& PickleWriter::Storage(const std::string& type, const std::string& key, int64_t count,
                                    bool old_format) {
  Raw("(").Text("storage").Global("torch", type + "Storage").Text(key).Text("cpu").Integer(count);
  return Raw(old_format ? "NtQ" : "tQ");
}

PickleWriter& PickleWriter::Tensor(const std::string& type, const std::string& key, int64_t count,
                                   int64_t offset, const std::vector<int64_t>& shape,
                                   const std::vector<int64_t>& strides, bool old_format) {
  Global("torch._utils", "_rebuild_tensor_v2").Raw("(").Storage(type, key, count, old_format);
  Integer(offset).Integers(shape).Integers(strides).Raw("\x89");
  return Global("collections", "OrderedDict").Raw(")RtR");
}

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string StateDictPickle(const std::vector<TorchTensor>& tensors, bool old_format) {
  PickleWriter pickle;
  pickle.Global("collections", "OrderedDict").Raw(")Rq");
  pickle.Raw(std::string(1, '\0')).Raw("(");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TorchTensor& t = tensors[i];
    pickle.Text(t.name).Tensor(t.type, std::to_string(i), CountOf(t.shape), 0, t.shape,
                               DenseStrides(t.shape), old_format);
  }
  // The attribute _metadata, which state dicts have.
  pickle.Raw("u}").Text("_metadata").Global("collections", "OrderedDict").Raw(")Rsb");
  return pickle.Stop();
}

std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string zip;
  std::string list;
  for (const auto& [name, bytes] : files) {
    const auto size = static_cast<uint32_t>(bytes.size());
    const std::string facts = Number<uint16_t>(20) + Number<uint16_t>(0) + Number<uint16_t>(0) +
                              Number<uint32_t>(0x00210000) + Number(Crc32(bytes)) + Number(size) +
                              Number(size) + Number(static_cast<uint16_t>(name.size())) +
                              Number<uint16_t>(0);
    list += "PK\x01\x02" + Number<uint16_t>(20) + facts + std::string(10, '\0') +
            Number(static_cast<uint32_t>(zip.size())) + name;
    zip += "PK\x03\x04" + facts + name + bytes;
  }
  const auto count = static_cast<uint16_t>(files.size());
  const auto begin = static_cast<uint32_t>(zip.size());
  return zip + list + "PK\x05\x06" + std::string(4, '\0') + Number(count) + Number(count) +
         Number(static_cast<uint32_t>(list.size())) + Number(begin) + Number<uint16_t>(0);
}

std::string TorchZip(const std::string& pickle,
                     const std::vector<std::pair<std::string, std::string>>& storages) {
  std::vector<std::pair<std::string, std::string>> files = {{"archive/data.pkl", pickle},
                                                            {"archive/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) files.emplace_back("archive/data/" + key, bytes);
  files.emplace_back("archive/version", "3\n");
  return ZipOf(files);
}

std::string TorchZip(const std::vector<TorchTensor>& tensors) {
  std::vector<std::pair<std::string, std::string>> storages;
  for (const TorchTensor& tensor : tensors) {
    storages.emplace_back(std::to_string(storages.size()), tensor.bytes);
  }
  return TorchZip(StateDictPickle(tensors), storages);
}

std::string OldTorchFile(const std::vector<TorchTensor>& tensors) {
  PickleWriter magic;
  magic.Raw(std::string("\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19", 12));
  PickleWriter system;
  system.Raw("}(").Text("protocol_version").Integer(1001).Text("little_endian").Raw("\x88u");
  PickleWriter keys;
  keys.Raw("](");
  std::string elements;
  for (size_t i = 0; i < tensors.size(); ++i) {
    keys.Text(std::to_string(i));
    elements += Number(CountOf(tensors[i].shape)) + tensors[i].bytes;
  }
  keys.Raw("e");
  return magic.Stop() + PickleWriter().Integer(1001).Stop() + system.Stop() +
         StateDictPickle(tensors, true) + keys.Stop() + elements;
}

}  // namespace crema::test
