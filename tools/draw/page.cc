#include "draw/page.h"

#include "common/html_text.h"
#include "common/json.h"
#include "core/strings.h"
#include "draw/svg.h"
#include "format/prototxt.h"

namespace crema::tools {
namespace {

// Forbids external resources, whatever the files contain.
constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="crema draw">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; )"
                                   R"(style-src 'unsafe-inline'; script-src 'unsafe-inline'">
)";

constexpr std::string_view kBody = R"(<main>
<aside>
<label for="search" class="soft">Search layers by name or type (/)</label>
<input type="search" id="search" autocomplete="off" spellcheck="false">
<p class="soft" id="found" role="status"></p>
<ul id="list"></ul>
<section id="details" aria-live="polite"><p class="soft">Choose a layer to see its parameters.</p></section>
</aside>
<div id="view" tabindex="0" role="group" aria-label="Drawing: arrow keys move, plus and minus zoom, 0 shows all">
<div id="tools" role="group" aria-label="Zoom"><button type="button" data-do="in" aria-label="zoom in">+</button><button type="button" data-do="out" aria-label="zoom out">−</button><button type="button" data-do="all">all</button><button type="button" data-do="start">1:1</button></div>
)";

size_t Index(int i) { return static_cast<size_t>(i); }

// Returns the fields of a layer beside its name, type and blobs, as text.
std::string ParameterText(const LayerParameter& layer) {
  LayerParameter rest = layer;
  rest.clear_name();
  rest.clear_type();
  rest.clear_bottom();
  rest.clear_top();
  rest.clear_blobs();
  return PrintText(rest);
}

std::string BlobsJson(const Graph& graph, const std::vector<LayerInfo>& infos,
                      const std::vector<int>& values) {
  std::vector<std::string> texts;
  for (const int v : values) {
    texts.push_back(StrCat("{\"name\":", JsonString(graph.values[Index(v)].name),
                           ",\"shape\":", JsonString(ShapeText(graph, infos, v)), "}"));
  }
  return StrCat("[", Join(texts, ","), "]");
}

std::string WeightsJson(const Node& node, const LayerInfo& info, const NetFacts& facts) {
  std::vector<std::string> texts;
  for (size_t p = 0; p < info.parameters.size(); ++p) {
    const ParameterInfo& parameter = info.parameters[p];
    const auto histogram = facts.weights.find({node.name(), static_cast<int>(p)});
    texts.push_back(StrCat(
        "{\"role\":", JsonString(parameter.role), ",\"shape\":",
        JsonString(ToString(parameter.shape)), ",\"count\":", parameter.shape.count(),
        histogram == facts.weights.end() ? "" : ",\"histogram\":" + ToJson(histogram->second),
        "}"));
  }
  return StrCat("[", Join(texts, ","), "]");
}

std::string SkippedJson(const std::vector<SkippedImplementation>& skipped) {
  std::vector<std::string> texts;
  for (const SkippedImplementation& one : skipped) {
    texts.push_back(StrCat("[", JsonString(one.implementation), ",", JsonString(one.reason), "]"));
  }
  return StrCat("[", Join(texts, ","), "]");
}

std::string LayerJson(const Graph& graph, const std::vector<LayerInfo>& infos, size_t n,
                      const std::string& box, const NetFacts& facts) {
  const Node& node = graph.nodes[n];
  std::string json = StrCat("{\"name\":", JsonString(node.name()),
                            ",\"type\":", JsonString(node.type->name), ",\"box\":", JsonString(box),
                            ",\"brief\":", JsonString(BriefParameters(node.layer->param())),
                            ",\"text\":", JsonString(ParameterText(node.layer->param())),
                            ",\"inputs\":", BlobsJson(graph, infos, node.inputs),
                            ",\"outputs\":", BlobsJson(graph, infos, node.outputs),
                            ",\"weights\":", WeightsJson(node, infos[n], facts));
  if (const auto planned = facts.plan.find(node.name()); planned != facts.plan.end()) {
    json += StrCat(",\"implementation\":", JsonString(planned->second.implementation),
                   ",\"skipped\":", SkippedJson(planned->second.skipped));
  }
  if (const auto times = facts.times.find(node.name()); times != facts.times.end()) {
    json += StrCat(",\"times\":{\"forward\":", JsonNumber(times->second.forward_ms),
                   ",\"backward\":", JsonNumber(times->second.backward_ms),
                   ",\"share\":", JsonNumber(times->second.share), "}");
  }
  return json + "}";
}

std::string LayersJson(const Graph& graph, const std::vector<LayerInfo>& infos,
                       const NetDrawing& drawing, const NetFacts& facts) {
  std::vector<std::string> layers(graph.nodes.size());
  for (const NetDrawing::Box& box : drawing.boxes) {
    for (const size_t n : box.nodes) layers[n] = LayerJson(graph, infos, n, box.id, facts);
  }
  return StrCat("[", Join(layers, ",\n"), "]");
}

std::string ArrowsJson(const NetDrawing& drawing) {
  std::vector<std::string> arrows;
  for (const NetDrawing::Arrow& arrow : drawing.arrows) {
    arrows.push_back(StrCat("[\"", arrow.id, "\",\"", arrow.from, "\",\"", arrow.to, "\"]"));
  }
  return StrCat("[", Join(arrows, ","), "]");
}

}  // namespace

std::map<std::string, std::string> TitlesOf(const Graph& graph, const std::vector<LayerInfo>& infos,
                                            const NetDrawing& drawing, const NetFacts& facts) {
  const std::vector<std::string> remarks = Remarks(graph, facts);
  std::map<std::string, std::string> titles;
  for (const NetDrawing::Box& box : drawing.boxes) {
    std::string& title = titles[box.id];
    for (const size_t n : box.nodes) {
      const Node& node = graph.nodes[n];
      const std::string brief = BriefParameters(node.layer->param());
      title += StrCat(title.empty() ? "" : "\n", node.name(), ": ", node.type->name,
                      brief.empty() ? "" : " " + brief);
      for (const ParameterInfo& parameter : infos[n].parameters) {
        title += StrCat("; ", parameter.role, " ", ToString(parameter.shape));
      }
      if (!remarks[n].empty()) title += "; " + remarks[n];
    }
  }
  for (const NetDrawing::Arrow& arrow : drawing.arrows) {
    titles[arrow.id] =
        StrCat(graph.values[Index(arrow.value)].name, " ", ShapeText(graph, infos, arrow.value));
  }
  return titles;
}

std::string DrawingPage(const Graph& graph, const std::vector<LayerInfo>& infos,
                        const NetDrawing& drawing, const NetFacts& facts, const std::string& svg) {
  int64_t parameters = 0;
  for (const LayerInfo& info : infos) {
    for (const ParameterInfo& one : info.parameters) parameters += one.shape.count();
  }
  const std::string title =
      StrCat(graph.name.empty() ? "Net" : graph.name, ", ", Phase_Name(graph.state.phase()));
  return StrCat(kHead, "<title>", HtmlText(title), "</title>\n<style>", kDrawingStyle,
                "</style>\n</head>\n<body>\n<header><h1>", HtmlText(title),
                "</h1><p class=\"soft\">", NumberForPeople(static_cast<double>(infos.size())),
                " layers, ", NumberForPeople(static_cast<double>(parameters)),
                " parameters</p></header>\n", kBody, SvgElement(svg),
                "</div>\n</main>\n<script type=\"application/json\" id=\"data\">",
                "{\"layers\":", ScriptJson(LayersJson(graph, infos, drawing, facts)),
                ",\"arrows\":", ArrowsJson(drawing), "}</script>\n<script>", kDrawingScript,
                "</script>\n</body>\n</html>\n");
}

}  // namespace crema::tools
