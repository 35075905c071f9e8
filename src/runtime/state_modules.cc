#include "runtime/state_modules.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/strings.h"

namespace crema {
namespace {

// Wrappers of a model: DataParallel, torch.compile, and attributes of training classes.
constexpr std::array<std::string_view, 4> kWrappers = {"module.", "_orig_mod.", "model.", "net."};

bool IsFloat(ElementType type) {
  return type == ElementType::kF64 || type == ElementType::kF32 || type == ElementType::kF16 ||
         type == ElementType::kBF16;
}

std::string CommonWrapper(const std::vector<StateEntry>& entries) {
  std::string prefix;
  for (bool found = !entries.empty(); found;) {
    found = false;
    for (const std::string_view wrapper : kWrappers) {
      const std::string longer = StrCat(prefix, wrapper);
      if (!std::ranges::all_of(entries, [&](const StateEntry& e) {
            return e.name.size() > longer.size() && e.name.starts_with(longer);
          })) {
        continue;
      }
      prefix = longer;
      found = true;
      break;
    }
  }
  return prefix;
}

struct Parts {
  std::string module;
  std::string entry;
};

// weight_ih_l1_reverse of "lstm" is weight_ih_l0_reverse of "lstm.l1".
bool SplitRecurrent(const std::string& module, const std::string& last, Parts* split) {
  for (const std::string_view kind : {"weight_ih_l", "weight_hh_l", "bias_ih_l", "bias_hh_l"}) {
    if (!last.starts_with(kind)) continue;
    const size_t end = std::min(last.find('_', kind.size()), last.size());
    const std::string number = last.substr(kind.size(), end - kind.size());
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return false;
    *split = {StrCat(module, module.empty() ? "l" : ".l", number),
              StrCat(kind, "0", last.substr(end))};
    return true;
  }
  return false;
}

Parts SplitName(const std::string& name) {
  constexpr std::array<std::string_view, 4> kEntries = {"weight", "bias", "running_mean",
                                                        "running_var"};
  const size_t dot = name.rfind('.');
  const std::string module = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
  if (std::ranges::count(kEntries, last) > 0) return {module, last};
  Parts split;
  if (SplitRecurrent(module, last, &split)) return split;
  for (const std::string_view entry : {"weight", "bias"}) {  // of torch.nn.MultiheadAttention
    if (last == StrCat("in_proj_", entry)) {
      return {StrCat(module, ".in_proj"), std::string(entry)};
    }
  }
  return {name, ""};
}

// The names of each element type are in order.
bool IsSorted(const std::vector<StateEntry>& entries) {
  std::map<ElementType, std::string_view> last;
  return std::ranges::all_of(entries, [&](const StateEntry& entry) {
    std::string_view& before = last[entry.type];
    const bool after = before <= entry.name;
    before = entry.name;
    return after;
  });
}

// Compares numbers in names by their values.
bool ComesBefore(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto take_number = [&](std::string_view* text) {
    const auto end = std::ranges::find_if_not(*text, is_digit);
    std::string_view number = text->substr(0, static_cast<size_t>(end - text->begin()));
    text->remove_prefix(number.size());
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
  };
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view x = take_number(&a);
      const std::string_view y = take_number(&b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

}  // namespace

StateModules GroupEntries(const std::vector<StateEntry>& entries) {
  StateModules grouped;
  grouped.prefix = CommonWrapper(entries);
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < entries.size(); ++i) {
    grouped.names.push_back(entries[i].name.substr(grouped.prefix.size()));
    Parts split = SplitName(grouped.names.back());
    if (split.entry.empty() && !IsFloat(entries[i].type)) continue;
    const auto [at, added] = places.emplace(split.module, grouped.modules.size());
    if (added) grouped.modules.push_back({split.module, {}});
    grouped.modules[at->second].entries.emplace(split.entry, static_cast<int>(i));
  }
  grouped.sorted = IsSorted(entries);
  if (grouped.sorted) std::ranges::stable_sort(grouped.modules, ComesBefore, &StateModule::name);
  return grouped;
}

}  // namespace crema
