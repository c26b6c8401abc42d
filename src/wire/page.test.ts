/** Runs the page's script on a document of bare nodes: enough to see that it shows the real API, and only as text. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { wireLimitsDefault } from "./fields.js";
import { openapi } from "./openapi.js";
import { apiPage } from "./page.js";
import { pageScript } from "./page-script.js";
import { routes } from "./routes.js";

class Bare {
  children: (Bare | string)[] = [];
  className = "";
  id = "";
  href = "";
  constructor(readonly tagName: string) {}
  append(...nodes: (Bare | string)[]): void {
    this.children.push(...nodes);
  }
  prepend(...nodes: (Bare | string)[]): void {
    this.children.unshift(...nodes);
  }
  replaceChildren(...nodes: (Bare | string)[]): void {
    this.children = nodes;
  }
  set textContent(text: string) {
    this.children = [text];
  }
  get text(): string {
    return this.children.map((child) => (typeof child === "string" ? child : child.text)).join("");
  }
  *all(): Generator<Bare> {
    yield this;
    for (const child of this.children) if (typeof child !== "string") yield* child.all();
  }
}

/** What the page shows for a document, or for a server that answers otherwise. */
async function shown(document: unknown, status = 200): Promise<Record<"main" | "nav" | "#version", Bare>> {
  const parts = { main: new Bare("MAIN"), nav: new Bare("NAV"), "#version": new Bare("SPAN") };
  runInNewContext(pageScript, {
    document: {
      body: { getAttribute: () => "/openapi.json" },
      querySelector: (selector: keyof typeof parts) => parts[selector],
      getElementById: () => null,
      createElement: (tag: string) => new Bare(tag.toUpperCase()),
      createTextNode: (text: string) => text,
    },
    location: { origin: "http://localhost:7420", hash: "" },
    fetch: async () => ({
      ok: status === 200,
      status,
      json: async () => JSON.parse(JSON.stringify(document)),
    }),
  });
  await new Promise(setImmediate);
  return parts;
}

const table = routes(wireLimitsDefault);

test("the page shows every route with its curl line, fields and replies", async () => {
  const { main, nav, "#version": version } = await shown(openapi(table, { version: "1.2.3" }));
  assert.equal(version.text, "1.2.3");
  assert.deepEqual(
    nav.children.map((link) => (typeof link === "string" ? link : link.text)),
    ["locks", "jobs", "sessions", "nodes", "tokens", "operate"],
  );
  const boxes = new Map([...main.all()].filter((node) => node.id !== "").map((node) => [node.id, node.text]));
  for (const route of table) assert.ok(boxes.get(route.id)?.includes(route.path), route.id);
  const acquire = boxes.get("acquireLock") ?? "";
  assert.ok(
    acquire.includes(
      `curl -X POST 'http://localhost:7420/locks/deploy-main/acquire' -H "Authorization: Bearer $HOLDFAST_TOKEN" -H 'Content-Type: application/json' -d '{"ttl_seconds":60,"metadata":"host=runner-7 build=1842"}'`,
    ),
    acquire,
  );
  for (const text of [
    "wait_seconds",
    "at most 1024 characters",
    "renew_after_ms",
    "Idempotency-Key (header)",
  ]) {
    assert.ok(acquire.includes(text), text);
  }
  assert.ok(boxes.get("watchLock")?.includes("curl -N 'http"));
  assert.ok(boxes.get("health")?.includes("curl 'http://localhost:7420/health'"));
  assert.equal(main.text.includes("undefined"), false);
});

test("what the document says is never markup or a second shell command", async () => {
  const [first] = table;
  assert.ok(first);
  const hostile = "<img src=x onerror=alert(1)>";
  const body = {
    type: "object",
    properties: { [hostile]: { type: "string" } },
    examples: [{ a: "it's; rm -rf /" }],
  };
  const { main } = await shown(openapi([{ ...first, summary: hostile, body }], { version: hostile }));
  assert.ok(main.text.includes(hostile));
  assert.equal(
    [...main.all()].some((node) => node.tagName === "IMG"),
    false,
  );
  assert.ok(main.text.includes(`-d '{"a":"it'\\''s; rm -rf /"}'`), main.text);
  assert.doesNotMatch(pageScript, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|<\/|\\/);
});

test("a document that cannot be had is said", async () => {
  const { main } = await shown({}, 503);
  assert.equal(main.text, "Could not load /openapi.json: HTTP 503");
});

test("the page loads nothing from elsewhere and escapes what it is given", () => {
  const page = apiPage(`/o"><script>alert(1)</script>`, `n"'>`);
  assert.equal(page.match(/<script/g)?.length, 1);
  assert.ok(page.includes(`data-openapi="/o&quot;&gt;&lt;script&gt;`));
  assert.ok(page.includes(`<script nonce="n&quot;&#39;&gt;">`));
  assert.ok(page.includes(`<style nonce="n&quot;&#39;&gt;">`));
  assert.doesNotMatch(page, /https?:|\burl\(|@import|\sstyle=|\son[a-z]+=/);
  assert.ok(apiPage("/openapi.json").includes("<script>"));
});
