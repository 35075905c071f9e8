// Finds the state dict in the dicts of a checkpoint.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "format/torch_file.h"

namespace crema {
namespace {

using Kind = PickledValue::Kind;

constexpr int kMostDepth = 32;
constexpr size_t kMostName = 1024;

// Keys under which training scripts store the parameters, the likeliest first.
constexpr std::array<std::string_view, 9> kUsualKeys = {
    "state_dict", "model_state_dict", "model_state", "model",  "net",
    "network",    "module",           "weights",     "params",
};
// And what else holds tensors.
constexpr std::array<std::string_view, 8> kOtherKeys = {
    "optimizer", "optimizer_state_dict", "optimizer_states", "optim",
    "scheduler", "lr_scheduler",         "scaler",           "amp",
};

// A dict, reached by the first of its keys.
struct Node {
  const PickledValue* dict = nullptr;
  int parent = -1;
  int depth = 0;
  std::string key = {};
  size_t own = 0;  // tensors in it
  size_t all = 0;  // and in dicts within it
};

class Finder {
 public:
  Finder(const Pickle& pickle, const std::string& path) : pickle_(pickle), path_(path) {
    const PickledValue& root = pickle_.values[pickle_.root];
    if (root.kind != Kind::kDict) {
      Refuse(root.kind == Kind::kTensor ? "holds a tensor without a name, no state dict"
                                        : "holds no state dict: it is no dict of tensors",
             "write torch.save(model.state_dict(), ...)");
    }
    nodes_.push_back({.dict = &root});
    seen_.insert(&root);
    for (size_t i = 0; i < nodes_.size(); ++i) AddChildren(static_cast<int>(i));
    for (size_t i = nodes_.size(); i-- > 0;) {
      nodes_[i].all += nodes_[i].own;
      if (nodes_[i].parent >= 0) nodes_[static_cast<size_t>(nodes_[i].parent)].all += nodes_[i].all;
    }
    if (nodes_[0].all == 0) Refuse("holds no tensors", "write torch.save(model.state_dict(), ...)");
  }

  PickledStateDict Find(const std::string& key) {
    int node = 0;
    if (key.empty()) {
      while (nodes_[static_cast<size_t>(node)].own == 0) node = ChildOf(node);
    } else if (key != ".") {
      node = NodeOf(key);
    }
    PickledStateDict found{.key = PathOf(node), .tensors = {}};
    for (size_t i = static_cast<size_t>(node); i < nodes_.size(); ++i) {
      if (IsWithin(static_cast<int>(i), node)) Collect(static_cast<int>(i), node, &found);
    }
    return found;
  }

 private:
  [[noreturn]] void Refuse(const std::string& what, const std::string& remedy) const {
    Fail(ErrorCode::kInvalidArgument, StrCat(what, "; ", remedy), {.file = path_});
  }

  std::string KeyText(uint32_t index) const {
    const PickledValue& value = pickle_.values[index];
    if (value.kind == Kind::kInteger) return std::to_string(value.number);
    if (value.kind != Kind::kText) return "?";
    if (value.text.size() > kMostName) Refuse("has a key of more than 1024 bytes", "rename it");
    return std::string(value.text);
  }

  void AddChildren(int index) {
    const std::vector<uint32_t>& items = nodes_[static_cast<size_t>(index)].dict->items;
    const int depth = nodes_[static_cast<size_t>(index)].depth + 1;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickledValue& value = pickle_.values[items[i + 1]];
      if (value.kind == Kind::kTensor) ++nodes_[static_cast<size_t>(index)].own;
      if (value.kind != Kind::kDict || !seen_.insert(&value).second) continue;
      if (depth > kMostDepth) Refuse("has dicts nested deeper than 32", "write the inner one");
      nodes_.push_back({&value, index, depth, KeyText(items[i])});
    }
  }

  std::vector<int> ChildrenOf(int parent) const {
    std::vector<int> children;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].parent == parent && nodes_[i].all > 0) children.push_back(static_cast<int>(i));
    }
    return children;
  }

  // Returns the child that has the parameters.
  int ChildOf(int parent) const {
    std::vector<int> children = ChildrenOf(parent);
    const auto key = [&](int child) { return nodes_[static_cast<size_t>(child)].key; };
    for (const std::string_view usual : kUsualKeys) {
      const auto found = std::ranges::find(children, usual, key);
      if (found != children.end()) return *found;
    }
    std::erase_if(children, [&](int child) { return std::ranges::count(kOtherKeys, key(child)); });
    if (children.size() == 1) return children[0];
    std::string list;
    for (const int child : ChildrenOf(parent)) {
      list += StrCat(list.empty() ? "" : ", ", "'", PathOf(child), "' with ",
                     nodes_[static_cast<size_t>(child)].all, " tensors");
      if (list.size() > kMostName) break;
    }
    Refuse(StrCat("holds several state dicts: ", list),
           "choose one with --key=NAME, or all together with --key=.");
  }

  std::string PathOf(int node) const {
    std::string path;
    for (; node > 0; node = nodes_[static_cast<size_t>(node)].parent) {
      path = nodes_[static_cast<size_t>(node)].key + (path.empty() ? "" : ".") + path;
    }
    return path;
  }

  int NodeOf(const std::string& key) const {
    std::vector<std::string> known;
    for (size_t i = 1; i < nodes_.size(); ++i) {
      if (nodes_[i].all == 0) continue;
      const int node = static_cast<int>(i);
      if (PathOf(node) == key) return node;
      if (known.size() < 20) known.push_back(PathOf(node));
    }
    Refuse(StrCat("has no dict of tensors with the key '", key, "'", DidYouMean(key, known)),
           known.empty() ? "leave --key out" : StrCat("it has ", Join(known, ", ")));
  }

  bool IsWithin(int node, int outer) const {
    while (node > outer) node = nodes_[static_cast<size_t>(node)].parent;
    return node == outer;
  }

  // Adds the tensors of a dict, named from `outer` on. A later value of a key replaces an earlier
  // one.
  void Collect(int node, int outer, PickledStateDict* found) {
    std::string prefix;
    for (int n = node; n != outer; n = nodes_[static_cast<size_t>(n)].parent) {
      prefix = nodes_[static_cast<size_t>(n)].key + "." + prefix;
    }
    const std::vector<uint32_t>& items = nodes_[static_cast<size_t>(node)].dict->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickledValue& value = pickle_.values[items[i + 1]];
      if (value.kind != Kind::kTensor) continue;
      std::string name = prefix + KeyText(items[i]);
      if (name.size() > kMostName) Refuse("has a name of more than 1024 bytes", "rename it");
      const auto [at, added] = places_.emplace(name, found->tensors.size());
      if (added) {
        found->tensors.emplace_back(std::move(name), static_cast<size_t>(value.number));
      } else {
        found->tensors[at->second].second = static_cast<size_t>(value.number);
      }
    }
  }

  const Pickle& pickle_;
  const std::string& path_;
  std::vector<Node> nodes_;
  std::set<const PickledValue*> seen_;
  std::map<std::string, size_t> places_;
};

}  // namespace

PickledStateDict FindStateDict(const Pickle& pickle, const std::string& key,
                               const std::string& path) {
  return Finder(pickle, path).Find(key);
}

}  // namespace crema
