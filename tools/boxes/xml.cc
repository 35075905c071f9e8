#include "boxes/xml.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

#ifdef CREMA_HAVE_EXPAT
#include <expat.h>

#include <memory>
#include <type_traits>
#include <utility>
#endif

namespace crema::tools {

const XmlElement* XmlElement::Find(std::string_view child) const {
  const auto found = std::ranges::find(children, child, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

#ifdef CREMA_HAVE_EXPAT
namespace {

constexpr size_t kMostDepth = 64;

// State of the handlers, which must not throw: Expat is C.
struct Tree {
  XML_Parser parser = nullptr;
  XmlElement root;
  std::vector<XmlElement> open = {};  // innermost last
  bool too_deep = false;
};

int LineOf(XML_Parser parser) { return static_cast<int>(XML_GetCurrentLineNumber(parser)); }

int ColumnOf(XML_Parser parser) { return static_cast<int>(XML_GetCurrentColumnNumber(parser)) + 1; }

void OnStart(void* data, const XML_Char* name, const XML_Char**) noexcept {
  auto* tree = static_cast<Tree*>(data);
  if (tree->open.size() == kMostDepth) {
    tree->too_deep = true;
    XML_StopParser(tree->parser, XML_FALSE);
    return;
  }
  tree->open.push_back({.name = name,
                        .text = "",
                        .line = LineOf(tree->parser),
                        .column = ColumnOf(tree->parser),
                        .children = {}});
}

void OnEnd(void* data, const XML_Char*) noexcept {
  auto* tree = static_cast<Tree*>(data);
  if (tree->too_deep) return;
  XmlElement closed = std::move(tree->open.back());
  tree->open.pop_back();
  if (tree->open.empty()) {
    tree->root = std::move(closed);
  } else {
    tree->open.back().children.push_back(std::move(closed));
  }
}

void OnText(void* data, const XML_Char* text, int bytes) noexcept {
  auto* tree = static_cast<Tree*>(data);
  if (!tree->open.empty()) tree->open.back().text.append(text, static_cast<size_t>(bytes));
}

[[noreturn]] void FailBroken(const Tree& tree, const std::string& file) {
  std::string what = tree.too_deep ? StrCat("elements are nested more than ", kMostDepth, " deep")
                                   : XML_ErrorString(XML_GetErrorCode(tree.parser));
  if (!tree.open.empty()) {
    what += StrCat(", inside of <", tree.open.back().name, "> from line ", tree.open.back().line);
  }
  Fail(ErrorCode::kDataLoss, "the XML is broken: " + what,
       {.file = file, .line = LineOf(tree.parser), .column = ColumnOf(tree.parser)});
}

}  // namespace

XmlElement ParseXml(std::string_view text, const std::string& file) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  if (text.size() > kMostBytes) {
    Fail(ErrorCode::kDataLoss, "is too large for an annotation", {.file = file});
  }
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, decltype(&XML_ParserFree)> parser(
      XML_ParserCreate(nullptr), &XML_ParserFree);
  if (parser == nullptr) Fail(ErrorCode::kOutOfMemory, "no memory to read XML", {.file = file});
  Tree tree{.parser = parser.get(), .root = {}};
  XML_SetUserData(parser.get(), &tree);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  const int bytes = static_cast<int>(text.size());
  if (XML_Parse(parser.get(), text.data(), bytes, XML_TRUE) != XML_STATUS_OK) {
    FailBroken(tree, file);
  }
  return std::move(tree.root);
}
#else
XmlElement ParseXml(std::string_view, const std::string& file) {
  Fail(ErrorCode::kUnsupported,
       StrCat("'", file, "' is XML, and this program was built without Expat, which reads it: ",
              "install libexpat1-dev and build with CREMA_EXPAT=ON"));
}
#endif

}  // namespace crema::tools
