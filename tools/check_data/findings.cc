#include "check_data/findings.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "core/strings.h"
#include "data/records/datum.h"

namespace crema::tools {
namespace {

// Keys by ordinal, read again for examples.
class Keys {
 public:
  explicit Keys(const SetSummary& set) : reader_(OpenRecords(set.path)) {}
  std::string operator()(const ImageContent& image) {
    reader_->Seek(image.ordinal);
    return StrCat(PrintableKey(reader_->Next().key), " (label ", image.label, ")");
  }

 private:
  const std::unique_ptr<RecordReader> reader_;
};

void AddPair(const std::function<std::string()>& text, Examples* examples) {
  examples->Add(examples->texts.size() < Examples::kMost ? text() : "");
}

class Findings {
 public:
  explicit Findings(std::vector<Finding>* out) : out_(*out) {}

  void Problem(const SetSummary& set, const char* kind, const char* text, Examples examples) {
    Add(true, set, kind, text, std::move(examples));
  }
  void Note(const SetSummary& set, const char* kind, const char* text, Examples examples) {
    Add(false, set, kind, text, std::move(examples));
  }

 private:
  void Add(bool problem, const SetSummary& set, const char* kind, const char* text,
           Examples examples) {
    if (examples.count == 0) return;
    out_.push_back({problem, kind, set.path, text, std::move(examples)});
  }
  std::vector<Finding>& out_;
};

Examples SizeExamples(const SetSummary& set) {
  Examples sizes;
  if (set.sizes.size() < 2) return sizes;
  for (const auto& [size, records] : set.sizes) {
    sizes.Add(StrCat(size[0], "x", size[1], "x", size[2], ": ", records));
  }
  return sizes;
}

Examples GapExamples(const SetSummary& set) {
  Examples gaps;
  for (const int label : LabelGaps(set)) gaps.Add(StrCat(label));
  return gaps;
}

// Finds images that occur more than once, and those of them with differing labels.
void FindDuplicates(const SetSummary& set, Findings* findings) {
  Examples duplicates;
  Examples contradictions;
  std::unique_ptr<Keys> keys;
  for (size_t i = 1; i < set.contents.size(); ++i) {
    const ImageContent& before = set.contents[i - 1];
    const ImageContent& image = set.contents[i];
    if (image.hash != before.hash) continue;
    if (keys == nullptr) keys = std::make_unique<Keys>(set);
    const auto text = [&] { return StrCat((*keys)(before), " = ", (*keys)(image)); };
    AddPair(text, &duplicates);
    if (image.label != before.label) AddPair(text, &contradictions);
  }
  findings->Problem(set, "contradictions", "equal images with different labels", contradictions);
  findings->Note(set, "duplicates", "images that are there before", duplicates);
}

void FindInSet(const SetSummary& set, Findings* findings) {
  findings->Problem(set, "broken", "records that cannot be read", set.broken);
  findings->Problem(set, "negative_labels", "negative labels", set.negative_labels);
  findings->Problem(set, "bad_boxes", "bad boxes", set.bad_boxes);
  FindDuplicates(set, findings);
  findings->Note(set, "label_gaps", "labels that nothing has", GapExamples(set));
  findings->Note(set, "without_boxes", "images without a box", set.without_boxes);
  const bool mixed = set.gray.count > 0 && set.gray.count < set.records - set.broken.count;
  if (mixed) {
    findings->Note(set, "gray", "gray images among others (force_color makes all of them color)",
                   set.gray);
  }
  findings->Note(set, "gray_in_color", "gray images stored as color", set.gray_in_color);
  findings->Note(set, "alpha", "images with an alpha channel (force_color drops it)", set.alpha);
  findings->Note(set, "sizes", "sizes of images (channels x height x width: how many)",
                 SizeExamples(set));
}

// Both lists are sorted by hash.
void FindLeaks(const SetSummary& train, const SetSummary& test, Findings* findings) {
  Examples leaks;
  std::unique_ptr<Keys> train_keys;
  std::unique_ptr<Keys> test_keys;
  auto image = train.contents.begin();
  for (const ImageContent& tested : test.contents) {
    while (image != train.contents.end() && image->hash < tested.hash) ++image;
    if (image == train.contents.end()) break;
    if (image->hash != tested.hash) continue;
    if (train_keys == nullptr) {
      train_keys = std::make_unique<Keys>(train);
      test_keys = std::make_unique<Keys>(test);
    }
    AddPair([&] { return StrCat((*test_keys)(tested), " = ", (*train_keys)(*image)); }, &leaks);
  }
  findings->Problem(test, "leaks", "images that the training set has, too", leaks);
}

void FindStrangeLabels(const SetSummary& train, const SetSummary& test, Findings* findings) {
  Examples strange;
  for (const auto& [label, count] : test.labels) {
    if (!train.labels.contains(label)) strange.Add(StrCat(label, " (", count, " times)"));
  }
  findings->Problem(test, "unknown_labels", "labels that the training set lacks", strange);
}

}  // namespace

std::vector<int> LabelGaps(const SetSummary& set) {
  std::vector<int> gaps;
  constexpr size_t kMost = 100000;  // bounds the list: a label may be 2^31-1
  int next = set.boxes > 0 ? 1 : 0;
  for (const auto& [label, count] : set.labels) {
    for (; next < label && gaps.size() < kMost; ++next) gaps.push_back(next);
    if (label >= next) next = label + 1;
  }
  return gaps;
}

std::vector<Finding> FindAll(std::span<const SetSummary> sets) {
  std::vector<Finding> all;
  Findings findings(&all);
  for (const SetSummary& set : sets) FindInSet(set, &findings);
  if (sets.size() == 2) {
    FindLeaks(sets[0], sets[1], &findings);
    FindStrangeLabels(sets[0], sets[1], &findings);
  }
  return all;
}

}  // namespace crema::tools
