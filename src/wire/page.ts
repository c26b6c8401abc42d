/**
 * The API as a page for people: one self-contained HTML text that loads nothing but the OpenAPI document of its
 * own server. With a nonce it runs under `default-src 'none'; connect-src 'self'; script-src 'nonce-…';
 * style-src 'nonce-…'`.
 */
import { pageScript } from "./page-script.js";

const style = `
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d9dee6; --paper: #fff; --panel: #f5f7fa;
  --link: #0b5cad; --get: #0b5cad; --post: #1a7f4b; --put: #8a5a00;
  --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #333c48; --paper: #12161c;
  --panel: #1b212a; --link: #7ab7f5; --get: #7ab7f5; --post: #6ccf9b; --put: #e0b45c;
  --delete: #f2938c; } }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1rem; }
h1 { margin: 0; } h2 { margin: 2rem 0 0; text-transform: capitalize; } h4 { margin: 1rem 0 .25rem; }
nav { display: flex; flex-wrap: wrap; gap: 1rem; } a { color: var(--link); }
code, pre { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { padding: .75rem; background: var(--panel); border: 1px solid var(--line); border-radius: 4px;
  white-space: pre-wrap; }
p { margin: .25rem 0; }
.operation { margin: .5rem 0; padding: .5rem .75rem; border: 1px solid var(--line); border-radius: 6px; }
summary { cursor: pointer; }
summary > * { margin-right: .75rem; }
.method { display: inline-block; min-width: 4rem; font-weight: 700; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); } .delete { color: var(--delete); }
.path { font-weight: 600; } .access, #version, .bounds { color: var(--soft); font-size: .85rem; }
.required, .s4, .s5, .failed { color: var(--delete); } .required { font-size: .8rem; }
.status { font-weight: 700; } .s2 { color: var(--post); } .shape { font-weight: 600; margin-top: .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-size: .85rem; font-weight: 500; }
`;

/** The page. `openapiUrl` is fetched by the browser, so it may be relative to the page. */
export function apiPage(openapiUrl: string, nonce?: string): string {
  const mark = nonce === undefined ? "" : ` nonce="${escapeHtml(nonce)}"`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Holdfast API</title>
<style${mark}>${style}</style>
</head>
<body data-openapi="${escapeHtml(openapiUrl)}">
<header>
<h1>Holdfast API</h1>
<span id="version"></span>
<a href="${escapeHtml(openapiUrl)}">OpenAPI document</a>
</header>
<nav></nav>
<main><p>Loading…</p></main>
<noscript><p>This page needs JavaScript. The same is in the OpenAPI document above.</p></noscript>
<script${mark}>${pageScript}</script>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  const entities: Record<string, string> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
