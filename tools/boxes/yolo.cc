#include "boxes/yolo.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

[[noreturn]] void FailLine(const std::string& file, int line, const std::string& what) {
  Fail(ErrorCode::kDataLoss, what, {.file = file, .line = line, .column = 1});
}

std::vector<double> NumbersIn(std::string_view text, const std::string& file, int line) {
  std::vector<double> numbers;
  for (size_t begin = text.find_first_not_of(" \t"); begin != std::string_view::npos;
       begin = text.find_first_not_of(" \t", begin)) {
    const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    double number = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || last != word.data() + word.size() || !std::isfinite(number)) {
      FailLine(file, line, StrCat("'", word, "' is not a number"));
    }
    numbers.push_back(number);
    begin = end;
  }
  return numbers;
}

// The corners of the numbers after the class.
BoxObject BoxOf(const std::vector<double>& numbers) {
  BoxObject box;
  if (numbers.size() == 5) {
    box.xmin = numbers[1] - numbers[3] / 2;
    box.ymin = numbers[2] - numbers[4] / 2;
    box.xmax = numbers[1] + numbers[3] / 2;
    box.ymax = numbers[2] + numbers[4] / 2;
    return box;
  }
  box.xmin = box.xmax = numbers[1];
  box.ymin = box.ymax = numbers[2];
  for (size_t i = 3; i + 1 < numbers.size(); i += 2) {
    box.xmin = std::min(box.xmin, numbers[i]);
    box.xmax = std::max(box.xmax, numbers[i]);
    box.ymin = std::min(box.ymin, numbers[i + 1]);
    box.ymax = std::max(box.ymax, numbers[i + 1]);
  }
  return box;
}

BoxObject ObjectOf(const std::vector<double>& numbers, const std::vector<std::string>& names,
                   const std::string& file, int line) {
  const bool polygon = numbers.size() >= 7 && numbers.size() % 2 == 1;
  if (numbers.size() != 5 && !polygon) {
    FailLine(file, line,
             StrCat("has ", numbers.size(), " numbers; a label is `class x y width height`"));
  }
  if (numbers[0] < 0 || numbers[0] >= static_cast<double>(names.size()) ||
      numbers[0] != std::floor(numbers[0])) {
    FailLine(file, line,
             StrCat("class ", numbers[0], " has no name: the names are ", Join(names, ", ")));
  }
  BoxObject box = BoxOf(numbers);
  for (double* corner : {&box.xmin, &box.ymin, &box.xmax, &box.ymax}) {
    constexpr double kRounding = 0.01;
    if (*corner < -kRounding || *corner > 1 + kRounding) {
      FailLine(file, line,
               "the box is outside the picture: numbers are in units of the picture, 0 "
               "to 1, not in pixels");
    }
    *corner = std::clamp(*corner, 0.0, 1.0);
  }
  if (!(box.xmin < box.xmax && box.ymin < box.ymax)) FailLine(file, line, "the box has no area");
  box.name = names[static_cast<size_t>(numbers[0])];
  box.line = line;
  return box;
}

std::string WithoutQuotes(std::string_view text) {
  text = Trim(text);
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                      text.back() == text.front();
  return std::string(quoted ? text.substr(1, text.size() - 2) : text);
}

// The part before a comment that stands alone.
std::string_view WithoutComment(std::string_view line) {
  const size_t comment = line.starts_with('#') ? 0 : line.find(" #");
  return comment == std::string_view::npos ? line : line.substr(0, comment);
}

// Collects `names` of a .yaml: [a, b], lines `- a`, or lines `0: a`.
std::vector<std::string> NamesOfYaml(const std::string& text) {
  std::map<int, std::string> names;
  int next = 0;
  bool within = false;
  for (const std::string& whole : Split(text, '\n')) {
    const std::string_view line = WithoutComment(whole);
    const std::string_view item = Trim(line);
    if (item.empty()) continue;
    if (!within) {
      if (!line.starts_with("names:")) continue;
      within = true;
      const std::string_view list = Trim(line.substr(6));
      if (!list.starts_with('[') || !list.ends_with(']')) continue;
      for (const std::string& name : Split(list.substr(1, list.size() - 2), ',')) {
        names[next++] = WithoutQuotes(name);
      }
      break;
    }
    int number = 0;
    const size_t colon = item.find(':');
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
    if (item.starts_with("- ")) {
      names[next++] = WithoutQuotes(item.substr(2));
    } else if (colon != std::string_view::npos && error == std::errc() &&
               end == item.data() + colon && number >= 0) {
      names[number] = WithoutQuotes(item.substr(colon + 1));
    } else {
      break;  // the next key
    }
  }
  std::vector<std::string> all;
  constexpr int kMost = 1 << 16;
  for (const auto& [number, name] : names) {
    if (number >= kMost) break;
    all.resize(static_cast<size_t>(number) + 1);
    all.back() = name;
  }
  return all;
}

}  // namespace

BoxAnnotation ReadYoloLabels(const std::string& file, const std::vector<std::string>& names) {
  BoxAnnotation annotation;
  annotation.path = file;
  annotation.width = 1;
  annotation.height = 1;
  int line = 0;
  for (const std::string& text : Split(ReadDataFile(file), '\n')) {
    ++line;
    const std::vector<double> numbers = NumbersIn(Trim(text), file, line);
    if (numbers.empty()) continue;
    annotation.objects.push_back(ObjectOf(numbers, names, file, line));
  }
  return annotation;
}

std::vector<std::string> ReadYoloNames(const std::string& file) {
  const std::string text = ReadDataFile(file);
  std::vector<std::string> names;
  if (file.ends_with(".yaml") || file.ends_with(".yml")) {
    names = NamesOfYaml(text);
  } else {
    for (const std::string& line : Split(text, '\n')) {
      if (!Trim(line).empty()) names.emplace_back(Trim(line));
    }
  }
  if (names.empty()) {
    Fail(ErrorCode::kDataLoss, "has no names of classes: write `names: [cat, dog]`",
         {.file = file});
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = std::to_string(i);
  }
  return names;
}

}  // namespace crema::tools
