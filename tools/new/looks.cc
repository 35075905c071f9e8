#include "new/looks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/interrupt.h"
#include "common/ordered_work.h"
#include "common/progress_line.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/image/image.h"
#include "data/pipeline/bad_samples.h"
#include "format/data_file.h"
#include "new/mask_pictures.h"

namespace crema::tools {
namespace {

struct Look {
  size_t index = 0;
  std::string fault = {};  // empty: it was read
  int side = 0;
  bool gray = false;
  std::array<double, 3> mean = {};
  LabelCounts labels = {};
};

bool IsGray(const Image& image) {
  if (image.channels == 1) return true;
  const size_t plane = image.pixels.size() / static_cast<size_t>(image.channels);
  const uint8_t* blue = image.pixels.data();
  return std::equal(blue, blue + plane, blue + plane) &&
         std::equal(blue, blue + plane, blue + 2 * plane);
}

Look LookAt(const PictureSet& set, size_t index) {
  const LabelledPicture& picture = set.pictures[index];
  const std::string path = set.PathOf(picture);
  const bool has_map = !picture.mask.empty();
  Look look{.index = index};
  Image image;
  Image map;
  try {
    DecodeImage(ReadDataFile(path), ColorMode::kAsStored, StrCat("'", path, "'"), &image);
    if (has_map) map = ReadLabelMapImage(picture.mask);
  } catch (const Error& error) {
    if (!IsAboutSample(error)) throw;
    const Problem& problem = error.problems().front();
    const std::string& file = problem.where.file.empty() ? path : problem.where.file;
    look.fault = problem.message;
    if (!look.fault.starts_with("'")) look.fault = StrCat("'", file, "': ", look.fault);
    return look;
  }
  if (has_map) look.labels = CountLabels(picture, image, map, set.classes);
  look.side = std::max(image.height, image.width);
  look.gray = IsGray(image);
  const size_t plane = image.pixels.size() / static_cast<size_t>(image.channels);
  for (size_t c = 0; c < 3; ++c) {
    const size_t begin = image.channels >= 3 ? c * plane : 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < plane; ++i) sum += image.pixels[begin + i];
    look.mean[c] = static_cast<double>(sum) / static_cast<double>(plane);
  }
  return look;
}

void RefuseFaults(const std::vector<std::string>& faults) {
  constexpr size_t kListed = 5;
  std::string text =
      StrCat(faults.size(), faults.size() == 1 ? " picture" : " pictures", " cannot be read:");
  for (size_t i = 0; i < std::min(kListed, faults.size()); ++i) text += "\n  " + faults[i];
  if (faults.size() > kListed) text += StrCat("\n  and ", faults.size() - kListed, " more");
  Fail(ErrorCode::kDataLoss, text + "\nremove them, or leave them out with --on_bad=skip");
}

}  // namespace

Looks LookAtPictures(int threads, bool skip_bad, PictureSet* set) {
  ProgressLine progress({.unit = "pictures", .total = set->pictures.size()});
  std::vector<std::string> faults;
  std::vector<LabelledPicture> good;
  std::vector<int> sides;
  Looks looks;
  LabelCounts labels = {};
  size_t next = 0;
  const auto read = [&]() -> std::optional<size_t> {
    EndIfInterrupted();
    return next < set->pictures.size() ? std::optional(next++) : std::nullopt;
  };
  const auto work = [&](size_t i) { return LookAt(*set, i); };
  const auto write = [&](const Look& look) {
    progress.Add();
    if (!look.fault.empty()) {
      faults.push_back(look.fault);
      if (skip_bad) progress.Warn("left out: " + look.fault);
      return;
    }
    good.push_back(std::move(set->pictures[look.index]));
    sides.push_back(look.side);
    looks.gray = looks.gray && look.gray;
    for (size_t c = 0; c < 3; ++c) looks.mean[c] += look.mean[c];
    for (size_t label = 0; label < labels.size(); ++label) labels[label] += look.labels[label];
  };
  RunInOrder(threads, read, work, write);
  progress.Clear();
  if (!faults.empty() && !skip_bad) RefuseFaults(faults);
  if (good.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("none of the pictures in '", set->root, "' can be read"));
  }
  set->pictures = std::move(good);
  if (set->task == PictureTask::kSegment) SetClassesAndShares(labels, set);
  std::ranges::nth_element(sides, sides.begin() + static_cast<std::ptrdiff_t>(sides.size() / 2));
  looks.typical_side = sides[sides.size() / 2];
  for (double& mean : looks.mean) mean /= static_cast<double>(set->pictures.size());
  return looks;
}

}  // namespace crema::tools
