#include "runtime/load_report.h"

#include <algorithm>

#include "core/strings.h"

namespace crema {
namespace {

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void AddNew(const std::vector<std::string>& from, std::vector<std::string>* to) {
  for (const std::string& name : from) {
    if (!Has(*to, name)) to->push_back(name);
  }
}

}  // namespace

void MergeInto(LoadReport* all, const LoadReport& next) {
  AddNew(next.loaded, &all->loaded);
  AddNew(next.at_fillers, &all->at_fillers);
  AddNew(next.not_in_net, &all->not_in_net);
  const auto is_loaded = [&](const std::string& layer) { return Has(all->loaded, layer); };
  std::erase_if(all->at_fillers, is_loaded);
  all->reshaped.insert(all->reshaped.end(), next.reshaped.begin(), next.reshaped.end());
  all->skipped.insert(all->skipped.end(), next.skipped.begin(), next.skipped.end());
  all->renames.insert(all->renames.end(), next.renames.begin(), next.renames.end());
  std::erase_if(all->renames,
                [&](const LoadReport::Rename& rename) { return is_loaded(rename.layer); });
  all->filled.insert(next.filled.begin(), next.filled.end());
  all->learned = next.learned;
}

std::string DescribeLoad(const LoadReport& report, const std::string& file) {
  std::string text = StrCat("weights from ", file, ":\n");
  const auto list = [&](const char* what, const std::vector<std::string>& names) {
    for (const std::string& name : names) text += StrCat("  ", what, "  ", name, "\n");
  };
  const auto list_notes = [&](const char* what, const std::vector<LoadReport::Note>& notes) {
    for (const LoadReport::Note& note : notes) {
      text += StrCat("  ", what, "  ", note.layer, ": ", note.text, "\n");
    }
  };
  list("loaded    ", report.loaded);
  list_notes("reshaped  ", report.reshaped);
  list_notes("skipped   ", report.skipped);
  list("at fillers", report.at_fillers);
  list("not used  ", report.not_in_net);
  return text;
}

std::string LoadWarning(const LoadReport& report, const std::string& files) {
  const auto filled = static_cast<int>(report.filled.size());
  if (2 * filled >= report.learned) return "";
  std::string text = StrCat("only ", filled, " of the ", report.learned,
                            " parameter blobs of the net came from ", files);
  constexpr size_t kMost = 10;
  for (size_t i = 0; i < std::min(report.renames.size(), kMost); ++i) {
    const LoadReport::Rename& rename = report.renames[i];
    text += StrCat("; rename '", rename.layer, "' to '", rename.layer_of_file, "'?",
                   rename.fits ? "" : " (its shapes differ)");
  }
  if (report.renames.size() > kMost) text += "; and more";
  return text;
}

}  // namespace crema
