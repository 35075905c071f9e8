// Adjusts SVG text of Graphviz.
#pragma once

#include <map>
#include <string>

namespace crema::tools {

// Replaces the titles of elements, which browsers show at the pointer, by those given, by id.
// Removes comments.
std::string WithTitles(const std::string& svg, const std::map<std::string, std::string>& titles);

// Returns the <svg> element without what comes before it in a file, to be part of a page.
std::string SvgElement(const std::string& svg);

}  // namespace crema::tools
