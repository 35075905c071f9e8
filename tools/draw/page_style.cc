#include "draw/page.h"

namespace crema::tools {

const std::string_view kDrawingStyle = R"(
:root{--bg:#f6f7f9;--card:#fff;--ink:#1c2128;--soft:#5c6773;--line:#dfe3e8;--accent:#2563b4;
--hot:214,84,20;--mix:100%;--edge:#6b7580}
@media(prefers-color-scheme:dark){:root{--bg:#12161b;--card:#1b2027;--ink:#e4e8ed;--soft:#98a3af;
--line:#303843;--accent:#6aa5f2;--hot:240,120,60;--mix:32%;--edge:#8a95a1}}
*{box-sizing:border-box}
html,body{height:100%}
body{margin:0;display:flex;flex-direction:column;background:var(--bg);color:var(--ink);
font:14px/1.45 system-ui,sans-serif;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 14px;padding:10px 16px}
h1{font-size:18px;margin:0}h2{font-size:15px;margin:0 0 2px}h3{font-size:12px;margin:12px 0 2px;
color:var(--soft);font-weight:600}
p{margin:0}
.soft{color:var(--soft);font-size:12px}
main{flex:1;min-height:0;display:grid;grid-template-columns:330px minmax(0,1fr);
border-top:1px solid var(--line)}
aside{display:flex;flex-direction:column;min-height:0;border-right:1px solid var(--line);
background:var(--card);padding:10px 12px 0}
input{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:6px;
padding:5px 9px;margin:4px 0;width:100%}
button{font:inherit;color:inherit;background:none;border:1px solid var(--line);border-radius:6px;
cursor:pointer;min-height:30px;padding:2px 9px}
:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
#list{list-style:none;margin:4px 0 0;padding:2px;overflow-y:auto;flex:1 1 40%;min-height:90px}
#list button{display:flex;gap:8px;width:100%;border:0;border-radius:4px;text-align:left;padding:3px 6px;
min-height:0;background:linear-gradient(90deg,rgba(var(--hot),.28) var(--time,0%),transparent 0)}
#list button:hover{background-color:var(--bg)}
#list button[aria-current=true]{box-shadow:inset 3px 0 var(--accent)}
#list b{font-weight:500;min-width:0}
#list span{margin-left:auto;text-align:right;color:var(--soft);font-size:12px;flex:none;max-width:55%}
#details{flex:1 1 60%;overflow-y:auto;border-top:1px solid var(--line);padding:10px 0;min-height:0}
#details article+article{margin-top:18px;border-top:1px solid var(--line);padding-top:12px}
#details table{border-collapse:collapse;width:100%;font-size:13px}
#details td{padding:1px 8px 1px 0;vertical-align:baseline}
#details td+td{text-align:right;padding-right:0;white-space:nowrap}
#details td button{min-height:0;padding:0 6px;text-align:left}
details{font-size:12px;color:var(--soft)}summary{cursor:pointer}
pre{font:12px/1.45 ui-monospace,monospace;white-space:pre-wrap;background:var(--bg);border-radius:6px;
padding:7px 9px;margin:2px 0}
.bars{display:block;width:100%;height:56px;margin-top:4px}
.bars rect{fill:var(--accent)}
.ends{display:flex;justify-content:space-between;border-top:1px solid var(--line)}
#view{position:relative;overflow:hidden;touch-action:none;cursor:grab;min-height:0}
#view.moving{cursor:grabbing}
#view>svg{display:block;width:100%;height:100%;user-select:none;-webkit-user-select:none}
#tools{position:absolute;top:10px;right:10px;display:flex;gap:4px;z-index:1}
#tools button{background:var(--card);min-width:34px}
#view text{fill:var(--ink);font-family:system-ui,sans-serif}
.graph>polygon{fill:none;stroke:none}.graph>text{display:none}
.edge path{stroke:var(--edge)}.edge polygon{stroke:var(--edge);fill:var(--edge)}
.node{cursor:pointer}
.node path,.node ellipse{fill:color-mix(in srgb,var(--fill) var(--mix),var(--bg));stroke:var(--edge)}
.times .node path{fill:color-mix(in srgb,rgb(var(--hot)) var(--heat,0%),var(--card))}
.node.chosen path{stroke:var(--accent);stroke-width:3}
.edge.near path{stroke:var(--accent);stroke-width:2.5}
.edge.near polygon{stroke:var(--accent);fill:var(--accent)}
.searching .node:not(.match){opacity:.35}.searching .edge:not(.near){opacity:.35}
@media(max-width:760px){main{grid-template-columns:minmax(0,1fr);
grid-template-rows:minmax(0,11fr) minmax(0,9fr)}
aside{border-right:0;border-top:1px solid var(--line);grid-row:2}
#list{flex:1 1 35%;min-height:60px}header{padding:8px 12px}}
)";

}  // namespace crema::tools
