#include "format/source_map.h"

#include <charconv>

#include "core/strings.h"

namespace crema {
namespace {

constexpr char kOrigin = '@';

// Returns true if `path` is `prefix` or below it, or has the origin of it.
bool IsWithin(std::string_view path, std::string_view prefix) {
  if (!path.starts_with(prefix)) return false;
  return path.size() == prefix.size() || path[prefix.size()] == '.' || path[prefix.size()] == '[' ||
         path[prefix.size()] == kOrigin;
}

}  // namespace

Where SourceMap::Locate(std::string_view path) const {
  Where where;
  where.file = file;
  while (!path.empty()) {
    const std::string set = StrCat(path, kOrigin);
    const auto origin = positions_.lower_bound(set);
    if (origin != positions_.end() && origin->first.starts_with(set)) {
      where.file = origin->first.substr(set.size());
      break;
    }
    auto entry = positions_.find(path);
    if (entry == positions_.end()) entry = positions_.find(std::string(path) + "[0]");
    if (entry != positions_.end()) {
      where.line = entry->second.line;
      where.column = entry->second.column;
      break;
    }
    const size_t dot = path.rfind('.');
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
  return where;
}

bool SourceMap::Has(std::string_view path) const { return positions_.contains(path); }

void SourceMap::Add(std::string path, Position position) {
  positions_.emplace(std::move(path), position);
}

void SourceMap::Move(std::string_view from, std::string_view to) {
  for (auto& [path, position] : Take(from)) {
    positions_.insert_or_assign(std::string(to) + path.substr(from.size()), position);
  }
}

void SourceMap::Remove(std::string_view path) { Take(path); }

void SourceMap::SetOrigin(std::string_view path, std::string_view origin) {
  Take(path);
  Add(StrCat(path, kOrigin, origin), {});
}

std::vector<std::pair<std::string, Position>> SourceMap::Take(std::string_view path) {
  std::vector<std::pair<std::string, Position>> taken;
  auto entry = positions_.lower_bound(path);
  while (entry != positions_.end() && entry->first.starts_with(path)) {
    if (IsWithin(entry->first, path)) {
      taken.emplace_back(*entry);
      entry = positions_.erase(entry);
    } else {
      ++entry;
    }
  }
  return taken;
}

SourceMap SourceMap::Below(std::string_view path) const {
  SourceMap below;
  below.file = file;
  const std::string start = std::string(path) + '.';
  for (auto entry = positions_.lower_bound(start);
       entry != positions_.end() && entry->first.starts_with(start); ++entry) {
    below.positions_.emplace(entry->first.substr(start.size()), entry->second);
  }
  return below;
}

void SourceMap::SetBelow(std::string_view path, const SourceMap& below) {
  const auto kept = positions_.find(path);
  const Position own = kept == positions_.end() ? Position() : kept->second;
  Take(path);
  if (own.line > 0) Add(std::string(path), own);
  for (const auto& [inner, position] : below.positions_) {
    positions_.insert_or_assign(StrCat(path, ".", inner), position);
  }
}

void SourceMap::ShiftUp(std::string_view repeated_field) {
  const std::string start = std::string(repeated_field) + '[';
  std::vector<std::pair<std::string, Position>> moved;
  auto entry = positions_.lower_bound(start);
  while (entry != positions_.end() && entry->first.starts_with(start)) {
    const std::string& path = entry->first;
    const size_t close = path.find(']', start.size());
    int index = 0;
    std::from_chars(path.data() + start.size(), path.data() + close, index);
    moved.emplace_back(StrCat(start, index + 1, path.substr(close)), entry->second);
    entry = positions_.erase(entry);
  }
  for (auto& [path, position] : moved) positions_.insert_or_assign(std::move(path), position);
}

}  // namespace crema
