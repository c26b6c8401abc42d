import assert from "node:assert/strict";
import { test } from "node:test";
import Type from "typebox";
import { wireLimitsDefault } from "./fields.js";
import { openapi } from "./openapi.js";
import { type Route, routes } from "./routes.js";

type Json = Record<string, unknown>;

const table = routes(wireLimitsDefault);
/** As a reader gets it. */
const document: Json = JSON.parse(JSON.stringify(openapi(table, { version: "1.2.3" })));

function find(pointer: string): unknown {
  assert.ok(pointer.startsWith("#/"), pointer);
  return pointer
    .slice(2)
    .split("/")
    .reduce<unknown>((at, key) => (at as Json | undefined)?.[key], document);
}

function operationOf(route: Route): Json {
  const operation = (find("#/paths") as Record<string, Json>)[route.path]?.[route.method.toLowerCase()];
  assert.ok(operation, `${route.method} ${route.path}`);
  return operation as Json;
}

function operationById(id: string): Json {
  const route = table.find((each) => each.id === id);
  assert.ok(route);
  return operationOf(route);
}

/** Every object in the document. */
function* objects(value: unknown): Generator<Json> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield value as Json;
  for (const each of Object.values(value)) yield* objects(each);
}

test("the document has every route, with every status, and nothing else", () => {
  const paths = find("#/paths") as Record<string, Json>;
  const calls = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method} ${path}`),
  );
  assert.deepEqual(
    calls.toSorted(),
    table.map((route) => `${route.method.toLowerCase()} ${route.path}`).toSorted(),
  );
  for (const route of table) {
    const operation = operationOf(route);
    assert.equal(operation.operationId, route.id);
    assert.deepEqual(Object.keys(operation.responses as Json), Object.keys(route.replies));
    assert.equal("requestBody" in operation, route.body !== undefined);
  }
});

test("operation ids are unique and tags are declared", () => {
  const ids = table.map((route) => operationOf(route).operationId);
  assert.equal(new Set(ids).size, ids.length);
  const declared = (document.tags as Json[]).map((tag) => tag.name);
  for (const route of table) {
    for (const tag of operationOf(route).tags as string[]) assert.ok(declared.includes(tag), tag);
  }
});

test("every reference leads somewhere, and every component is used", () => {
  const used = new Set<string>();
  for (const each of objects(document)) {
    if (typeof each.$ref !== "string") continue;
    assert.ok(find(each.$ref), each.$ref);
    used.add(each.$ref);
  }
  for (const kind of ["schemas", "parameters", "headers"]) {
    for (const name of Object.keys(find(`#/components/${kind}`) as Json)) {
      assert.match(name, /^[A-Za-z0-9._-]+$/);
      assert.ok(used.has(`#/components/${kind}/${name}`), `${kind}/${name} is used`);
    }
  }
});

test("every response and parameter is complete", () => {
  for (const route of table) {
    const operation = operationOf(route);
    for (const response of Object.values(operation.responses as Record<string, Json>)) {
      assert.equal(typeof response.description, "string");
    }
    const parameters = (operation.parameters ?? []) as Json[];
    const inPath = parameters.filter((parameter) => parameter.in === "path");
    const braces = [...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    assert.deepEqual(
      inPath.map((parameter) => parameter.name),
      braces,
    );
    for (const parameter of inPath) assert.equal(parameter.required, true);
  }
});

test("only open routes go without a bearer token", () => {
  for (const route of table) {
    assert.deepEqual(operationOf(route).security, route.access === "open" ? [] : [{ bearer: [] }], route.id);
  }
});

test("headers, streams and empty replies are told", () => {
  const idempotency = { $ref: "#/components/parameters/Idempotency-Key" };
  const space = { $ref: "#/components/parameters/Holdfast-Space" };
  assert.deepEqual((operationById("acquireLock").parameters as Json[]).slice(-2), [idempotency, space]);
  for (const route of table)
    assert.equal(
      JSON.stringify(operationOf(route).parameters ?? []).includes("/Holdfast-Space"),
      route.access !== "open",
      route.id,
    );
  for (const id of ["watchLock", "watchLocks"]) {
    const watch = operationById(id);
    assert.deepEqual((watch.parameters as Json[]).at(-2), { $ref: "#/components/parameters/Last-Event-ID" });
    const ok = (watch.responses as Record<string, Json>)["200"];
    assert.deepEqual(Object.keys(ok?.content as Json), ["text/event-stream"]);
  }
  const gone = (operationById("deleteSession").responses as Record<string, Json>)["204"];
  assert.equal("content" in (gone ?? {}), false);
});

test("a page size is a number to clients, and a body is required only where a field is", () => {
  const limit = (operationById("listLocks").parameters as Json[]).find((each) => each.name === "limit");
  assert.deepEqual(limit?.schema, { type: "integer", minimum: 1 });
  assert.equal((operationById("acquireLock").requestBody as Json).required, false);
  assert.equal((operationById("renewLock").requestBody as Json).required, true);
});

test("version and server are told", () => {
  assert.equal((document.info as Json).version, "1.2.3");
  assert.deepEqual(document.servers, [{ url: "/" }]);
  const placed = openapi(table, { version: "1", serverUrl: "https://locks.example" });
  assert.deepEqual(placed.servers, [{ url: "https://locks.example" }]);
});

test("two different schemas of one title are a mistake", () => {
  const [first] = table;
  assert.ok(first);
  const clash: Route = { ...first, path: "/locks", body: Type.Object({}, { title: "Error" }) };
  assert.throws(() => openapi([...table, clash], { version: "1" }), /two different schemas/);
});
