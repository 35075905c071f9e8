#include "check_data/print.h"

#include <algorithm>

#include "common/json.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

uint64_t MostOf(const std::map<int, uint64_t>& labels) {
  uint64_t most = 0;
  for (const auto& [label, count] : labels) most = std::max(most, count);
  return most;
}

uint64_t LeastOf(const std::map<int, uint64_t>& labels) {
  uint64_t least = UINT64_MAX;
  for (const auto& [label, count] : labels) least = std::min(least, count);
  return least;
}

// One bar per label, if there are few.
std::string Histogram(const SetSummary& set) {
  constexpr size_t kMostBars = 50;
  constexpr uint64_t kBar = 40;
  const uint64_t most = MostOf(set.labels);
  std::string text = StrCat("  ", set.labels.size(), " labels, ", LeastOf(set.labels), " to ", most,
                            set.boxes > 0 ? " boxes each\n" : " images each\n");
  if (set.labels.size() > kMostBars) return text;
  for (const auto& [label, count] : set.labels) {
    const std::string name = StrCat(label);
    text += std::string(6 - std::min<size_t>(5, name.size()), ' ') + name + "  ";
    text += std::string(std::max<uint64_t>(1, count * kBar / most), '#') + StrCat(" ", count, "\n");
  }
  return text;
}

std::string Describe(const SetSummary& set) {
  std::string text = StrCat(set.path, ": ", set.records, " records");
  if (set.encoded > 0) text += StrCat(", ", set.encoded, " encoded");
  if (set.annotated > 0) {
    text += StrCat(", ", set.annotated, " with annotations, ", set.boxes, " boxes");
  }
  if (set.sizes.size() == 1) {
    const std::array<int, 3>& size = set.sizes.begin()->first;
    text += StrCat(", ", size[0], "x", size[1], "x", size[2]);
  }
  text += "\n";
  return set.labels.empty() ? text : text + Histogram(set);
}

template <typename Map>
std::string JsonCounts(const Map& counts) {
  std::string text = "{";
  for (const auto& [key, count] : counts) {
    text += StrCat(text.size() > 1 ? "," : "", "\"", key, "\":", count);
  }
  return text + "}";
}

std::string JsonSet(const SetSummary& set) {
  std::map<std::string, uint64_t> sizes;
  for (const auto& [size, count] : set.sizes) {
    sizes[StrCat(size[0], "x", size[1], "x", size[2])] = count;
  }
  return StrCat("{\"path\":", JsonString(set.path), ",\"records\":", set.records,
                ",\"encoded\":", set.encoded, ",\"annotated\":", set.annotated,
                ",\"broken\":", set.broken.count, ",\"gray\":", set.gray.count,
                ",\"gray_in_color\":", set.gray_in_color.count, ",\"alpha\":", set.alpha.count,
                ",\"boxes\":", set.boxes, ",\"bad_boxes\":", set.bad_boxes.count,
                ",\"labels\":", JsonCounts(set.labels), ",\"sizes\":", JsonCounts(sizes), "}");
}

std::string JsonFinding(const Finding& finding) {
  std::string examples;
  for (const std::string& text : finding.examples.texts) {
    examples += (examples.empty() ? "" : ",") + JsonString(text);
  }
  return StrCat("{\"severity\":\"", finding.problem ? "problem" : "note",
                "\",\"kind\":", JsonString(finding.kind), ",\"set\":", JsonString(finding.set),
                ",\"count\":", finding.examples.count, ",\"examples\":[", examples, "]}");
}

}  // namespace

std::string ReportText(std::span<const SetSummary> sets, std::span<const Finding> findings) {
  std::string text;
  for (const SetSummary& set : sets) text += Describe(set);
  for (const Finding& finding : findings) {
    text += StrCat(finding.problem ? "problem: " : "note: ", finding.set, ": ",
                   finding.examples.count, " ", finding.text, "\n");
    for (const std::string& example : finding.examples.texts) {
      text += StrCat("    ", example, "\n");
    }
    if (finding.examples.count > finding.examples.texts.size()) text += "    ...\n";
  }
  if (findings.empty()) text += "no problems found\n";
  return text;
}

std::string ReportJson(std::span<const SetSummary> sets, std::span<const Finding> findings) {
  std::string text = "{\"sets\":[";
  for (const SetSummary& set : sets) text += (&set == sets.data() ? "" : ",") + JsonSet(set);
  text += "],\"findings\":[";
  for (const Finding& finding : findings) {
    text += (&finding == findings.data() ? "" : ",") + JsonFinding(finding);
  }
  return text + "]}\n";
}

}  // namespace crema::tools
