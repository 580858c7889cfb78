#include "autotune/report_page.h"

namespace tilewright {

// Colours of marks are from a palette that stays distinct under the common kinds of colour blindness; each mark has a shape of its own too.
llvm::StringRef report_style() {
  return R"css(
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b1f24; --soft: #57606a; --edge: #d5dae0; --grid: #e6e9ed; --hover: #eef3f8;
  --med: #3f5871; --ci: #8aa0b5; --range: #c9d3dd; --win: #b34700; --def: #0067a6; --floor: #00694f; --tie: #fbe8d8; --good: #00694f; --doubt: #9a4a00; }
@media (prefers-color-scheme: dark) { :root {
  --page: #0f1317; --card: #171c22; --text: #e4e8ec; --soft: #a3adb8; --edge: #333c46; --grid: #262d35; --hover: #202833;
  --med: #b9c8d6; --ci: #6f8599; --range: #3d4a57; --win: #ff9e57; --def: #5ab8f0; --floor: #3fcf9f; --tie: #3c2b1d; --good: #3fcf9f; --doubt: #ffb066; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 26px; line-height: 1.2; margin: 8px 0 4px; }
h2 { font-size: 21px; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 16px; margin: 28px 0 6px; }
p { margin: 6px 0; }
a { color: var(--def); }
.sub, .note, figcaption { color: var(--soft); font-size: 13px; }
.note, figcaption { max-width: 80ch; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 20px 22px 24px; margin-top: 24px; }
.figures { display: flex; flex-wrap: wrap; gap: 10px 36px; margin: 16px 0 4px; padding: 0; }
.figures div { min-width: 96px; }
.figures dt { color: var(--soft); font-size: 13px; }
.figures dd { margin: 0; font-size: 22px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.figures dd small { font-size: 13px; color: var(--soft); display: block; }
.config { font: 13px/1.6 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.trust { list-style: none; padding: 0; margin: 6px 0; max-width: 90ch; }
.trust li { padding-left: 24px; position: relative; margin: 3px 0; overflow-wrap: anywhere; }
.sign { position: absolute; left: 2px; font-weight: 700; }
.good .sign { color: var(--good); } .doubt .sign { color: var(--doubt); padding-left: 4px; }
figure { margin: 6px 0; }
.chart, .panel { display: block; max-width: 100%; height: auto; } .panel { width: 100%; }
.slim { display: none; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(264px, 1fr)); gap: 12px 20px; margin: 8px 0; }
.pair { display: flex; flex-wrap: wrap; gap: 16px 32px; align-items: flex-start; } .pair > figure { min-width: 0; } .pair figcaption { max-width: 460px; } .pair > div { flex: 1 1 320px; min-width: 0; }
.scroll { overflow-x: auto; max-width: 100%; } .tall { max-height: 480px; overflow: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--grid); }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; } small { color: var(--soft); font-weight: 400; } .tall thead th { position: sticky; top: 0; background: var(--card); }
tbody th { font-weight: 500; white-space: nowrap; }
th.n, td.n { text-align: right; white-space: nowrap; }
td.fate { white-space: nowrap; } td.bad { color: var(--doubt); font-weight: 600; }
td.reason { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 180px; max-width: 460px; }
td.mono { font: 12px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; min-width: 200px; overflow-wrap: anywhere; }
td ul { margin: 0; padding: 0; list-style: none; } td li { padding-left: 14px; text-indent: -14px; }
tr.winner td { color: var(--win); font-weight: 600; } tr.default td { color: var(--def); font-weight: 600; }
summary { cursor: pointer; }
.key.win { color: var(--win); } .key.def { color: var(--def); } .key.floor { color: var(--floor); } .key { font-weight: 700; }
svg text { fill: var(--text); font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; }
svg text.tick, svg text.unit { fill: var(--soft); font-size: 11px; } svg text.head { font-weight: 600; }
svg text.mono { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
svg text.name, svg text.mono { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
svg text.win { fill: var(--win); font-weight: 600; } svg text.def { fill: var(--def); font-weight: 600; } svg text.floor { fill: var(--floor); font-weight: 600; }
svg text.none { fill: var(--doubt); }
.grid { stroke: var(--grid); } .axis { stroke: var(--soft); } .lead { stroke: var(--soft); fill: none; }
.range { stroke: var(--range); } .ci { stroke: var(--ci); stroke-width: 3; } .wide { stroke-width: 6; } .thin { stroke-width: 1; }
.med { fill: var(--med); } .medline { stroke: var(--med); stroke-width: 2; } .pts circle { r: 2px; fill: var(--med); opacity: .6; } .smp { fill: var(--med); opacity: .55; }
path.win { fill: var(--win); stroke: var(--card); } rect.def { fill: var(--def); stroke: var(--card); }
.level { stroke-width: 1.25; stroke-dasharray: 6 4; fill: none; } .level.win { stroke: var(--win); } .level.def { stroke: var(--def); stroke-dasharray: 2 3; }
.level.floor { stroke: var(--floor); stroke-dasharray: none; }
.tie { fill: var(--tie); } .best { fill: none; stroke: var(--ci); stroke-width: 1.5; } .roof { fill: none; stroke: var(--text); stroke-width: 2; }
.hit { fill: transparent; } .c:hover .hit { fill: var(--hover); } .pts circle:hover, .smp:hover { opacity: 1; stroke: var(--win); stroke-width: 2; }
@media (max-width: 720px) {
  main { padding: 12px 8px 40px; } section { padding: 14px 10px 18px; } .broad { display: none; } .slim { display: block; }
  .figures { gap: 8px 24px; } .figures dd { font-size: 19px; } }
@media print { section { break-inside: avoid-page; } .tall { max-height: none; } }
)css";
}

}  // namespace tilewright
