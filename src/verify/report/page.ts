/** The frame of the HTML report: escaping, and a style that follows the reader's light or dark. Nothing is loaded. */

/** Text that has been made safe to stand in a page. */
export class Html {
  constructor(readonly text: string) {}
}

type Part = string | number | Html | readonly Html[];

/** Builds HTML; whatever is put in is escaped unless it was built here. */
export function html(parts: TemplateStringsArray, ...values: readonly Part[]): Html {
  return new Html(
    parts.reduce((text, part, nth) => text + (nth === 0 ? "" : partText(values[nth - 1] ?? "")) + part, ""),
  );
}

function partText(part: Part): string {
  if (part instanceof Html) return part.text;
  if (typeof part === "string" || typeof part === "number") return escaped(String(part));
  return part.map(({ text }) => text).join("");
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => entities[char] ?? char);

/** Colours of processes, as hues: apart from each other, and from the red of what is wrong. */
export const hues = [210, 145, 275, 45, 185, 320, 95, 240, 165, 300, 70, 225] as const;

const style = `
:root { color-scheme: light dark; --bg: #fff; --panel: #f6f7f9; --ink: #1b1f24; --soft: #5c6670; --line: #d9dee3;
  --good: #14713a; --bad: #b3261e; --warn: #8a5a00; --bar: 62%; --on-bar: #10151a; }
@media (prefers-color-scheme: dark) { :root { --bg: #14171a; --panel: #1d2125; --ink: #e4e8ec; --soft: #9aa5af;
  --line: #333a41; --good: #58c98a; --bad: #ff8a80; --warn: #f0bd5a; --bar: 55%; --on-bar: #0b0e10; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 18px; margin: 0 0 12px; color: var(--soft); font-weight: 600; }
h2 { font-size: 19px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0 0 6px; }
.verdict { border-left: 6px solid var(--good); background: var(--panel); padding: 14px 18px; border-radius: 4px; }
.verdict strong { display: block; font-size: 26px; line-height: 1.25; color: var(--good); }
.verdict.violated { border-color: var(--bad); } .verdict.violated strong { color: var(--bad); }
.verdict.unsure { border-color: var(--warn); } .verdict.unsure strong { color: var(--warn); }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 14px 0 0; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; overflow-wrap: anywhere; }
article { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 4px; padding: 12px 14px; margin: 0 0 12px; }
article p { margin: 0 0 8px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; white-space: nowrap; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.n { text-align: right; } td.bad { color: var(--bad); font-weight: 600; } td.warn { color: var(--warn); font-weight: 600; }
td small { color: var(--soft); }
.counts { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 18px; color: var(--soft); }
.counts b { color: var(--ink); } .counts .warn, .counts .warn b { color: var(--warn); }
code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; font-weight: 600; }
summary span { font-weight: 400; color: var(--soft); }
.lanes { display: flex; margin-top: 8px; }
.lanes ol { list-style: none; margin: 0; padding: 22px 10px 0 0; flex: none; }
.lanes li { height: 26px; line-height: 26px; font: 12px/26px ui-monospace, monospace; }
.lanes div { overflow-x: auto; flex: 1; }
svg { display: block; } svg text { font: 10px ui-monospace, monospace; }
.tick { stroke: var(--line); } .time { fill: var(--soft); } .token { fill: var(--on-bar); }
.lost { stroke: var(--bad); stroke-width: 1.6; } .refused { fill: var(--warn); } .accused { stroke: var(--bad); stroke-width: 2.5; }
.legend { margin: 6px 0 0; font-size: 13px; color: var(--soft); } .legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 4px 0 10px; }
${hues.map((hue, nth) => `.p${nth} { fill: hsl(${hue} 60% var(--bar)); background: hsl(${hue} 60% var(--bar)); }`).join("\n")}
`;

export const page = (title: string, body: Html): string =>
  `${
    html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${new Html(style)}</style>
</head>
<body><main>
${body}
</main></body>
</html>
`.text
  }`;
