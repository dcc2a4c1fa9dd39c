#include "engine/profile/report_parts.h"

namespace strata::engine {

const char* const kReportStyle = R"css(
:root {
  --page: #f6f7f9; --card: #fff; --text: #1d2433; --faint: #667085; --line: #e4e7ec;
  --wait: #d5dae3;
  --c0: #2563eb; --c1: #e8590c; --c2: #099268; --c3: #9c36b5; --c4: #c92a2a; --c5: #0c8599;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151c; --card: #1b202b; --text: #e4e8f0; --faint: #98a2b3; --line: #2d3442;
    --wait: #3b4354; --c0: #6ea8fe; --c1: #ffa94d; --c2: #51cf99; --c3: #cc8fe0; --c4: #ff8787;
    --c5: #66d9e8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1280px; padding: 28px 20px 60px; background: var(--page);
  color: var(--text); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}
h1 { margin: 0; font-size: 24px; }
h2 { margin: 0 0 10px; font-size: 15px; }
h2 small { color: var(--faint); font-weight: 400; }
header p { margin: 2px 0 18px; color: var(--faint); }
section {
  padding: 16px 18px; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
}
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.tiles div {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px;
}
.tiles b { display: block; font-size: 20px; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--faint); font-size: 12px; }
.grid2 {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 16px;
  margin: 16px 0; align-items: start;
}
.wide { margin: 16px 0; overflow-x: auto; }
.missing { margin: 16px 0; border-color: var(--c1); }
.missing ul { margin: 0; padding-left: 20px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font-size: 11px; }
svg .grid { stroke: var(--line); }
svg .guide { stroke: var(--faint); stroke-dasharray: 2 3; }
svg polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; color: var(--faint); font-size: 12px; }
.legend i {
  display: inline-block; width: 12px; margin: 0 6px 3px 0; vertical-align: middle;
  border-top: 3px solid currentColor;
}
.legend i.dash { width: 20px; border-top: 2px dashed currentColor; }
.none { color: var(--faint); padding: 60px 0; text-align: center; }
canvas { display: block; width: 100%; cursor: grab; touch-action: none; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td {
  padding: 4px 12px 4px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line);
}
th { color: var(--faint); font-weight: 500; }
table.shares td + td, table.shares th + th { text-align: right; padding: 4px 8px; }
table.shares td.work { font-weight: 600; }
table.facts td { overflow-wrap: anywhere; }
.note { margin: 10px 0 0; color: var(--faint); }
#tip {
  display: none; position: fixed; pointer-events: none; padding: 6px 10px; border-radius: 6px;
  background: #1d2433; color: #fff; font-size: 12px; line-height: 1.45; max-width: 340px;
}
)css";

}  // namespace strata::engine
