#include "draw/svg.h"

#include <string_view>

#include "common/html_text.h"
#include "core/error.h"

namespace crema::tools {
namespace {

// Returns the text between two marks that follow `from`; moves `from` after it. Empty: none.
std::string Between(const std::string& text, std::string_view begin, std::string_view end,
                    size_t* from) {
  const size_t first = text.find(begin, *from);
  if (first == std::string::npos) return {};
  const size_t last = text.find(end, first + begin.size());
  if (last == std::string::npos) return {};
  *from = last;
  return text.substr(first + begin.size(), last - first - begin.size());
}

std::string WithoutComments(const std::string& svg) {
  constexpr std::string_view kBegin = "<!--";
  constexpr std::string_view kEnd = "-->\n";
  std::string text;
  size_t at = 0;
  for (;;) {
    const size_t begin = svg.find(kBegin, at);
    const size_t end = begin == std::string::npos ? begin : svg.find(kEnd, begin);
    if (end == std::string::npos) return text + svg.substr(at);
    text.append(svg, at, begin - at);
    at = end + kEnd.size();
  }
}

}  // namespace

std::string WithTitles(const std::string& svg, const std::map<std::string, std::string>& titles) {
  constexpr std::string_view kGroup = "<g id=\"";
  constexpr std::string_view kTitle = "<title>";
  constexpr std::string_view kTitleEnd = "</title>";
  const std::string plain = WithoutComments(svg);
  std::string text;
  size_t copied = 0;
  size_t at = 0;
  for (;;) {
    const std::string id = Between(plain, kGroup, "\"", &at);
    if (id.empty()) return text + plain.substr(copied);
    const auto title = titles.find(id);
    if (title == titles.end()) continue;
    const size_t begin = plain.find(kTitle, at);
    const size_t end = begin == std::string::npos ? begin : plain.find(kTitleEnd, begin);
    if (end == std::string::npos) continue;
    text.append(plain, copied, begin + kTitle.size() - copied);
    text += HtmlText(title->second);
    copied = end;
  }
}

std::string SvgElement(const std::string& svg) {
  const size_t begin = svg.find("<svg");
  if (begin == std::string::npos) {
    Fail(ErrorCode::kIoFailure, "Graphviz's `dot` wrote no SVG");
  }
  return svg.substr(begin);
}

}  // namespace crema::tools
