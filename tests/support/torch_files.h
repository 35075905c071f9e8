// Files of torch.save, written byte by byte.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace crema::test {

template <typename T>
std::string BytesOf(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

// Opcodes of protocol 2, as torch.save writes them.
class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}

  PickleWriter& Raw(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  PickleWriter& Global(const std::string& module, const std::string& name) {
    return Raw("c" + module + "\n" + name + "\n");
  }
  PickleWriter& Text(const std::string& text);
  PickleWriter& Integer(int64_t number);
  PickleWriter& Integers(const std::vector<int64_t>& numbers);  // a tuple
  // The place of a storage of PyTorch's type `type` ("Float"), by BINPERSID.
  PickleWriter& Storage(const std::string& type, const std::string& key, int64_t count,
                        bool old_format = false);
  // _rebuild_tensor_v2 of a storage that is only for it.
  PickleWriter& Tensor(const std::string& type, const std::string& key, int64_t count,
                       int64_t offset, const std::vector<int64_t>& shape,
                       const std::vector<int64_t>& strides, bool old_format = false);
  // The whole pickle.
  std::string Stop() const { return bytes_ + "."; }

 private:
  std::string bytes_;
};

struct TorchTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string bytes;
  std::string type = "Float";
};

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& shape);
// An OrderedDict of dense tensors, whose storages are "0", "1", ...
std::string StateDictPickle(const std::vector<TorchTensor>& tensors, bool old_format = false);

// A zip of files without compression.
std::string ZipOf(const std::vector<std::pair<std::string, std::string>>& files);
// The zip with data.pkl and these storages, by key, in a folder "archive".
std::string TorchZip(const std::string& pickle,
                     const std::vector<std::pair<std::string, std::string>>& storages);
std::string TorchZip(const std::vector<TorchTensor>& tensors);
// The format before PyTorch 1.6.
std::string OldTorchFile(const std::vector<TorchTensor>& tensors);

}  // namespace crema::test
